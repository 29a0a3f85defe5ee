// Why a run that goes on is slow, when a link is: all links of a communicator, side by side. Asked after Diagnose
// (root_cause.h) found nothing that stands still. Two signs, neither of which compares clocks of two machines:
//
//   rate  bytes that a link carried over the time that they were with the network. It shows where NCCL learns that data
//         has arrived (InfiniBand), not where a socket takes it and is slow behind (TCP).
//   gap   steps that the sender has given away and the receiver has not got. On a slow link some always are; on the
//         links behind it the receivers wait for what their senders do not have either.
//
// Pure; a LinkGaps belongs to one thread.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "analysis/trace_model.h"

namespace paceline::analysis {

struct SlowLinkOptions {
  double share = 0.5;             // of the median rate of the communicator's links: less is slow
  uint64_t least_operations = 5;  // that a link must have carried to count
  double least_gap = 1;           // steps, on average over the looks
  double times_gap = 3;           // of the median gap of the other links
  int least_looks = 8;            // at a link
};

// The gaps of one run, gathered over looks at the tables of all its nodes.
class LinkGaps {
 public:
  // Tables of different nodes may be some 100 ms apart: of many looks the mean is right.
  void Add(const Tables& tables);

  struct Gap {
    int32_t from = 0, to = 0;  // ranks of the communicator
    int looks = 0;
    double steps = 0;  // mean
  };
  // By communicator.
  std::map<uint64_t, std::vector<Gap>> gaps() const;

 private:
  struct Sum {
    int looks = 0;
    double steps = 0;
  };
  std::map<std::tuple<uint64_t, int32_t, int32_t>, Sum> sums_;
};

// The link that stands out most by its rate, else by its gap, over all communicators: a verdict of category Network
// with the edge, both ends as culprits, and the figures. Nothing when no link does, or fewer than three of a
// communicator are known.
std::optional<Verdict> FindSlowLinks(const Tables& tables, const LinkGaps& gaps, const SlowLinkOptions& options = {});

// Why a run is slow: what stands still, else the slow link, else kNone. Of a run that no agent calls slow it may say
// too much: of many links one always is the slowest.
Verdict DiagnoseSlowdown(const Tables& tables, const LinkGaps& gaps);

}  // namespace paceline::analysis
