// Another profiler plugin behind ours.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/tracer/nccl_process.h"

namespace paceline::tracer {
namespace {

using ring::RingFolder;

// As in other_plugin.c.
struct OtherCounts {
  uint64_t inits, starts, stops, records, foreign, finalizes;
};

// The other plugin is loaded before ours loads it: the same copy.
OtherCounts& Counts() {
  void* library = ::dlopen(PACELINE_OTHER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return *static_cast<OtherCounts*>(::dlsym(library, "other_counts"));
}

void SetMask(int mask) {
  void* library = ::dlopen(PACELINE_OTHER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  *static_cast<int*>(::dlsym(library, "other_mask")) = mask;
}

TEST(Forward, BothPluginsSeeTheSame) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_FORWARD", PACELINE_OTHER_PLUGIN, 1);
    SetMask(0x1f | kEventProxyCtrl | kEventGroupApi | kEventCollApi);
    NcclDriver nccl(5);
    void* context = nccl.Init();
    EXPECT_TRUE(nccl.mask() & kEventProxyCtrl);
    EXPECT_TRUE(nccl.mask() & kEventKernelLaunch);
    for (uint64_t i = 0; i < 2000; i++) nccl.AllReduce(context, i, 2, 10, 5);
    nccl.Stop(nccl.Other(context, kEventProxyCtrl));
    nccl.Finalize(context);
    const OtherCounts& counts = Counts();
    EXPECT_EQ(counts.inits, 1u);
    EXPECT_EQ(counts.finalizes, 1u);
    EXPECT_EQ(counts.foreign, 0u);
    // Per collective: two Api events, Group, Coll, four operations of ten steps; and one ProxyCtrl.
    EXPECT_EQ(counts.starts, 2000u * (4 + 4 + 40) + 1);
    EXPECT_EQ(counts.stops, counts.starts);
  });
  RingView view(folder.OnlyRing());
  EXPECT_EQ(view.tables.comms[0].value.operations, 2000u);
  for (const uint64_t drops : view.tables.header.drops) EXPECT_EQ(drops, 0u);
}

TEST(Forward, OperationsOfOtherProcessesAreNotPassedOn) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_FORWARD", PACELINE_OTHER_PLUGIN, 1);
    NcclDriver nccl(5);
    nccl.Init();
    ProxyDescription d;
    d.pid = ::getpid() + 1;
    void* poisoned = reinterpret_cast<void*>(0x10);
    d.parent = poisoned;
    void* operation = nccl.ProxyOp(poisoned, d);
    nccl.WholeStep(poisoned, operation, true, 0, 1);
    nccl.Stop(operation);
    EXPECT_EQ(Counts().starts, 0u);
    EXPECT_EQ(Counts().foreign, 0u);
  });
}

TEST(Forward, WorksWithoutARingOfOurs) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_DIR", "/nonexistent", 1);
    ::setenv("PACELINE_TRACE_FORWARD", PACELINE_OTHER_PLUGIN, 1);
    NcclDriver nccl(5);
    void* context = nccl.Init();
    EXPECT_EQ(nccl.mask(), 0x1f);
    nccl.AllReduce(context, 0, 2, 10, 5);
    nccl.Finalize(context);
    // Nobody remembers here which receives are open: their repeated starts pass through, as NCCL sends them.
    EXPECT_EQ(Counts().starts, 2u + 4 + 40 + 20);
    EXPECT_EQ(Counts().stops, 2u + 4 + 40);
    EXPECT_EQ(Counts().foreign, 0u);
    EXPECT_EQ(Counts().finalizes, 1u);
  });
}

TEST(Forward, PluginThatIsNotThereIsSaidOnce) {
  RingFolder folder;
  InProcess(folder, [&] {
    ::setenv("PACELINE_TRACE_FORWARD", "/nonexistent.so", 1);
    NcclDriver nccl(5);
    void* context = nccl.Init();
    nccl.Init();
    nccl.AllReduce(context, 0, 1, 1, 1);
    EXPECT_EQ(NcclDriver::Logged().rfind("paceline: nothing is forwarded to /nonexistent.so: ", 0), 0u)
        << NcclDriver::Logged();
    EXPECT_EQ(NcclDriver::Logged().find('\n'), NcclDriver::Logged().size() - 1);
  });
  EXPECT_EQ(RingView(folder.OnlyRing()).CountRecords(RING_RECORD_PROXY), 2u);
}

}  // namespace
}  // namespace paceline::tracer
