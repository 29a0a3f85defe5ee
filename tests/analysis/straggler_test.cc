#include "analysis/straggler.h"

#include <gtest/gtest.h>

#include "tests/analysis/paced_job.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

constexpr StragglerOptions kOptions;

std::map<std::string, NodeVerdict> Find(const std::vector<RankPace>& paces, WallTime now,
                                        const StragglerOptions& options = kOptions) {
  return FindStragglers(paces, SharesOf(paces, paces.size(), now + options.windows.lag, {}, options.windows), options);
}

Duration Milliseconds(double value) { return Duration(static_cast<int64_t>(value * 1e6)); }

TEST(Straggler, IsTheNodeWhoseRanksAreSlow) {
  for (const double factor : {1.16, 1.4, 2.0}) {
    PacedJob job{.ranks = 8, .ranks_per_node = 2, .work = [=](int rank, int, std::mt19937& random) {
                   std::normal_distribution<double> scatter(1, 0.02);
                   return Milliseconds(100 * scatter(random) * (rank / 2 == 1 ? factor : 1));
                 }};
    const auto verdicts = Find(job.Play(), job.End());
    ASSERT_EQ(verdicts.size(), 4u);
    for (const auto& [node, verdict] : verdicts) {
      EXPECT_EQ(verdict.state, node == "n1" ? NodeState::kSlow : NodeState::kHealthy) << node << " " << factor;
    }
    const NodeVerdict& slow = verdicts.at("n1");
    EXPECT_NEAR(slow.slowdown, (factor * 100 + 10) / 110, 0.05 * factor);
    EXPECT_EQ(slow.windows_over, 5);
    EXPECT_EQ(slow.windows_known, 5);
    EXPECT_EQ(slow.ranks, (std::vector<int32_t>{2, 3}));
    EXPECT_EQ(slow.ranks_here, 2u);
    EXPECT_EQ(slow.communicators, 1);
    EXPECT_GT(slow.deviations, 4);
  }
}

TEST(Straggler, OfTwoNodesIsTheSlowerOne) {
  PacedJob job{
      .ranks = 4, .ranks_per_node = 2, .work = [](int rank, int, std::mt19937&) { return rank >= 2 ? 140ms : 100ms; }};
  const auto verdicts = Find(job.Play(), job.End());
  EXPECT_EQ(verdicts.at("n0").state, NodeState::kHealthy);
  EXPECT_EQ(verdicts.at("n1").state, NodeState::kSlow);
}

TEST(Straggler, IsNotTheOneThatWasSlowForAMoment) {
  // Slow for 70 s in the middle of the latest 5 minutes, and again for the last 30.
  PacedJob job{.work = [](int rank, int step, std::mt19937&) {
    const bool is_slow = rank == 2 && (step > 1800 && step < 2300);
    return is_slow ? 140ms : 100ms;
  }};
  const auto verdicts = Find(job.Play(), job.End());
  EXPECT_EQ(verdicts.at("n2").state, NodeState::kSuspect);
  EXPECT_GE(verdicts.at("n2").windows_over, 1);
  EXPECT_LT(verdicts.at("n2").windows_over, 4);
}

TEST(Straggler, IsOverWhenItIsFastAgain) {
  PacedJob job{.work = [](int rank, int step, std::mt19937&) {
    return rank == 2 && step < 1980 ? 140ms : 100ms;  // four windows, and the last is good
  }};
  const NodeVerdict verdict = Find(job.Play(), job.End()).at("n2");
  EXPECT_EQ(verdict.state, NodeState::kSuspect);
  EXPECT_EQ(verdict.windows_over, 4);
}

// Sixteen ranks in four stages of four, as paces by hand: `share(rank)` of own time.
std::vector<RankPace> Pipeline(WallTime end, bool stages_share_nodes, const std::function<double(int)>& share) {
  std::vector<RankPace> paces;
  const int64_t last = end.time_since_epoch() / 5s * 5;
  for (int rank = 0; rank < 16; ++rank) {
    const int stage = rank / 4, place = rank % 4;
    RankPace pace;
    pace.world_rank = rank;
    // Either a node holds one rank of each stage, or a whole stage.
    pace.node = "n" + std::to_string(stages_share_nodes ? place : stage);
    pace.comms = {{1, true, false},
                  {static_cast<uint64_t>(100 + stage), true, false},
                  {static_cast<uint64_t>(200 + place), false, true}};
    for (int64_t start = last - 400; start < last; start += 5) {
      const auto own = Duration(static_cast<int64_t>(share(rank) * 5e9));
      pace.windows.push_back({start, 50, own, 5s - own, 0});
    }
    paces.push_back(std::move(pace));
  }
  return paces;
}

