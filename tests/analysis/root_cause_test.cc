#include "analysis/root_cause.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "analysis/tables_json.h"
#include "tests/analysis/ring_model.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;
using collectives::Function;

std::vector<int32_t> RanksOf(const Verdict& verdict) {
  std::vector<int32_t> ranks;
  for (const Culprit& culprit : verdict.culprits) ranks.push_back(culprit.world_rank);
  return ranks;
}

std::string Text(const Verdict& verdict) { return DumpJsonPretty(WriteVerdict(verdict)); }

struct FaultCase {
  Fault fault;
  Category category;
  double confidence = 0.85;  // at least: nothing else may look like a cause
};

class RootCause : public testing::TestWithParam<FaultCase> {};

// Every kind of fault at any rank, at any moment, in rings of several sizes.
TEST_P(RootCause, NamesTheRankAndTheCause) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 60; seed++) {
    const uint32_t ranks = 3 + random() % 6;
    const auto function = static_cast<Function>(random() % 3);
    RingFault fault{GetParam().fault, static_cast<uint32_t>(random() % ranks), random() % 20};
    const bool is_kernel = fault.fault == Fault::kKernelStuck;
    if (is_kernel) fault.at = 1 + fault.at;
    const Tables tables = RingModel(ranks, 1 + random() % 3, function, fault).Snapshot();
    const Verdict verdict = Diagnose(tables);
    SCOPED_TRACE(testing::Message() << ranks << " ranks, rank " << fault.rank << " at " << fault.at << ", function "
                                    << static_cast<int>(function) << "\n"
                                    << Text(verdict));
    ASSERT_EQ(verdict.category, GetParam().category);
    const auto rank = static_cast<int32_t>(fault.rank);
    if (GetParam().category == Category::kNone) {
      ASSERT_TRUE(verdict.culprits.empty());
      continue;
    }
    const auto next = static_cast<int32_t>((fault.rank + 1) % ranks);
    if (fault.fault == Fault::kLinkFrozen || fault.fault == Fault::kLinkLoses) {
      ASSERT_EQ(RanksOf(verdict), (std::vector<int32_t>{rank, next}));
      ASSERT_TRUE(verdict.edge.has_value());
      ASSERT_EQ(verdict.edge->from, rank);
      ASSERT_EQ(verdict.edge->to, next);
    } else {
      ASSERT_EQ(RanksOf(verdict), std::vector<int32_t>{rank});
      ASSERT_EQ(verdict.culprits[0].node, "node-" + std::to_string(rank));
    }
    ASSERT_EQ(verdict.communicator, "dp");
    ASSERT_GE(verdict.confidence, GetParam().confidence);
    ASSERT_LE(verdict.confidence, 1.0);
    ASSERT_FALSE(verdict.evidence.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, RootCause,
                         testing::Values(FaultCase{Fault::kNothing, Category::kNone},
                                         FaultCase{Fault::kNeverLaunches, Category::kNotLaunched},
                                         FaultCase{Fault::kInTheCall, Category::kHostStuck},
                                         FaultCase{Fault::kKernelNotStarted, Category::kGpuStuck, 0.79},
                                         FaultCase{Fault::kKernelStuck, Category::kGpuStuck, 0.79},
                                         FaultCase{Fault::kLinkFrozen, Category::kNetwork, 0.69},
                                         FaultCase{Fault::kLinkLoses, Category::kNetwork, 0.59},
                                         FaultCase{Fault::kFlushStuck, Category::kIntraNodeLink, 0.59},
                                         FaultCase{Fault::kPostsNothing, Category::kReceiverNotReady, 0.69}));

Tables Stuck(Fault fault, uint32_t rank, uint32_t ranks = 4) {
  return RingModel(ranks, 2, Function::kAllReduce, {fault, rank, 5}).Snapshot();
}

TEST(RootCauseWalk, TakesAProcessThatEndedOrIsStoppedFirst) {
  Tables tables = Stuck(Fault::kNeverLaunches, 2);
  tables.processes[1].state = ProcessState::kStopped;
  Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kHostStuck);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{1});
  // The first to end is the cause; the others end because of it.
  tables.processes[3].state = tables.processes[0].state = ProcessState::kDead;
  tables.processes[3].ended_for = 9s;
  tables.processes[0].ended_for = 2s;
  verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kProcessLost);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{3});
  // Those that never closed their communicators look alike at the end of a job.
  for (ProcessView& process : tables.processes) process.state = ProcessState::kDead;
  EXPECT_EQ(Diagnose(tables).category, Category::kNone);
}

