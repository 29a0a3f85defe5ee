#include "tests/collectives/job.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "lib/base/clock.h"
#include "lib/ring/reader.h"
#include "tests/ring/ring_folder.h"
#include "tracer/profiler_abi.h"

namespace paceline::collectives {
namespace {

using namespace std::chrono_literals;

// The rings of a job, by world rank.
class Rings {
 public:
  explicit Rings(const std::string& folder) : folder_(folder) {}

  // Opens what is new and looks again.
  void Refresh() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (!paths_.insert(entry.path()).second) continue;
      std::string error;
      auto reader = ring::RingReader::Open(entry.path(), error);
      if (reader == nullptr) {
        paths_.erase(entry.path());  // not whole yet
        continue;
      }
      const auto rank = static_cast<uint32_t>(reader->header().world_rank);
      readers_[rank] = std::move(reader);
    }
    for (auto& [rank, reader] : readers_) {
      std::string error;
      ASSERT_TRUE(reader->ReadTables(tables_[rank], error)) << error;
      ring::Records batch;
      ASSERT_TRUE(reader->ReadRecords(100000, batch, error)) << error;
      auto& all = records_[rank];
      all.insert(all.end(), batch.records.begin(), batch.records.end());
    }
  }

  // Looks until `condition` holds, for half a minute.
  bool Await(const std::function<bool()>& condition) {
    const RealClock clock;
    const Deadline deadline = Deadline::After(clock, 30s);
    while (!deadline.Expired(clock)) {
      Refresh();
      if (condition()) return true;
      clock.SleepFor(20ms, {});
    }
    return false;
  }

  const ring::Tables& tables(uint32_t rank) { return tables_[rank]; }
  ring::RingReader& reader(uint32_t rank) { return *readers_.at(rank); }
  size_t size() const { return readers_.size(); }

  std::vector<RingCall> Calls(uint32_t rank, uint32_t kind) {
    std::vector<RingCall> calls;
    for (const RingRecord& record : records_[rank]) {
      if (record.type != RING_RECORD_CALL) continue;
      RingCall call{};
      std::memcpy(reinterpret_cast<char*>(&call) + 12, record.body, sizeof record.body);
      if (call.kind == kind) calls.push_back(call);
    }
    return calls;
  }
  std::vector<RingProxy> Proxies(uint32_t rank) {
    std::vector<RingProxy> proxies;
    for (const RingRecord& record : records_[rank]) {
      if (record.type != RING_RECORD_PROXY) continue;
      RingProxy proxy{};
      std::memcpy(reinterpret_cast<char*>(&proxy) + 12, record.body, sizeof record.body);
      proxies.push_back(proxy);
    }
    return proxies;
  }
  std::vector<RingProxy> OpenProxies(uint32_t rank) {
    std::vector<RingProxy> open;
    for (const auto& entry : tables_[rank].proxies) {
      if (entry.value.state == RING_OPEN) open.push_back(entry.value);
    }
    return open;
  }
  // Place of the last collective that was launched on the communicator `name`, -1: none.
  int64_t LastIndex(uint32_t rank, const std::string& name) {
    for (const auto& entry : tables_[rank].comms) {
      if (entry.value.name == name) return static_cast<int64_t>(entry.value.operations) - 1;
    }
    return -1;
  }

 private:
  std::string folder_;
  std::set<std::string> paths_;
  std::map<uint32_t, std::unique_ptr<ring::RingReader>> readers_;
  std::map<uint32_t, ring::Tables> tables_;
  std::map<uint32_t, std::vector<RingRecord>> records_;
};

JobDescription Small(const ring::RingFolder& folder, const std::string& schedule, uint32_t ranks = 4) {
  JobDescription job;
  job.ranks = ranks;
  job.trace_folder = folder.path();
  job.options = {"comm=dp=0,1,2,3", "schedule=" + schedule, "iterations=3", "slice-bytes=4096"};
  return job;
}