TEST(Straggler, IsNeverANodeForTheStageOnIt) {
  const WallTime end{500'000h};
  const auto last_stage = [](int rank) { return rank / 4 == 3 ? 0.8 : 0.5; };
  // The ranks of each stage are on all nodes: they are all alike.
  for (const auto& [node, verdict] : Find(Pipeline(end, true, last_stage), end)) {
    EXPECT_EQ(verdict.state, NodeState::kHealthy) << node;
  }
  // A stage is a node: there is nobody to compare it with.
  for (const auto& [node, verdict] : Find(Pipeline(end, false, last_stage), end)) {
    EXPECT_EQ(verdict.state, NodeState::kUnknown) << node;
    EXPECT_FALSE(verdict.why_not.empty());
  }
  // A slow node among them is told all the same.
  const auto sick = [](int rank) { return (rank / 4 == 3 ? 0.7 : 0.5) + (rank % 4 == 2 ? 0.15 : 0); };
  for (const auto& [node, verdict] : Find(Pipeline(end, true, sick), end)) {
    EXPECT_EQ(verdict.state, node == "n2" ? NodeState::kSlow : NodeState::kHealthy) << node;
    EXPECT_EQ(verdict.ranks.size(), node == "n2" ? 4u : 0u);
  }
}

TEST(Straggler, WhatIsSlowByFitsIsNotCalledHealthy) {
  const WallTime end{500'000h};
  std::vector<RankPace> paces = Pipeline(end, true, [](int) { return 0.5; });
  EXPECT_EQ(Find(paces, end).at("n2").state, NodeState::kHealthy);
  // As of a processor that is taken away now and then: 1.2 times in the mean of each minute.
  for (RankPace& pace : paces) {
    for (PaceWindow& window : pace.windows) {
      const bool is_slow = pace.node == "n2" && window.start % 10 == 0;
      window.own = is_slow ? 4150ms : 2500ms;
      window.inside = 5s - window.own;
    }
  }
  for (const auto& [node, verdict] : Find(paces, end)) {
    EXPECT_EQ(verdict.state, node == "n2" ? NodeState::kSuspect : NodeState::kHealthy) << node;
  }
}

TEST(Straggler, IsNobodyWithoutData) {
  const WallTime end{500'000h};
  std::vector<RankPace> paces = Pipeline(end, true, [](int rank) { return rank % 4 == 2 ? 0.8 : 0.5; });
  EXPECT_EQ(Find(paces, end).at("n2").state, NodeState::kSlow);
  for (const auto& [node, verdict] : Find(paces, end + 10min)) EXPECT_EQ(verdict.state, NodeState::kUnknown) << node;
  // Half of the ranks are silent.
  for (RankPace& pace : paces) {
    if (pace.world_rank % 2 == 1) pace.windows.clear();
  }
  for (const auto& [node, verdict] : Find(paces, end)) {
    EXPECT_EQ(verdict.state, NodeState::kUnknown) << node;
    EXPECT_NE(verdict.why_not.find("8 of 16"), std::string::npos) << verdict.why_not;
  }
}

TEST(Straggler, IsNobodyInHundredHealthyAndImbalancedRuns) {
  for (uint64_t run = 0; run < 100; ++run) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(run));
    const double sigma = std::vector<double>{0.005, 0.05, 0.2, 0.5}[run % 4];
    const bool has_tail = run % 3 == 0;  // sequence lengths: few steps take very long, on any rank
    PacedJob job;
    job.ranks = 4 + static_cast<int>(random() % 13);
    job.ranks_per_node = 1 + static_cast<int>(random() % 2);
    job.transfer = std::chrono::milliseconds(random() % 60);
    job.seed = run;
    job.work = [=](int rank, int, std::mt19937& engine) {
      std::lognormal_distribution<double> length(0, sigma);
      const double tail = has_tail && engine() % 20 == 0 ? 3 : 1;
      const double uneven = 1 + 0.004 * (rank % 7);  // never quite the same
      return Milliseconds(150 * length(engine) * tail * uneven);
    };
    for (const auto& [node, verdict] : Find(job.Play(), job.End())) {
      EXPECT_NE(verdict.state, NodeState::kSlow) << "run " << run << " " << node << " " << verdict.slowdown;
    }
  }
}

}  // namespace
}  // namespace paceline::analysis