TEST(RootCauseWalk, ComparesDescriptorsBeforeProgress) {
  Tables tables = Stuck(Fault::kKernelStuck, 0);
  tables.processes[2].calls[1].count /= 2;
  Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kMismatch);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{2});
  // Two against two: nobody can say who is right.
  tables.processes[3].calls[1].count /= 2;
  verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kMismatch);
  EXPECT_EQ(verdict.culprits.size(), 4u);
  EXPECT_LT(verdict.confidence, 0.8);
  tables.processes[2].calls[1].count *= 2;
  tables.processes[3].calls[1].count *= 2;
  tables.processes[1].calls[1].func = "ReduceScatter";
  EXPECT_EQ(RanksOf(Diagnose(tables)), std::vector<int32_t>{1});
}

TEST(RootCauseWalk, DoesNotBlameAReceiverThatIsFull) {
  // In a long ring the rank before the stuck one runs out of buffers at it.
  const Tables tables = RingModel(14, 1, Function::kAllReduce, {Fault::kKernelStuck, 3, 2}).Snapshot();
  bool has_no_credit = false;
  for (const ProxyView& proxy : tables.processes[2].proxies)
    has_no_credit |= proxy.is_send && proxy.ready > proxy.moved;
  ASSERT_TRUE(has_no_credit);
  const Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kGpuStuck) << Text(verdict);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{3});
  EXPECT_GE(verdict.confidence, 0.79);
}

TEST(RootCauseWalk, LooksAtTheOldestOperationThatAnybodyIsIn) {
  // Rank 0 has done the one in which rank 1 is stuck, and waits in the next, which rank 1 has not launched for that.
  Tables tables = Stuck(Fault::kKernelStuck, 1);
  CallView& next = tables.processes[0].calls[1];
  next.index = next.sequence = 8;
  next.age = 20s;
  tables.processes[0].comms[0].operations = 9;
  const Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kGpuStuck) << Text(verdict);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{1});
}

TEST(RootCauseWalk, NamesALinkThatKeepsTheLastStepsOfAnOperation) {
  // All but rank 2 have ended it and are in the next one; what rank 1 has sent last lies in buffers.
  Tables tables = Stuck(Fault::kLinkFrozen, 1);
  for (ProcessView& process : tables.processes) {
    const bool is_behind = process.world_rank == 2;
    if (!is_behind) {
      CallView& next = process.calls[1];
      next.index = next.sequence = 8;
      next.age = 20s;
      process.comms[0].operations = 9;
    }
    std::erase_if(process.proxies, [&](const ProxyView& proxy) { return is_behind && proxy.is_send; });
    for (ProxyView& proxy : process.proxies) {
      // In the next one the first chunk has gone from everybody but rank 2.
      const bool has_none = !proxy.is_send && process.world_rank == 3;
      proxy.ready = proxy.moved = proxy.done = is_behind ? proxy.steps - 1 : has_none ? 0 : 1;
      proxy.posted = is_behind ? proxy.steps : std::min<uint64_t>(proxy.steps, proxy.done + 8);
      proxy.still = 20s;
    }
  }
  const Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kNetwork) << Text(verdict);
  EXPECT_EQ(RanksOf(verdict), (std::vector<int32_t>{1, 2})) << Text(verdict);
  EXPECT_GE(verdict.confidence, 0.69);
  // That rank 1 has launched the next one does not say that it has sent all of this one.
  tables.processes[1].calls[1].proxies = tables.processes[1].calls[1].open_proxies = 0;
  EXPECT_EQ(Diagnose(tables).category, Category::kUnknown) << Text(Diagnose(tables));
}

TEST(RootCauseWalk, IsSilentWhileThingsMoveOrAllPause) {
  EXPECT_EQ(Diagnose(RingModel(4, 2, Function::kAllReduce, {Fault::kLinkFrozen, 1, 3}).Snapshot(200ms)).category,
            Category::kNone);
  const Tables pause = Stuck(Fault::kNothing, 0);
  EXPECT_EQ(Diagnose(pause).category, Category::kNone);
}

