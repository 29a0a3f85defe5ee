// Full tables, no room for a ring, and too much time spent.
#include <gtest/gtest.h>
#include <ctime>

#include <vector>

#include "tests/tracer/nccl_process.h"

namespace paceline::tracer {
namespace {

using ring::RingFolder;

TEST(Limits, WithoutAFolderTracingIsOffAndOneLineSaysWhy) {
  for (int version = 1; version <= 6; version++) {
    RingFolder folder;
    InProcess(folder, [&] {
      ::setenv("PACELINE_TRACE_DIR", "/nonexistent", 1);
      NcclDriver nccl(version);
      void* context = nccl.Init();
      EXPECT_EQ(nccl.mask(), 0);
      nccl.Init();
      nccl.AllReduce(context, 0, 2, 4, 1);
      nccl.Finalize(context);
      if (version >= 4) {
        EXPECT_EQ(NcclDriver::Logged(),
                  "paceline: tracing is off: no ring in /nonexistent: No such file or directory\n");
      }
    });
    EXPECT_EQ(folder.OnlyRing(), "");
  }
}

TEST(Limits, FullTableOfOperationsDropsAndCounts) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver nccl(6);
    void* context = nccl.Init();
    RingView view(folder.OnlyRing());
    const uint32_t capacity = view.reader().header().proxies_capacity;
    std::vector<void*> open;
    for (uint32_t i = 0; i < capacity; i++) open.push_back(nccl.ProxyOp(context, ProxyDescription()));
    EXPECT_EQ(nccl.ProxyOp(context, ProxyDescription()), nullptr);
    EXPECT_EQ(nccl.Step(context, nullptr, 0), nullptr);
    view.Refresh();
    EXPECT_EQ(view.tables.proxies.size(), size_t{capacity});
    EXPECT_EQ(view.tables.header.drops[RING_DROP_PROXY], 1u);
    nccl.Stop(open[5]);
    EXPECT_NE(nccl.ProxyOp(context, ProxyDescription()), nullptr);
    // An aborted communicator stops nothing; the next one finds room all the same.
    nccl.Finalize(context);
    void* next = nccl.Init(78);
    EXPECT_NE(nccl.ProxyOp(next, ProxyDescription()), nullptr);
    nccl.Stop(open[7]);
  });
}

TEST(Limits, CallsThatAreNeverStoppedDropAndCount) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver nccl(6);
    void* context = nccl.Init();
    RingView view(folder.OnlyRing());
    const uint32_t capacity = view.reader().header().calls_capacity;
    for (uint32_t i = 0; i < capacity + 10; i++) EXPECT_NE(nccl.Coll(context, CollDescription()), nullptr);
    view.Refresh();
    EXPECT_EQ(view.tables.header.drops[RING_DROP_CALL], 10u);
  });
}

TEST(Limits, CallsAreKeptWhileTheirOperationsAreOpen) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver nccl(6);
    void* context = nccl.Init();
    RingView view(folder.OnlyRing());
    CollDescription stuck;
    stuck.count = 4711;
    void* call = nccl.Coll(context, stuck);
    nccl.Stop(call);
    ProxyDescription d;
    d.parent = call;
    void* operation = nccl.ProxyOp(context, d);
    for (uint32_t i = 0; i < 3 * view.reader().header().calls_capacity; i++) {
      nccl.Stop(nccl.Coll(context, CollDescription()));
    }
    view.Refresh();
    int found = 0;
    for (const auto& entry : view.tables.calls) found += entry.value.count == 4711 ? 1 : 0;
    EXPECT_EQ(found, 1);
    nccl.Stop(operation);
  });
}

TEST(Limits, CommunicatorsBeyondTheTableAreTracedWithoutAName) {
  RingFolder folder;
  InProcess(folder, [&] {
    NcclDriver nccl(6);
    RingView view(folder.OnlyRing().empty() ? (nccl.Init(), folder.OnlyRing()) : folder.OnlyRing());
    const uint32_t capacity = view.reader().header().comms_capacity;
    for (uint32_t i = 1; i < capacity; i++) nccl.Init(i);
    void* context = nccl.Init(99999);
    EXPECT_NE(context, nullptr);
    nccl.AllReduce(context, 0, 1, 2, 1);
    view.Refresh();
    EXPECT_EQ(view.tables.header.drops[RING_DROP_COMM], 1u);
    EXPECT_EQ(view.CountRecords(RING_RECORD_PROXY), 2u);
    nccl.Finalize(context);
  });
}

TEST(Limits, OverItsBudgetTheStepsGoFirstAndThenAll) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_BUDGET_PERMILLE", "1", 1);
    NcclDriver nccl(6);
    void* context = nccl.Init();
    // Callbacks and nothing else: far over one permille, and it is said after two windows of 250 ms each.
    while (nccl.mask() & kEventProxyStep) nccl.AllReduce(context, 0, 2, 100, 1);
    EXPECT_TRUE(nccl.mask() & kEventProxyOp);
    while (nccl.mask() != 0) nccl.AllReduce(context, 0, 2, 100, 1);
    EXPECT_NE(NcclDriver::Logged().find("over its budget of 1: steps are off\n"), std::string::npos)
        << NcclDriver::Logged();
  });
  EXPECT_EQ(RingView(folder.OnlyRing()).tables.header.off_reason, static_cast<uint32_t>(RING_ALL_OFF));
}

// Sanitizers map memory of their own all the time.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PACELINE_SANITIZED
#endif
#endif
#ifndef PACELINE_SANITIZED
TEST(Limits, MemoryStaysFlat) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_BUDGET_PERMILLE", "0", 1);
    NcclDriver nccl(6);
    void* context = nccl.Init();
    auto pages = [] {
      long total = 0;
      std::FILE* file = std::fopen("/proc/self/statm", "r");
      EXPECT_EQ(std::fscanf(file, "%ld", &total), 1);
      std::fclose(file);
      return total;
    };
    nccl.AllReduce(context, 0, 4, 100, 1);
    const long before = pages();
    for (uint64_t i = 0; i < 500; i++) nccl.AllReduce(context, i, 4, 100, 1);
    EXPECT_EQ(pages(), before);
  });
}
#endif

}  // namespace
}  // namespace paceline::tracer
