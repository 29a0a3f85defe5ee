#include "agent/trace/run_history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::agent {
namespace {

using namespace std::chrono_literals;
using analysis::ProcessState;
using analysis::ProcessView;

class History : public testing::Test {
 protected:
  EndedOperation Ended(uint64_t index, Duration duration, int32_t rank = 0) {
    EndedOperation operation;
    operation.comm = 7;
    operation.comm_name = "dp";
    operation.rank = operation.world_rank = rank;
    operation.index = index;
    operation.func = "AllReduce";
    operation.bytes = 4000;
    operation.start = wall_ + std::chrono::milliseconds(index);
    operation.duration = duration;
    return operation;
  }

  // A process with an operation that has been going on for `still`.
  ProcessView Process(Duration still) {
    ProcessView process;
    process.run = "run-1";
    process.pid = 42;
    process.world_rank = 3;
    process.state = ProcessState::kRunning;
    process.comms.push_back({7, "dp", 0, 2, 2, true, 5});
    analysis::CallView call;
    call.kind = analysis::CallKind::kColl;
    call.comm = 0;
    call.func = "AllReduce";
    call.datatype = "ncclFloat32";
    call.count = 1000;
    call.open_proxies = 2;
    call.age = call.still = still;
    process.calls.push_back(call);
    return process;
  }

  void Fill(int operations, Duration duration) {
    std::vector<EndedOperation> ended;
    for (int i = 0; i < operations; i++) ended.push_back(Ended(static_cast<uint64_t>(i), duration));
    history_.Add(ended, {});
  }

  std::vector<TraceTrigger> JudgeAt(Duration after, const std::vector<ProcessView>& processes) {
    return history_.Judge(processes, TimePoint(1h) + after, wall_ + after);
  }