TEST(RootCauseWalk, SaysWhatItCouldNotSee) {
  // The rank that all wait for is the one without tables.
  Tables tables = Stuck(Fault::kNeverLaunches, 2);
  tables.processes.erase(tables.processes.begin() + 2);
  tables.missing = {"node-2: deadline exceeded"};
  Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kUnknown) << Text(verdict);
  EXPECT_TRUE(verdict.culprits.empty());
  ASSERT_GE(verdict.not_visible.size(), 2u);
  EXPECT_NE(Text(verdict).find("node-2"), std::string::npos);
  // Another rank is not there: what is seen still counts, with less confidence.
  const double sure = Diagnose(Stuck(Fault::kNeverLaunches, 2)).confidence;
  tables = Stuck(Fault::kNeverLaunches, 2);
  tables.processes.erase(tables.processes.begin());
  verdict = Diagnose(tables);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{2});
  EXPECT_LT(verdict.confidence, sure);
  EXPECT_FALSE(verdict.not_visible.empty());
}

TEST(RootCauseWalk, AddsWhatTheDevicesOfTheNodesInQuestionSay) {
  Tables tables = Stuck(Fault::kNeverLaunches, 2);
  for (size_t i = 0; i < tables.processes.size(); i++) tables.processes[i].node = "n" + std::to_string(i);
  tables.device_faults = {{"n1", "eth0", "receive errors", 7, "in the last minute"},
                          {"n2", "GPU 3", "Xid 79", 1, "in the last ten minutes"}};
  const auto told = [&](const Verdict& verdict) {
    std::vector<std::string> names;
    for (const Evidence& evidence : verdict.evidence) {
      if (evidence.name.find(" of n") != std::string::npos) names.push_back(evidence.name);
    }
    return names;
  };
  const Verdict verdict = Diagnose(tables);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{2});
  EXPECT_EQ(told(verdict), std::vector<std::string>{"GPU 3 of n2: Xid 79"});
  EXPECT_EQ(verdict.evidence.back().unit, "in the last ten minutes");

  Tables link = Stuck(Fault::kLinkFrozen, 1);  // its other end is rank 2
  for (size_t i = 0; i < link.processes.size(); i++) link.processes[i].node = "n" + std::to_string(i);
  link.device_faults = tables.device_faults;
  EXPECT_EQ(told(Diagnose(link)).size(), 2u);

  Tables nothing;
  nothing.device_faults.assign(20, tables.device_faults[0]);
  EXPECT_EQ(told(Diagnose(nothing)).size(), 8u) << "of all nodes, and no more than can be read";
}

TEST(RootCauseWalk, HasNoVerdictWithoutTables) {
  Verdict verdict = Diagnose({});
  EXPECT_EQ(verdict.category, Category::kUnknown);
  EXPECT_EQ(verdict.confidence, 0);
  Tables tables = Stuck(Fault::kNothing, 0);
  tables.missing = {"node-9: refused"};
  EXPECT_EQ(Diagnose(tables).category, Category::kUnknown);
}

TEST(RootCauseWalk, BlamesAProxyThreadWithoutProcessorTime) {
  Tables tables = Stuck(Fault::kPostsNothing, 1);
  for (ProcessView& process : tables.processes) process.proxy_thread = ProxyThreadView{0.3, 0.02, 0};
  tables.processes[1].proxy_thread = ProxyThreadView{0.05, 0.1, 0.9};
  Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kProxyStarved);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{1});
  EXPECT_GT(verdict.confidence, 0.8);
  // A thread that runs now and then does not hold anything up for seconds; nor is it the reason where all are alike.
  tables.processes[1].proxy_thread = ProxyThreadView{0.3, 0.6, 0};
  EXPECT_EQ(Diagnose(tables).category, Category::kReceiverNotReady);
  for (ProcessView& process : tables.processes) process.proxy_thread = ProxyThreadView{0.05, 0.1, 0.85};
  tables.processes[1].proxy_thread->throttled = 0.9;
  EXPECT_EQ(Diagnose(tables).category, Category::kReceiverNotReady);
  // Things move, slowly: one that starves alone is named, all alike are not.
  tables = RingModel(4, 2, Function::kAllReduce, {Fault::kPostsNothing, 1, 5}).Snapshot(100ms);
  for (ProcessView& process : tables.processes) process.proxy_thread = ProxyThreadView{0.05, 0.6, 0};
  EXPECT_EQ(Diagnose(tables).category, Category::kNone);
  for (ProcessView& process : tables.processes) process.proxy_thread->waiting = 0.1;
  tables.processes[1].proxy_thread->throttled = 0.9;
  verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kProxyStarved);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{1});
}

