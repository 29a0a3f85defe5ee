#include "analysis/comm_progress.h"

#include <gtest/gtest.h>

namespace paceline::analysis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ProcessView Rank(int32_t rank, uint64_t operations) {
  ProcessView process;
  process.world_rank = rank;
  process.node = rank < 2 ? "n1" : "n2";
  process.state = ProcessState::kRunning;
  CommView comm;
  comm.id = 0x5ace;
  comm.name = "dp";
  comm.rank = rank;
  comm.ranks = 4;
  comm.operations = operations;
  process.comms.push_back(comm);
  return process;
}

CallView OpenCall(const char* func, uint64_t sequence, Duration still) {
  CallView call;
  call.kind = CallKind::kColl;
  call.comm = 0;
  call.sequence = sequence;
  call.func = func;
  call.open_proxies = 1;
  call.still = still;
  return call;
}

TEST(CommProgress, EqualRanksHaveNobodyBehind) {
  Tables tables;
  for (int32_t rank = 0; rank < 4; ++rank) tables.processes.push_back(Rank(rank, 100));
  const auto all = ProgressOf(tables);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].seen, 4u);
  EXPECT_EQ(all[0].ranks, 4);
  EXPECT_EQ(all[0].least_operations, 100u);
  EXPECT_EQ(all[0].most_operations, 100u);
  EXPECT_EQ(all[0].waiting, 0u);
  EXPECT_FALSE(all[0].behind);
}

TEST(CommProgress, TheRankWithFewestOperationsIsBehind) {
  Tables tables;
  for (int32_t rank = 0; rank < 4; ++rank) {
    tables.processes.push_back(Rank(rank, rank == 2 ? 99 : 100));
    if (rank == 2) continue;
    tables.processes.back().calls = {OpenCall("AllReduce", 99, seconds(4 + rank)),
                                     OpenCall("Broadcast", 98, seconds(9))};
  }
  const CommProgress progress = ProgressOf(tables).at(0);
  EXPECT_EQ(progress.waiting, 3u);
  EXPECT_EQ(progress.function, "AllReduce") << "the newest of those that go on";
  EXPECT_EQ(progress.still, Duration(seconds(4))) << "since any of them moved";
  ASSERT_TRUE(progress.behind);
  EXPECT_EQ(progress.behind->world_rank, 2);
  EXPECT_EQ(progress.behind->node, "n2");
}

TEST(CommProgress, OfEqualOperationsTheFewestStepsAreBehind) {
  Tables tables;
  for (int32_t rank = 0; rank < 4; ++rank) {
    ProcessView process = Rank(rank, 7);
    process.calls = {OpenCall("AllGather", 6, milliseconds(2500))};
    ProxyView proxy;
    proxy.comm = 0;
    proxy.done = rank == 1 ? 3 : 5;
    proxy.still = milliseconds(rank == 3 ? 1500 : 2500);
    process.proxies = {proxy, proxy};
    tables.processes.push_back(process);
  }
  const CommProgress progress = ProgressOf(tables).at(0);
  ASSERT_TRUE(progress.behind);
  EXPECT_EQ(progress.behind->world_rank, 1);
  EXPECT_EQ(progress.behind->steps, 6u);
  EXPECT_EQ(progress.still, Duration(milliseconds(1500)));
}

TEST(CommProgress, AStoppedRankIsBehindThoseThatLaunchedAsMuch) {
  Tables tables;
  for (int32_t rank = 0; rank < 4; ++rank) {
    ProcessView process = Rank(rank, rank == 3 ? 8 : 7);
    ProxyView proxy;
    proxy.comm = 0;
    proxy.done = rank == 0 ? 1 : 4;
    process.proxies = {proxy};
    if (rank >= 2) process.state = ProcessState::kStopped;
    tables.processes.push_back(process);
  }
  EXPECT_EQ(ProgressOf(tables).at(0).behind->world_rank, 2);
}

TEST(CommProgress, LeavesOutWhatHasNoIdAndWhatAllHaveClosed) {
  Tables tables;
  ProcessView process = Rank(0, 3);
  process.comms[0].is_open = false;
  process.comms.push_back({});
  tables.processes.push_back(process);
  EXPECT_TRUE(ProgressOf(tables).empty());
  process.comms[0].is_open = true;
  tables.processes.push_back(process);
  EXPECT_EQ(ProgressOf(tables).size(), 1u) << "one rank still has it";
  EXPECT_TRUE(ProgressOf({}).empty());
}

TEST(CommProgress, CallsOfTheApplicationAreNoOperations) {
  Tables tables;
  ProcessView process = Rank(0, 3);
  process.calls = {OpenCall("AllReduce", 2, seconds(1))};
  process.calls[0].kind = CallKind::kCollApi;
  tables.processes.push_back(process);
  EXPECT_EQ(ProgressOf(tables).at(0).waiting, 0u);
}

}  // namespace
}  // namespace paceline::analysis
