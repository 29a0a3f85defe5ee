// Who comes late to collectives, and which link is slow: the evidence for a run that goes on, but slowly.
//
// Fed with ended operations, by the agent for the ranks of its node or by the operator for all. Pure functions. Times
// of arrival must be on one clock; where hosts differ by more than what is measured the lateness is theirs.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "analysis/trace_model.h"

namespace paceline::analysis {

// A rank's launch of a collective.
struct Arrival {
  uint64_t comm = 0;
  uint64_t index = 0;  // place in the order of the communicator
  int32_t rank = 0;
  WallTime at;
};

struct RankLateness {
  int32_t rank = 0;
  uint64_t operations = 0;
  uint64_t times_last = 0;
  Duration median{};  // behind the first rank
};

// Per rank of one communicator, over operations of which at least two ranks are there. By rank.
std::vector<RankLateness> LatenessOf(uint64_t comm, std::span<const Arrival> arrivals);

// A rank that is last in most operations, by much more than the others. kUnknown when nobody stands out.
struct LatenessOptions {
  uint64_t least_operations = 20;
  double share_last = 0.6;
  Duration least = std::chrono::milliseconds(5);
  double times_others = 3;
};
std::optional<RankLateness> FindLateRank(std::span<const RankLateness> ranks, const LatenessOptions& options = {});

// What a network operation that has ended took. Times are sums over its steps.
struct LinkUse {
  uint64_t comm = 0;
  int32_t from = 0, to = 0;  // ranks of the communicator
  uint64_t bytes = 0;
  Duration network{};  // given to the network, not yet sent
};

struct LinkRate {
  int32_t from = 0, to = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  double bytes_per_second = 0;
};

// Rates of the links of one communicator; those without bytes or time are left out.
std::vector<LinkRate> RatesOf(uint64_t comm, std::span<const LinkUse> uses);
// The slowest link, when it has less than `share` of the median of all and there are at least three.
std::optional<LinkRate> FindSlowLink(std::span<const LinkRate> rates, double share = 0.5);

}  // namespace paceline::analysis