// A second communicator in which rank `a` and `b` are, with a collective that `launched` of them are stuck in.
void AddComm(Tables& tables, uint64_t id, const std::string& name, const std::vector<size_t>& members,
             const std::vector<size_t>& launched, Duration age) {
  for (size_t place = 0; place < members.size(); place++) {
    ProcessView& process = tables.processes[members[place]];
    const auto ranks = static_cast<int32_t>(members.size());
    const bool is_in = std::find(launched.begin(), launched.end(), members[place]) != launched.end();
    process.comms.push_back({id, name, static_cast<int32_t>(place), ranks, ranks, true, is_in ? 1u : 0u});
    if (!is_in) continue;
    CallView call;
    call.kind = CallKind::kColl;
    call.comm = static_cast<int32_t>(process.comms.size()) - 1;
    call.func = "AllReduce";
    call.algo = "RING";
    call.count = 10;
    call.open_proxies = call.proxies = 2;
    call.age = call.still = age;
    process.calls.push_back(call);
    for (const bool is_send : {true, false}) {
      ProxyView proxy;
      proxy.comm = call.comm;
      proxy.call = static_cast<int32_t>(process.calls.size()) - 1;
      proxy.is_send = is_send;
      proxy.rank = static_cast<int32_t>(place);
      proxy.peer = (proxy.rank + (is_send ? 1 : ranks - 1)) % ranks;
      proxy.steps = proxy.posted = proxy.started = 2;
      proxy.ready = is_send ? 1 : 0;
      proxy.age = proxy.still = age;
      process.proxies.push_back(proxy);
    }
  }
}

TEST(RootCauseWalk, FollowsARankIntoTheCommunicatorThatItWaitsIn) {
  // All wait in dp for rank 2, which waits in tp for rank 3, which waits in pp for rank 1, which never launched there.
  Tables tables = Stuck(Fault::kNeverLaunches, 2);
  tables.processes[3].calls.pop_back();
  tables.processes[3].proxies.clear();
  tables.processes[3].comms[0].operations = 7;
  AddComm(tables, 2, "tp", {2, 3}, {2}, 20s);
  AddComm(tables, 3, "pp", {3, 1}, {3}, 30s);
  tables.processes[1].calls.pop_back();
  tables.processes[1].proxies.clear();
  tables.processes[1].comms[0].operations = 7;
  const Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kNotLaunched) << Text(verdict);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{1});
  EXPECT_EQ(verdict.communicator, "pp");
  EXPECT_EQ(verdict.path.back(), "pp");
}

TEST(RootCauseWalk, FindsCommunicatorsThatWaitForEachOther) {
  // Rank 0 is in a and waits for rank 1, which is in b and waits for rank 0.
  Tables tables = Stuck(Fault::kNothing, 0, 3);
  AddComm(tables, 2, "a", {0, 1}, {0}, 20s);
  AddComm(tables, 3, "b", {0, 1}, {1}, 20s);
  Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kDeadlock) << Text(verdict);
  EXPECT_EQ(RanksOf(verdict), (std::vector<int32_t>{0, 1}));

  // Both have launched both, in different orders: each GPU runs the first, and the second stands behind it.
  tables = Stuck(Fault::kNothing, 0, 3);
  AddComm(tables, 2, "a", {0, 1}, {0, 1}, 20s);
  AddComm(tables, 3, "b", {0, 1}, {0, 1}, 20s);
  auto set = [](ProcessView& process, int32_t comm, Duration age, uint64_t ready) {
    for (CallView& call : process.calls) {
      if (call.comm == comm) call.age = age;
    }
    for (ProxyView& proxy : process.proxies) {
      if (proxy.comm == comm && proxy.is_send) proxy.ready = proxy.moved = proxy.done = ready;
      if (proxy.comm == comm && !proxy.is_send) proxy.ready = proxy.moved = 1 - ready, proxy.done = 0;
    }
  };
  set(tables.processes[0], 1, 20s, 1);
  set(tables.processes[0], 2, 19s, 0);
  set(tables.processes[1], 1, 19s, 0);
  set(tables.processes[1], 2, 20s, 1);
  verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kDeadlock) << Text(verdict);
}

// `rank` of "pp" sends to or receives from `peer` and gets nowhere.
void AddP2p(Tables& tables, size_t rank, int32_t peer, bool is_send, const ProxyView& counters) {
  ProcessView& process = tables.processes[rank];
  if (process.comms.size() == 1) process.comms.push_back({9, "pp", static_cast<int32_t>(rank), 4, 4, true, 5});
  CallView call;
  call.kind = CallKind::kP2p;
  call.comm = 1;
  call.func = is_send ? "Send" : "Recv";
  call.peer = peer;
  call.open_proxies = call.proxies = 1;
  call.age = call.still = 10s;
  process.calls.push_back(call);
  ProxyView proxy = counters;
  proxy.comm = 1;
  proxy.call = static_cast<int32_t>(process.calls.size()) - 1;
  proxy.is_send = is_send;
  proxy.rank = static_cast<int32_t>(rank);
  proxy.peer = peer;
  proxy.steps = 4;
  proxy.still = 10s;
  process.proxies.push_back(proxy);
}

