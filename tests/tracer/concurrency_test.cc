// Threads, processes, fork and unloading.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/ring/ended_thread.h"
#include "tests/tracer/nccl_process.h"

namespace paceline::tracer {
namespace {

using ring::RingFolder;

constexpr int kThreads = 6;
constexpr uint64_t kCollectives = 60;

TEST(Concurrency, ThreadsInitTogetherAndLoseNothing) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_BUDGET_PERMILLE", "0", 1);  // they do nothing else
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
      threads.emplace_back([&, i] {
        NcclDriver nccl(6);
        ready++;
        while (ready < kThreads) std::this_thread::yield();
        void* context = nccl.Init(100 + static_cast<uint64_t>(i));
        for (uint64_t k = 0; k < kCollectives; k++) nccl.AllReduce(context, k, 4, 8, 10);
        nccl.Finalize(context);
      });
    }
    while (ready < kThreads) std::this_thread::yield();
    while (folder.OnlyRing().empty()) std::this_thread::yield();
    // A reader beside them, as the agent is.
    std::string error;
    auto reader = ring::RingReader::Open(folder.OnlyRing(), error);
    for (int look = 0; look < 50 && reader != nullptr; look++) {
      ring::Tables tables;
      ring::Records records;
      EXPECT_TRUE(reader->ReadTables(tables, error));
      EXPECT_TRUE(reader->ReadRecords(100000, records, error));
      EXPECT_EQ(records.damaged, 0u);
    }
    for (std::thread& thread : threads) thread.join();
  });
  RingView view(folder.OnlyRing());
  EXPECT_EQ(view.lost, 0u);
  EXPECT_EQ(view.CountRecords(RING_RECORD_PROXY), kThreads * kCollectives * 8);
  EXPECT_EQ(view.CountRecords(RING_RECORD_CALL), kThreads * kCollectives * 4);
  ASSERT_EQ(view.tables.comms.size(), size_t{kThreads});
  for (const auto& comm : view.tables.comms) EXPECT_EQ(comm.value.operations, kCollectives);
  for (const auto& proxy : view.tables.proxies) EXPECT_FALSE(proxy.is_torn);
  for (const uint64_t drops : view.tables.header.drops) EXPECT_EQ(drops, 0u);
}

TEST(Concurrency, CallAndItsOperationsOnDifferentThreads) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver app(5), proxy(5);
    void* context = app.Init();
    for (int i = 0; i < 50; i++) {
      void* call = app.Coll(context, CollDescription());
      app.Stop(call);
      ring::OnThreadThatEnds([&] {
        ProxyDescription d;
        d.parent = call;
        void* operation = proxy.ProxyOp(context, d);
        proxy.WholeStep(context, operation, true, 0, 7);
        // The operation moves to another thread: a proxy that was taken over.
        ring::OnThreadThatEnds([&] { proxy.WholeStep(context, operation, true, 1, 7); });
        proxy.Stop(operation);
      });
    }
  });
  RingView view(folder.OnlyRing());
  EXPECT_EQ(view.CountRecords(RING_RECORD_PROXY), 50u);
  EXPECT_EQ(view.tables.header.writers_used, 3u);  // those of ended threads are used again
  EXPECT_EQ(view.tables.header.drops[RING_DROP_RECORD], 0u);
}

TEST(Concurrency, MoreThreadsThanWritersOnlyLoseRecords) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver first(5);
    void* context = first.Init();
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; i++) {
      threads.emplace_back([&] {
        NcclDriver nccl(5);
        nccl.AllReduce(context, 0, 1, 4, 1);
        done++;
        while (done < 20) std::this_thread::yield();
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  RingView view(folder.OnlyRing());
  EXPECT_EQ(view.CountRecords(RING_RECORD_PROXY), 12u * 2);
  EXPECT_EQ(view.tables.header.drops[RING_DROP_RECORD], 8u * 6);
}

TEST(Concurrency, ProcessesHaveRingsOfTheirOwn) {
  RingFolder folder;
  for (int i = 0; i < 4; i++) {
    InProcess(folder, [&] {
      ::setenv("RANK", std::to_string(i).c_str(), 1);
      NcclDriver nccl(4);
      nccl.AllReduce(nccl.Init(9, "world", 4, i), 0, 1, 4, 1);
    });
  }
  int ranks = 0, rings = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    RingView view(entry.path().string());
    ASSERT_EQ(view.tables.comms.size(), 1u);
    EXPECT_EQ(view.tables.comms[0].value.rank, view.tables.header.world_rank);
    ranks += view.tables.header.world_rank;
    rings++;
    EXPECT_EQ(view.reader().WriterPid(), 0);
  }
  EXPECT_EQ(rings, 4);
  EXPECT_EQ(ranks, 0 + 1 + 2 + 3);
}

TEST(Concurrency, ChildOfForkLeavesTheRingAlone) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver nccl(6);
    void* context = nccl.Init();
    nccl.AllReduce(context, 0, 1, 4, 1);
    const pid_t child = ::fork();
    if (child == 0) {
      nccl.AllReduce(context, 1, 1, 4, 1);
      nccl.Finalize(context);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    nccl.AllReduce(context, 1, 1, 4, 1);
  });
  RingView view(folder.OnlyRing());
  EXPECT_EQ(view.CountRecords(RING_RECORD_PROXY), 4u);
  EXPECT_EQ(view.tables.comms[0].value.state, static_cast<uint32_t>(RING_OPEN));
}

TEST(Concurrency, LoadingAHundredTimesKeepsOneRing) {
  RingFolder folder;
  InProcess(folder, [&] {
    for (int i = 0; i < 100; i++) {
      NcclDriver nccl(6);
      void* context = nccl.Init(static_cast<uint64_t>(i) + 1);
      nccl.AllReduce(context, 0, 1, 4, 1);
      nccl.Finalize(context);
    }
  });
  RingView view(folder.OnlyRing());
  EXPECT_EQ(view.CountRecords(RING_RECORD_PROXY), 200u);
  EXPECT_EQ(view.tables.comms.size(), 100u);
}

}  // namespace
}  // namespace paceline::tracer
