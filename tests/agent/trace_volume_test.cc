#include "agent/csi/trace_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lib/api/names.h"
#include "tests/agent/memory_mounts.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/memory_filesystem.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

class TraceVolumeTest : public ::testing::Test {
 protected:
  TraceVolumeTest() : host_({folders_.kubelet_dir(), folders_.state_dir()}) {
    PutPlugin("plugin 1");
    spec_.volume_id = "csi-1";
    spec_.type = "trace";
    spec_.target = *ParseTargetPath(folders_.kubelet_dir(), folders_.AddVolume("0d4e1f0a-94b1", "paceline-trace"));
  }
  void PutPlugin(const std::string& bytes) {
    ASSERT_TRUE(files_.MakeDirectories("/usr/lib/paceline").ok());
    ASSERT_TRUE(files_.WriteFileAtomically("/usr/lib/paceline/plugin.so", bytes).ok());
  }
  Status Publish() { return volume_->Publish(spec_, Deadline::Infinite()); }
  std::string PluginPath() const { return spec_.target.path + "/" + std::string(api::kTracePluginName); }

  NodeFolders folders_;
  MemoryMounts host_;
  RealClock clock_;
  fakes::MemoryFileSystem files_{clock_};
  VolumeSpec spec_;
  const std::unique_ptr<VolumeType> volume_ = NewTraceVolume({.plugin = "/usr/lib/paceline/plugin.so"}, files_, host_);
};

TEST_F(TraceVolumeTest, HasAMountWithThePluginUntilItGoes) {
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ((*host_.MountAt(spec_.target.path))->fs_type, "tmpfs");
  EXPECT_EQ(ReadTextFile(PluginPath()), "plugin 1");
  struct stat info {};
  ASSERT_EQ(::stat(PluginPath().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644u) << "whoever trains must be able to load it";

  // The agent was upgraded: the next container gets the new plugin, and what lies beside it stays.
  WriteTextFile(spec_.target.path + "/nccl-1-2-3.ring", "ring");
  PutPlugin("plugin 2");
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(ReadTextFile(PluginPath()), "plugin 2");
  EXPECT_EQ(ReadTextFile(spec_.target.path + "/nccl-1-2-3.ring"), "ring");
  EXPECT_EQ(host_.mount_count(), 1u);

  // What a tmpfs would take with it stays in the folder behind a mount in memory.
  std::filesystem::remove_all(spec_.target.path);
  ASSERT_TRUE(volume_->Unpublish(spec_, Deadline::Infinite()).ok());
  EXPECT_EQ(host_.mount_count(), 0u);
  EXPECT_FALSE(std::filesystem::exists(spec_.target.path));
  EXPECT_TRUE(volume_->Unpublish(spec_, Deadline::Infinite()).ok()) << "twice";
}

TEST_F(TraceVolumeTest, RefusesWhatItCannotBe) {
  const struct {
    std::map<std::string, std::string> attributes;
    bool is_read_only;
    const char* text;
  } cases[] = {{{{"size", "1Mi"}}, false, "less than"},
               {{{"size", "much"}}, false, "size"},
               {{{"medium", "Memory"}}, false, "unknown attribute"},
               {{}, true, "readOnly"}};
  for (const auto& c : cases) {
    spec_.attributes = c.attributes;
    spec_.is_read_only = c.is_read_only;
    const Status status = volume_->Validate(spec_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(status.message(), HasSubstr(c.text));
  }
  spec_.is_read_only = false;
  spec_.attributes = {{"size", "16Mi"}};
  EXPECT_TRUE(volume_->Validate(spec_).ok());
}

TEST_F(TraceVolumeTest, SaysThatTheAgentHasNoPlugin) {
  ASSERT_TRUE(files_.Remove("/usr/lib/paceline/plugin.so").ok());
  EXPECT_THAT(Publish().ToString(), HasSubstr("no NCCL plugin"));
}

}  // namespace
}  // namespace paceline::agent