ProxyView Counts(uint64_t posted, uint64_t ready, uint64_t moved, uint64_t done) {
  ProxyView proxy;
  proxy.posted = proxy.started = posted;
  proxy.ready = ready;
  proxy.moved = moved;
  proxy.done = done;
  return proxy;
}

TEST(RootCauseWalk, FollowsSendsAndReceivesFromStageToStage) {
  // 3 receives from 2, which receives from 1, which does nothing.
  Tables tables = Stuck(Fault::kNothing, 0);
  for (ProcessView& process : tables.processes) {
    process.comms.push_back({9, "pp", process.world_rank, 4, 4, true, 5});
  }
  AddP2p(tables, 3, 2, false, Counts(2, 0, 0, 0));
  AddP2p(tables, 2, 1, false, Counts(2, 0, 0, 0));
  Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kNotLaunched) << Text(verdict);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{1});
  EXPECT_LT(verdict.confidence, 0.8);  // that it should have sent is inferred

  // Rank 1 sends, and the link holds it.
  AddP2p(tables, 1, 2, true, Counts(3, 3, 3, 1));
  verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kNetwork) << Text(verdict);
  ASSERT_TRUE(verdict.edge.has_value());
  EXPECT_EQ(verdict.edge->from, 1);

  // Two that receive from each other.
  tables = Stuck(Fault::kNothing, 0);
  for (ProcessView& process : tables.processes) {
    process.comms.push_back({9, "pp", process.world_rank, 4, 4, true, 5});
  }
  AddP2p(tables, 1, 2, false, Counts(2, 0, 0, 0));
  AddP2p(tables, 2, 3, false, Counts(2, 0, 0, 0));
  AddP2p(tables, 3, 1, false, Counts(2, 0, 0, 0));
  EXPECT_EQ(Diagnose(tables).category, Category::kDeadlock);
}

TEST(RootCauseWalk, GuessesCarefullyWhereNothingGoesOverTheNetwork) {
  Tables tables = Stuck(Fault::kNeverLaunches, 2);
  for (ProcessView& process : tables.processes) {
    process.proxies.clear();
    for (CallView& call : process.calls) call.open_proxies = call.proxies = 0;
  }
  const Verdict verdict = Diagnose(tables);
  EXPECT_EQ(verdict.category, Category::kNotLaunched);
  EXPECT_EQ(RanksOf(verdict), std::vector<int32_t>{2});
  EXPECT_LE(verdict.confidence, 0.5);
  EXPECT_FALSE(verdict.not_visible.empty());
}

TEST(RootCauseWalk, SurvivesAnyTables) {
  std::mt19937 random(7);
  const Fault faults[] = {Fault::kNeverLaunches, Fault::kKernelStuck, Fault::kLinkFrozen, Fault::kPostsNothing};
  for (int round = 0; round < 1000; round++) {
    Tables tables = Stuck(faults[random() % 4], random() % 4);
    AddComm(tables, 2, "a", {0, 1}, {0}, 20s);
    for (int i = 0; i < 4; i++) {
      ProcessView& process = tables.processes[random() % tables.processes.size()];
      CallView& call = process.calls[random() % process.calls.size()];
      switch (random() % 8) {
        case 0: call.kind = static_cast<CallKind>(random() % 8); break;
        case 1: call.comm = -1; break;
        case 2: call.index = random(); break;
        case 3: process.comms[0].ranks = static_cast<int32_t>(random()); break;
        case 4: call.peer = static_cast<int32_t>(random()); break;
        case 5: process.comms[0].id = random() % 3; break;
        case 6: process.comms[0].rank = static_cast<int32_t>(random() % 9) - 4; break;
        default:
          for (ProxyView& proxy : process.proxies)
            proxy.done = random(), proxy.peer = static_cast<int32_t>(random() % 5);
      }
    }
    const Verdict verdict = Diagnose(tables);
    ASSERT_GE(verdict.confidence, 0);
    ASSERT_LE(verdict.confidence, 1);
    ASSERT_FALSE(verdict.cause.empty());
  }
}

}  // namespace
}  // namespace paceline::analysis
