// What slow ranks cost a run that goes on, from the paces of its ranks (pace.h): the slowdown S of the run, S_w of each
// rank, and the error of both. After the what-if study (arXiv 2505.05713), whose S is the time of a step over what it
// would be without stragglers, with one difference: a rank without stragglers works as long as the median rank (the
// lower one of two), not as the mean, which in small jobs the straggler itself moves.
//
//   share of a rank = own / (own + inside)         S = 1 / (1 - (largest share - median share))
//   S_w = 1 + (share of w - median share) / (1 - (largest share - median share))
//
// Shares are of windows, each rank's the median over them: what varies from step to step (sequence lengths, garbage
// collection) is not in S, and checkpoints are not either. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/pace.h"

namespace paceline::analysis {

struct SlowdownOptions {
  Duration window = std::chrono::seconds(60);  // at least kPaceWindow
  int windows = 5;
  double maximum_missing = 0.2;   // share of ranks without data, above which a window is not known
  uint64_t least_operations = 8;  // of a rank in a window
  double maximum_ahead = 0.5;     // share of operations launched ahead, above which the host's time says nothing
  Duration lag = std::chrono::seconds(10);  // windows that ended so long ago have been told
};

// One rank in one window. Not there: not known.
struct RankShare {
  double share = 0;
  double seconds_per_operation = 0;
};

// The latest windows of a run, oldest first.
struct ShareWindow {
  WallTime start;
  bool is_known = false;
  std::string why_not;                          // when it is not
  double missing = 0;                           // share of the ranks
  std::vector<std::optional<RankShare>> ranks;  // as in the paces that it was made from
};

struct ShareTable {
  std::vector<ShareWindow> windows;
  std::vector<double> noise;  // of each rank's share in one window: one standard deviation
};

// `expected_ranks`: processes of the run, of which `ranks` may be a part. Windows that began before `since` count as
// not known. Windows in which the whole run did less than half of what it usually does, as for a checkpoint, are
// left out of the sums.
ShareTable SharesOf(std::span<const RankPace> ranks, size_t expected_ranks, WallTime now, WallTime since,
                    const SlowdownOptions& options);

struct WorkerSlowdown {
  int32_t world_rank = -1;
  std::string node;
  double slowdown = 1;
  double late_seconds = 0;  // per operation, behind the median rank; negative for who comes earlier
};

struct Slowdown {
  std::optional<double> slowdown;  // nothing: not known
  std::optional<double> error;     // half width
  std::string why_not;
  std::vector<WorkerSlowdown> workers;  // all that are known, the slowest first
};

Slowdown SlowdownOf(std::span<const RankPace> ranks, const ShareTable& shares, const SlowdownOptions& options);

// What a share is taken for at most above others: a rank that only works and never waits costs 100 times, not for ever.
inline constexpr double kLargestExcess = 0.99;

// Of values in any order; the lower of the two in the middle. Zero for none.
double LowerMedian(std::vector<double> values);
// Of a normal distribution with this median absolute deviation from the lower median: one standard deviation.
double RobustDeviation(const std::vector<double>& values);

}  // namespace paceline::analysis
