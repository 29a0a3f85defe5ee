#include "agent/facts/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/facts/node_facts.h"
#include "tests/agent/node_folders.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

TEST(Nvml, IsNoneWithoutTheLibrary) {
  GpuFacts facts = QueryGpus("libno-such-library.so.1");
  EXPECT_EQ(facts.driver_version, "none");
  EXPECT_TRUE(facts.devices.empty());
  EXPECT_THAT(facts.detail, HasSubstr("libno-such-library.so.1"));
}

TEST(Nvml, IsNoneForALibraryThatIsNotNvml) {
  GpuFacts facts = QueryGpus("libc.so.6");
  EXPECT_EQ(facts.driver_version, "none");
  EXPECT_THAT(facts.detail, HasSubstr("lacks nvmlInit_v2"));
}

TEST(Nvml, IsNoneWhenTheDriverIsNotLoaded) {
  GpuFacts facts = QueryGpus(PACELINE_BROKEN_NVML);
  EXPECT_EQ(facts.driver_version, "none");
  EXPECT_THAT(facts.detail, HasSubstr("Driver Not Loaded"));
}

TEST(Nvml, ReadsDriverAndDevices) {
  GpuFacts facts = QueryGpus(PACELINE_FAKE_NVML);
  EXPECT_EQ(facts.driver_version, "580.65.06");
  EXPECT_EQ(facts.cuda_version, "13.1");
  ASSERT_EQ(facts.devices.size(), 1u);
  EXPECT_EQ(facts.devices[0].model, "NVIDIA H200");
  EXPECT_EQ(facts.devices[0].uuid, "GPU-1");
  EXPECT_EQ(facts.devices[0].memory_bytes, 150754820096u);
  EXPECT_THAT(facts.detail, HasSubstr("device 1: GPU is lost"));
}

TEST(NodeFacts, NeverFails) {
  const std::string root = MakeTemporaryFolder();
  RealClock clock;
  NodeFacts facts = CollectNodeFacts({.root = root, .containerd_socket = root + "/none.sock", .nvml_library = "none"},
                                     Deadline::After(clock, std::chrono::seconds(5)));
  EXPECT_EQ(facts.containerd_version, "unknown");
  EXPECT_EQ(facts.gpu.driver_version, "none");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace paceline::agent
