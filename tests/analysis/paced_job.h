// A synchronous training job on paper: each step is each rank's own work and then a collective of all, which ends on
// all ranks at once. Ranks have clocks of their own.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "analysis/pace.h"

namespace paceline::analysis {

struct PacedJob {
  int ranks = 8;
  int ranks_per_node = 1;
  Duration transfer = std::chrono::milliseconds(10);
  Duration length = std::chrono::seconds(400);
  WallTime begin{std::chrono::hours(500'000)};
  // Own work of a rank in a step.
  std::function<Duration(int rank, int step, std::mt19937& random)> work;
  uint64_t seed = 1;

  std::string NodeOf(int rank) const { return "n" + std::to_string(rank / ranks_per_node); }

  // Plays it. `mean_step` gets the mean length of its steps.
  std::vector<RankPace> Play(Duration* mean_step = nullptr) const {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    std::vector<PaceMeter> meters(static_cast<size_t>(ranks));
    WallTime now = begin;
    int step = 0;
    for (; now < begin + length; ++step) {
      std::vector<Duration> own;
      Duration longest{};
      for (int rank = 0; rank < ranks; ++rank) {
        own.push_back(work(rank, step, random));
        longest = std::max(longest, own.back());
      }
      const WallTime end = now + longest + transfer;
      for (int rank = 0; rank < ranks; ++rank) {
        const Duration skew = std::chrono::milliseconds(37 * (rank % 5));  // of the rank's clock
        meters[static_cast<size_t>(rank)].Add(1, true, now + own[static_cast<size_t>(rank)] + skew, end + skew);
      }
      now = end;
    }
    if (mean_step != nullptr) *mean_step = (now - begin) / step;
    std::vector<RankPace> paces;
    for (int rank = 0; rank < ranks; ++rank) {
      PaceMeter& meter = meters[static_cast<size_t>(rank)];
      meter.Close(now + std::chrono::seconds(60));
      paces.push_back({rank, NodeOf(rank), {{1, true, false}}, meter.Windows({})});
    }
    return paces;
  }
  // When its windows have all been told.
  WallTime End() const { return begin + length + std::chrono::seconds(5); }
};

}  // namespace paceline::analysis