TEST(CollectivesJob, ComputesRightResultsAndTellsThePluginOfEachStep) {
  const ring::RingFolder folder;
  Job job(Small(folder, "allreduce:dp:10000;reducescatter:dp:1000;allgather:dp:1000;sync"));
  Rings rings(folder.path());
  ASSERT_TRUE(job.Wait());
  rings.Refresh();
  ASSERT_EQ(rings.size(), 4u);
  for (uint32_t rank = 0; rank < 4; rank++) {
    SCOPED_TRACE(rank);
    const auto calls = rings.Calls(rank, kEventColl);
    ASSERT_EQ(calls.size(), 9u);
    EXPECT_EQ(rings.reader(rank).Name(calls[0].func), "AllReduce");
    EXPECT_EQ(calls[0].count, 10000u);
    EXPECT_EQ(rings.reader(rank).Name(calls[2].datatype), "ncclInt8");
    EXPECT_EQ(calls[8].index, 8u);
    EXPECT_EQ(calls[8].sequence, 2u);
    const auto proxies = rings.Proxies(rank);
    ASSERT_EQ(proxies.size(), 9u * 2 * 2);  // calls, channels, directions
    uint64_t sent = 0;
    for (const RingProxy& proxy : proxies) {
      EXPECT_EQ(proxy.peer, static_cast<int32_t>((rank + (proxy.is_send != 0 ? 1 : 3)) % 4));
      EXPECT_EQ(proxy.done, proxy.steps);
      EXPECT_EQ(proxy.started, proxy.steps);
      EXPECT_EQ(proxy.posted, proxy.steps);
      EXPECT_EQ(proxy.ready, proxy.steps);
      EXPECT_EQ(proxy.moved, proxy.steps);
      if (proxy.is_send != 0) sent += proxy.bytes;
    }
    // Of n parts 2(n-1) go out in an all-reduce, n-1 in the other two.
    EXPECT_EQ(sent, 3u * 4 * (10000 * 6 / 4 + 1000 * 3 + 1000 * 3));
    EXPECT_TRUE(rings.OpenProxies(rank).empty());
    for (int drop = 0; drop < RING_DROPS; drop++) EXPECT_EQ(rings.tables(rank).header.drops[drop], 0u) << drop;
  }
}

TEST(CollectivesJob, RunsGroupsOfCommunicatorsAcrossAndWithinNodes) {
  const ring::RingFolder folder;
  const std::string schedule =
      "allreduce:tp0:500;allreduce:tp1:500;allreduce:tp2:500;allreduce:tp3:500;"
      "pass:pp:0>4:3000;pass:pp:1>5:3000;exchange:pp:700;compute:500;"
      "reducescatter:dp0:900;reducescatter:dp1:900;reducescatter:dp2:900;reducescatter:dp3:900;sync";
  JobDescription description;
  description.ranks = 8;
  description.trace_folder = folder.path();
  description.options = {"comm=tp0=0,1",        "comm=tp1=2,3",     "comm=tp2=4,5", "comm=tp3=6,7",
                         "comm=dp0=0,2",        "comm=dp1=1,3",     "comm=dp2=4,6", "comm=dp3=5,7",
                         "comm=pp=0,4,1,5",     "ranks-per-node=2", "iterations=2", "slice-bytes=4096",
                         "schedule=" + schedule};
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(job.Wait());
  rings.Refresh();
  for (uint32_t rank = 0; rank < 8; rank++) {
    for (const RingProxy& proxy : rings.Proxies(rank)) {
      std::string name;
      int32_t nodes = 0;
      for (const auto& entry : rings.tables(rank).comms) {
        if (entry.index == proxy.comm) name = entry.value.name, nodes = entry.value.nnodes;
      }
      EXPECT_NE(name.substr(0, 2), "tp") << "a hop within the node was told";
      EXPECT_EQ(nodes, 2);
    }
  }
  EXPECT_EQ(rings.Calls(0, kEventP2p).size(), 2u * 3);  // a send, and send and receive of the exchange
  EXPECT_EQ(rings.Calls(2, kEventP2p).size(), 0u);
  EXPECT_EQ(rings.Proxies(0).size(), 2u * (3 + 4));
}