  WallTime wall_{std::chrono::hours(500000)};
  RunHistory history_{"run-1", {}};
};

TEST_F(History, RaisesAStallOnceForAsLongAsItHolds) {
  Fill(20, 10ms);
  EXPECT_TRUE(JudgeAt(0s, {Process(1s)}).empty());
  const auto raised = JudgeAt(3s, {Process(4s)});
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_EQ(raised[0].kind, TraceTriggerKind::kStall);
  EXPECT_EQ(raised[0].world_rank, 3);
  EXPECT_EQ(raised[0].run, "run-1");
  EXPECT_NE(raised[0].detail.find("dp"), std::string::npos);
  EXPECT_TRUE(JudgeAt(4s, {Process(5s)}).empty());
  EXPECT_TRUE(history_.HasOpen(TraceTriggerKind::kStall));
  EXPECT_TRUE(JudgeAt(5s, {Process(10ms)}).empty());
  EXPECT_FALSE(history_.HasOpen(TraceTriggerKind::kStall));
  EXPECT_EQ(JudgeAt(9s, {Process(4s)}).size(), 1u);
}

TEST_F(History, WaitsLongerWhereNothingIsUsualYet) {
  EXPECT_TRUE(JudgeAt(0s, {Process(7s)}).empty());
  EXPECT_EQ(JudgeAt(1s, {Process(8s)}).size(), 1u);
}

TEST_F(History, SeesStepsThatMoveInACallThatDoesNot) {
  ProcessView process = Process(20s);
  process.proxies.push_back({});
  process.proxies[0].call = 0;
  process.proxies[0].still = 100ms;
  EXPECT_TRUE(JudgeAt(0s, {process}).empty());
}

TEST_F(History, TakesAnApplicationsOpenCallForAStall) {
  ProcessView process = Process(9s);
  process.calls[0].kind = analysis::CallKind::kCollApi;
  process.calls[0].open_proxies = 0;
  process.calls[0].is_open = true;
  EXPECT_EQ(JudgeAt(0s, {process}).size(), 1u);
}

TEST_F(History, RaisesALostProcessUnlessTheWholeJobEnds) {
  ProcessView dead = Process(0s);
  dead.state = ProcessState::kDead;
  EXPECT_TRUE(JudgeAt(0s, {dead}).empty());
  ProcessView other = Process(0s);
  other.pid = 43;
  const auto raised = JudgeAt(1s, {dead, other});
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_EQ(raised[0].kind, TraceTriggerKind::kProcessLost);
  EXPECT_TRUE(JudgeAt(2s, {dead, other}).empty());
  ProcessView foreign = dead;
  foreign.run = "another";
  foreign.pid = 44;
  EXPECT_TRUE(JudgeAt(3s, {dead, other, foreign}).empty());
}

TEST_F(History, RaisesASlowdownAgainstWhatIsUsual) {
  Fill(20, 10ms);
  EXPECT_TRUE(JudgeAt(0s, {}).empty());
  Fill(20, 15ms);
  EXPECT_TRUE(JudgeAt(10s, {}).empty());
  Fill(20, 40ms);
  EXPECT_TRUE(JudgeAt(15s, {}).empty());  // the window is not over
  const auto raised = JudgeAt(20s, {});
  ASSERT_EQ(raised.size(), 1u);
  EXPECT_EQ(raised[0].kind, TraceTriggerKind::kSlowdown);
  EXPECT_TRUE(JudgeAt(21s, {}).empty());
  EXPECT_TRUE(history_.HasOpen(TraceTriggerKind::kSlowdown));
  // What is slow has not become usual.
  Fill(20, 40ms);
  EXPECT_TRUE(JudgeAt(30s, {}).empty());
  EXPECT_TRUE(history_.HasOpen(TraceTriggerKind::kSlowdown));
  Fill(20, 12ms);
  JudgeAt(40s, {});
  EXPECT_FALSE(history_.HasOpen(TraceTriggerKind::kSlowdown));
}

TEST_F(History, KeepsABoundedPastAndGivesItSinceATime) {
  for (int i = 0; i < 100; i++) {
    std::vector<EndedOperation> ended;
    std::vector<analysis::LinkUse> links;
    for (int j = 0; j < 100; j++) {
      const auto index = static_cast<uint64_t>(i) * 100 + static_cast<uint64_t>(j);
      ended.push_back(Ended(index, 10ms, 0));
      ended.push_back(Ended(index, 10ms, 1));
      ended.back().start += 5ms;
      links.push_back({7, 0, 1, 1000, 1ms});
    }
    history_.Add(ended, links);
  }
  JudgeAt(0s, {});
  EXPECT_EQ(history_.operations().size(), 4096u);
  Json json = history_.Records(wall_);
  EXPECT_EQ(json["operations"].size(), 4096u);
  EXPECT_EQ(json["usual"][0]["sizeClass"], 11);
  EXPECT_EQ(json["usual"][0]["operations"], 20000);
  EXPECT_NEAR(json["links"][0]["bytesPerSecond"].get<double>(), 1e6, 1);
  ASSERT_EQ(json["lateness"].size(), 2u);
  EXPECT_EQ(json["lateness"][1]["median"], 5'000'000);
  EXPECT_EQ(json["lateness"][1]["timesLast"], json["lateness"][1]["operations"]);
  json = history_.Records(wall_ + 9990ms);
  EXPECT_EQ(json["operations"].size(), 25u);  // 10 of the first rank, 15 of the second, which starts 5 ms later
}

TEST_F(History, TakesThePaceOfEachRankOnce) {
  std::vector<EndedOperation> ended;
  for (int i = 0; i < 600; i++) {
    for (int32_t rank : {-1, 3, 4}) {
      ended.push_back(Ended(static_cast<uint64_t>(i), 40ms, rank));
      ended.back().start = wall_ + i * 100ms + 60ms;
    }
  }
  history_.Add(ended, {});
  JudgeAt(60s, {});
  const std::vector<analysis::RankPace> paces = history_.Paces(wall_ + 40s);
  ASSERT_EQ(paces.size(), 2u) << "a rank that is not known has no place";
  EXPECT_EQ(paces[0].world_rank, 3);
  EXPECT_EQ(paces[1].world_rank, 4);
  for (const analysis::RankPace& pace : paces) {
    ASSERT_EQ(pace.comms.size(), 1u);
    EXPECT_EQ(pace.comms[0].id, 7u);
    ASSERT_EQ(pace.windows.size(), 3u);  // from 40, 45 and 50 s; that at 55 s is not over
    EXPECT_EQ(pace.windows[0].operations, 50u);
    EXPECT_EQ(pace.windows[0].own, 3s);
  }
}

}  // namespace
}  // namespace paceline::agent
