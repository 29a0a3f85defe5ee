// Snapshots that a node must not mount: unsigned ones, and those that have lost bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/agent/deps_volume_fixture.h"
#include "tests/fakes/test_keys.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace fs = std::filesystem;

TEST_F(DepsVolumeTest, WithoutAGoodSignatureNothingIsMounted) {
  using Cause = api::InstallCause;
  RecordOne();  // before anybody signed
  EXPECT_EQ(Snapshots()[0].record.recorded_by.at("serviceAccount"), "trainer");
  EXPECT_EQ(Snapshots()[0].record.recorded_by.at("node"), "n0");
  const std::string key_file = folders_.root() + "/signing.pem";
  WriteTextFile(key_file, fakes::kTestKey);
  trust_ = {key_file, "", true};
  StartAgent();
  const auto start = [&](bool installs) {
    const PublishRequest request = Request();
    EXPECT_TRUE(Publish(request).ok());
    const api::PodDependencies told = Told();
    EXPECT_EQ(told.cause.has_value(), installs);
    EXPECT_EQ(FsTypeAt(request.target_path + "/tree"), installs ? "" : "overlay");
    if (installs) Install();
    if (installs) Report();
    LookAround();
    EXPECT_TRUE(Unpublish(request).ok());
    EXPECT_TRUE(publisher_->CleanUp(Deadline::Infinite()).ok());
    return told;
  };
  api::PodDependencies told = start(true);
  EXPECT_EQ(told.cause, Cause::kNotTrusted);
  EXPECT_THAT(told.reason, HasSubstr("not signed"));
  EXPECT_THAT(told.quarantined, HasSubstr("not signed"));
  EXPECT_EQ(told.service_account, "trainer");
  EXPECT_EQ(log_.Count("dependency snapshot put aside"), 1U);
  EXPECT_THAT(registry_->Render(), HasSubstr("paceline_dependency_quarantines_total{cause=\"NotTrusted\"} 1"));
  EXPECT_EQ(start(false).state, api::DependencyState::kRestored) << "it was recorded anew, and signed";

  // The key was exchanged under the running agent, and the old one is believed no more.
  WriteTextFile(key_file, fakes::kOtherTestKey);
  told = start(true);
  EXPECT_THAT(told.reason, HasSubstr("not trusted"));
  start(false);
  // Without its key an agent neither believes nor publishes anything, and jobs run.
  fs::remove(key_file);
  const size_t recorded = log_.Count("dependencies recorded");
  told = start(true);
  EXPECT_THAT(told.reason, HasSubstr("signing"));
  EXPECT_EQ(told.quarantined, "") << "nothing is known against the snapshot";
  EXPECT_EQ(log_.Count("dependencies recorded"), recorded);
}

TEST_F(DepsVolumeTest, ASnapshotThatHasLostBytesIsPutAsideOnce) {
  RecordOne();
  const PublishRequest request = Request();
  ASSERT_TRUE(Publish(request).ok());
  EXPECT_THAT(*volume_->UsedSnapshots(), SizeIs(1));
  holder_.stats = R"({"lostChunks":0,"damagedChunks":3})";
  EXPECT_EQ(Told().quarantined, "") << "fetched again, they were right";
  holder_.stats = R"({"lostChunks":2})";
  EXPECT_THAT(Told().quarantined, HasSubstr("2 of its chunks"));
  EXPECT_EQ(Told().state, api::DependencyState::kRestored);
  EXPECT_EQ(log_.Count("dependency snapshot put aside"), 1U);
  ASSERT_THAT(Snapshots(), SizeIs(1));
  EXPECT_EQ(Snapshots()[0].manifest.quarantine->by, "n0");
  // Nobody else gets it; the next install takes its place.
  const PublishRequest next = Request("csi-2", kDepsOtherUid);
  ASSERT_TRUE(Publish(next).ok());
  EXPECT_EQ(FsTypeAt(next.target_path + "/tree"), "");
  Install("csi-2");
  Report("csi-2");
  LookAround();
  ASSERT_THAT(Snapshots(), SizeIs(1));
  EXPECT_FALSE(Snapshots()[0].manifest.quarantine);
  StartAgent();
  publisher_->Look(Deadline::Infinite());
  EXPECT_EQ(log_.Count("dependency snapshot put aside"), 1U) << "told and done once";
  EXPECT_FALSE(Snapshots()[0].manifest.quarantine) << "that of the dead one was another";
  ASSERT_TRUE(Unpublish(request).ok());
  ASSERT_TRUE(Unpublish(next).ok());
  EXPECT_THAT(*volume_->UsedSnapshots(), IsEmpty());
}

}  // namespace
}  // namespace paceline::agent