class CollectivesAbi : public testing::TestWithParam<int> {};

TEST_P(CollectivesAbi, DrivesThePlugin) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:2000;exchange:dp:300;sync");
  description.options.push_back("abi=" + std::to_string(GetParam()));
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(job.Wait());
  rings.Refresh();
  EXPECT_EQ(rings.tables(0).header.abi_version, static_cast<uint32_t>(GetParam()));
  EXPECT_EQ(rings.Calls(0, kEventCollApi).size(), GetParam() >= 5 ? 3u : 0u);
  EXPECT_EQ(rings.Proxies(0).size(), 3u * (4 + 2));
}

INSTANTIATE_TEST_SUITE_P(Versions, CollectivesAbi, testing::Values(4, 5, 6));

// What stands open once nothing moves any more.
bool IsStill(Rings& rings, uint32_t ranks, const std::string& comm, int64_t index) {
  for (uint32_t rank = 0; rank < ranks; rank++) {
    if (rings.LastIndex(rank, comm) < index) return false;
  }
  return true;
}

TEST(CollectivesFaults, RankThatNeverLaunchesIsBehind) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:20000;sync");
  description.of_rank[2] = {"hang-at=2"};
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(
      rings.Await([&] { return rings.size() == 4 && rings.LastIndex(1, "dp") == 2 && IsStill(rings, 4, "dp", 1); }));
  // Its neighbour behind offers and the network takes nothing; all wait for what it should have sent.
  ASSERT_TRUE(rings.Await([&] {
    for (const RingProxy& proxy : rings.OpenProxies(1)) {
      if (proxy.is_send != 0 && proxy.ready == proxy.moved) return false;
    }
    return !rings.OpenProxies(1).empty() && rings.OpenProxies(2).empty();
  }));
  EXPECT_EQ(rings.LastIndex(2, "dp"), 1);
  EXPECT_EQ(rings.LastIndex(1, "dp"), 2);
}

TEST(CollectivesFaults, RankInsideTheCallHasItOpen) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:20000;sync");
  description.of_rank[1] = {"hang-in-call-at=1"};
  Job job(description);
  Rings rings(folder.path());
  auto open_calls = [&](uint32_t kind) {
    size_t count = 0;
    for (const auto& entry : rings.tables(1).calls) count += entry.value.state == RING_OPEN && entry.value.kind == kind;
    return count;
  };
  ASSERT_TRUE(rings.Await([&] { return rings.size() == 4 && open_calls(kEventCollApi) == 1; }));
  EXPECT_EQ(open_calls(kEventGroupApi), 1u);
  EXPECT_EQ(rings.LastIndex(1, "dp"), 0);
}

TEST(CollectivesFaults, StuckKernelLeavesReceivedDataUnused) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:100000;sync");
  description.of_rank[3] = {"kernel-stuck-at=1"};
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(rings.Await([&] {
    for (const RingProxy& proxy : rings.OpenProxies(3)) {
      if (proxy.is_send == 0 && proxy.moved > 0 && proxy.done == 0) return true;
    }
    return false;
  }));
  for (const RingProxy& proxy : rings.OpenProxies(3)) {
    EXPECT_TRUE(proxy.is_send == 0 || proxy.ready == 0);
  }
}

TEST(CollectivesFaults, MismatchIsInTheDescriptors) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:20000;sync");
  description.of_rank[1] = {"mismatch-at=1"};
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(rings.Await([&] { return rings.size() == 4 && IsStill(rings, 4, "dp", 1); }));
  ASSERT_TRUE(rings.Await([&] { return rings.Calls(1, kEventColl).size() == 2; }));
  EXPECT_EQ(rings.Calls(1, kEventColl)[1].count, 10000u);
  ASSERT_TRUE(rings.Await([&] { return rings.Calls(0, kEventColl).size() >= 2; }));
  EXPECT_EQ(rings.Calls(0, kEventColl)[1].count, 20000u);
}

TEST(CollectivesFaults, StoppedAndKilledRanksStopTheOthers) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:20000;sync");
  description.options.push_back("iterations=1000000");
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(rings.Await([&] { return rings.size() == 4 && IsStill(rings, 4, "dp", 3); }));
  job.Signal(2, SIGSTOP);
  // The counters of all ranks stand still.
  std::vector<int64_t> before;
  ASSERT_TRUE(rings.Await([&] {
    const RealClock clock;
    clock.SleepFor(300ms, {});
    std::vector<int64_t> now;
    for (uint32_t rank = 0; rank < 4; rank++) now.push_back(rings.LastIndex(rank, "dp"));
    return std::exchange(before, now) == now;
  }));
  EXPECT_GT(rings.reader(2).WriterPid(), 0);
  job.Signal(2, SIGCONT);
  ASSERT_TRUE(rings.Await([&] { return IsStill(rings, 4, "dp", before[0] + 3); }));
  job.Signal(2, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(job.WaitFor(2)));
  EXPECT_EQ(rings.reader(2).WriterPid(), 0);
  // NCCL's proxy ends at the broken connection, without a stop of what is open.
  ASSERT_TRUE(rings.Await([&] { return job.ProxyThreadOf(3) == 0; }));
  rings.Refresh();
  EXPECT_FALSE(rings.OpenProxies(3).empty());
}

TEST(CollectivesFaults, SlowLinkShowsInTheTimeOnTheNetwork) {
  const ring::RingFolder folder;
  JobDescription description = Small(folder, "allreduce:dp:20000;sync");
  description.options.push_back("iterations=1000000");
  description.slow_link = std::pair(1u, 2u);
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(rings.Await([&] { return rings.size() == 4 && IsStill(rings, 4, "dp", 2); }));
  job.link().SetRate(0);
  // Kernel buffers fill; then the sender's steps stay with the network while others' steps do not.
  ASSERT_TRUE(rings.Await([&] {
    const int64_t first = rings.LastIndex(0, "dp");
    RealClock().SleepFor(300ms, {});
    rings.Refresh();
    return rings.LastIndex(0, "dp") == first;
  }));
  bool is_waiting = false;
  for (const RingProxy& proxy : rings.OpenProxies(2)) {
    is_waiting = is_waiting || (proxy.is_send == 0 && proxy.posted > proxy.ready);
  }
  EXPECT_TRUE(is_waiting);
  job.link().SetRate(UINT64_MAX);
  const int64_t reached = rings.LastIndex(0, "dp");
  EXPECT_TRUE(rings.Await([&] { return IsStill(rings, 4, "dp", reached + 3); }));
}

TEST(CollectivesFaults, OrdersThatCrossDeadlock) {
  const ring::RingFolder folder;
  JobDescription description;
  description.ranks = 2;
  description.trace_folder = folder.path();
  description.options = {"comm=a=0,1", "comm=b=0,1", "iterations=3", "slice-bytes=4096",
                         "schedule=allreduce:a:50000;allreduce:b:50000;sync"};
  description.of_rank[1] = {"swap-at=2"};
  Job job(description);
  Rings rings(folder.path());
  ASSERT_TRUE(rings.Await([&] { return rings.size() == 2 && IsStill(rings, 2, "a", 1) && IsStill(rings, 2, "b", 1); }));
  RealClock().SleepFor(300ms, {});
  rings.Refresh();
  EXPECT_EQ(rings.LastIndex(0, "a"), 1);
  EXPECT_FALSE(rings.OpenProxies(0).empty());
}

}  // namespace
}  // namespace paceline::collectives
