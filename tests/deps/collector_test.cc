// What is removed from a store, and what never is.
#include "lib/deps/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lib/blocks/format/hot_set_tag.h"
#include "lib/deps/lease.h"
#include "lib/deps/quarantine.h"
#include "tests/deps/stored_snapshots.h"
#include "tests/fakes/test_keys.h"

namespace paceline::deps {
namespace {

using std::chrono::hours;
using testing::IsEmpty;
namespace fs = std::filesystem;

class CollectorTest : public StoredSnapshots {
 protected:
  Result<CollectReport> Collect(CollectOptions options = {}) {
    return CollectStore(store_folder(), lease_folder(), options, clock_);
  }
  CollectReport Collected(CollectOptions options = {}) {
    Result<CollectReport> report = Collect(options);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return report.ok() ? *report : CollectReport{};
  }
  uint64_t Removed(RemovalReason reason, CollectOptions options = {}) { return Collected(options).removed[reason]; }
  bool IsWhole(const FoundSnapshot& snapshot) const {
    bool is_whole = HasBlob(snapshot.descriptor.digest) && HasBlob(snapshot.manifest.record.digest) &&
                    HasBlob(snapshot.manifest.layer.index.digest) &&
                    HasTag(blocks::ImageTag(snapshot.descriptor.digest));
    for (const blocks::Descriptor& blob : snapshot.manifest.layer.data) is_whole = is_whole && HasBlob(blob.digest);
    return is_whole;
  }
  std::vector<std::string> Names(const std::string& below) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(store_folder() + below)) names.push_back(entry.path().filename());
    return names;
  }
  static blocks::SigningKey Key() { return *blocks::SigningKey::FromPem(fakes::kTestKey); }
};

TEST_F(CollectorTest, AnEndedSnapshotGoesWholeAfterTheGrace) {
  const FoundSnapshot snapshot = Publish("make", "files", hours(1), Key());
  const blocks::Digest image = blocks::Sha256Of(DerivedImage(snapshot.manifest, snapshot.descriptor));
  ASSERT_TRUE(
      store_->PutManifest(blocks::HotSetTag(image), blocks::kManifestMediaType, "{}", Deadline::Infinite()).ok());
  clock_.Advance(hours(24));
  EXPECT_EQ(Removed(RemovalReason::kExpired), 0U);
  EXPECT_TRUE(IsWhole(snapshot));
  clock_.Advance(hours(1));
  EXPECT_EQ(Removed(RemovalReason::kExpired, {.mode = blocks::CollectMode::kDryRun}), 1U);
  EXPECT_TRUE(IsWhole(snapshot)) << "it was only asked";
  const CollectReport report = Collected();
  EXPECT_EQ(report.removed.at(RemovalReason::kExpired), 1U);
  EXPECT_GT(report.blobs.removed, 0U);
  EXPECT_THAT(Names("/tags"), IsEmpty());
  EXPECT_THAT(Names("/blobs/sha256"), IsEmpty());
  EXPECT_THAT(Collected().removed_keys, IsEmpty());
}

TEST_F(CollectorTest, WhatANodeUsesStaysAsLongAsItSaysSo) {
  const FoundSnapshot snapshot = Publish("make", "files", hours(1), Key());
  ASSERT_TRUE(
      WriteUse(*store_, snapshot.descriptor.digest, "n1", clock_.WallNow() + kUseLife, Deadline::Infinite()).ok());
  ASSERT_TRUE(
      WriteUse(*store_, snapshot.descriptor.digest, "n2", clock_.WallNow() + hours(2), Deadline::Infinite()).ok());
  EXPECT_EQ(ListUses(*store_, "", Deadline::Infinite())->size(), 2U);
  EXPECT_EQ(ListUses(*store_, "n1", Deadline::Infinite())->size(), 1U);
  clock_.Advance(hours(48));
  CollectReport report = Collected();
  EXPECT_EQ(report.in_use, 1U);
  EXPECT_TRUE(IsWhole(snapshot));
  EXPECT_EQ(ListUses(*store_, "", Deadline::Infinite())->size(), 1U) << "that of n2 is over";
  // Superseded, too, it stays for whoever has it mounted.
  Publish("make", "other files", hours(1000), Key());
  clock_.Advance(hours(48));
  report = Collected();
  EXPECT_EQ(report.in_use, 1U);
  EXPECT_TRUE(IsWhole(snapshot));
  clock_.Advance(kUseLife);  // the node is gone
  EXPECT_EQ(Removed(RemovalReason::kSuperseded), 1U);
  EXPECT_FALSE(HasBlob(snapshot.manifest.layer.data[0].digest));
  EXPECT_THAT(*ListUses(*store_, "", Deadline::Infinite()), IsEmpty());
}

TEST_F(CollectorTest, ASupersededSnapshotGoesAndSharedBlobsStay) {
  const FoundSnapshot before = Publish("make", "files", hours(1000), Key());
  const FoundSnapshot sibling = Publish("make install", "files", hours(1000), Key());  // the same blobs
  clock_.Advance(hours(100));
  const FoundSnapshot now = Publish("make", "other files", hours(1000), Key());
  clock_.Advance(hours(23));
  EXPECT_EQ(Removed(RemovalReason::kSuperseded), 0U) << "a pod may just have found it";
  clock_.Advance(hours(1));
  EXPECT_EQ(Removed(RemovalReason::kSuperseded), 1U);
  EXPECT_FALSE(HasTag(blocks::ImageTag(before.descriptor.digest)));
  EXPECT_FALSE(HasTag(SignatureTag(before.descriptor.digest)));
  EXPECT_TRUE(IsWhole(sibling));
  EXPECT_TRUE(IsWhole(now));
  EXPECT_TRUE(FindSnapshot(*store_, now.manifest.key, Deadline::Infinite()).ok());
}

TEST_F(CollectorTest, QuarantineEndsInTheEnd) {
  const FoundSnapshot snapshot = Publish("make", "files", hours(1), Key());
  const QuarantineOrder order{snapshot.manifest.key, "team", snapshot.descriptor.digest, "why", "n1"};
  ASSERT_TRUE(*PutAside(*store_, order, clock_.WallNow(), Deadline::Infinite()));
  clock_.Advance(hours(24 * 7 - 1));
  EXPECT_THAT(Collected().removed_keys, IsEmpty());
  EXPECT_TRUE(IsWhole(snapshot)) << "somebody may want to look at it, or lift it";
  clock_.Advance(hours(1));
  EXPECT_EQ(Removed(RemovalReason::kQuarantined), 1U);
  EXPECT_THAT(Names("/tags"), IsEmpty());
  EXPECT_THAT(Names("/blobs/sha256"), IsEmpty());
}

// A collector dies after any of its steps; the next one finishes.
TEST_F(CollectorTest, ACutAtAnyStepIsFinishedByTheNext) {
  for (size_t steps = 0;; ++steps) {
    SCOPED_TRACE(steps);
    const FoundSnapshot snapshot = Publish("make", "files", hours(1), Key());
    const FoundSnapshot other = Publish("other", "others", hours(1000));
    clock_.Advance(hours(48));
    const blocks::Digest image = blocks::Sha256Of(DerivedImage(snapshot.manifest, snapshot.descriptor));
    const std::string tags[] = {SnapshotTag(snapshot.manifest.key), SignatureTag(snapshot.descriptor.digest),
                                blocks::HotSetTag(image), blocks::ImageTag(snapshot.descriptor.digest)};
    if (steps > std::size(tags)) break;
    for (size_t i = 0; i < steps; ++i) ASSERT_TRUE(store_->RemoveTag(tags[i], Deadline::Infinite()).ok());
    Collected();
    for (const std::string& tag : tags) EXPECT_FALSE(HasTag(tag)) << tag;
    EXPECT_FALSE(HasBlob(snapshot.manifest.layer.data[0].digest));
    EXPECT_TRUE(IsWhole(other));
  }
}

TEST_F(CollectorTest, WhatItDoesNotUnderstandItLeavesAlone) {
  // An image of a container, converted into the same store: its original lies in a registry.
  blocks::BlockImageManifest image;
  image.subject = {blocks::kManifestMediaType, blocks::Sha256Of("original"), 10, {}};
  image.platform = "linux/amd64";
  ASSERT_TRUE(store_
                  ->PutManifest(blocks::ImageTag(image.subject.digest), blocks::kManifestMediaType,
                                blocks::EncodeImageManifest(image), Deadline::Infinite())
                  .ok());
  // A snapshot whose tag leads to what cannot be read.
  const FoundSnapshot snapshot = Publish("make", "files", hours(1));
  ASSERT_TRUE(
      store_->PutManifest(SnapshotTag(snapshot.manifest.key), blocks::kManifestMediaType, "{}", Deadline::Infinite())
          .ok());
  clock_.Advance(hours(1000));
  const CollectReport report = Collected();
  EXPECT_THAT(report.removed_keys, IsEmpty());
  EXPECT_EQ(report.broken.size(), 1U);
  EXPECT_TRUE(HasTag(blocks::ImageTag(image.subject.digest)));
  EXPECT_TRUE(IsWhole(snapshot));
  // Blobs that are younger than the grace may belong to a recorder that is not at its tag yet.
  const blocks::Descriptor fresh = *blocks::WriteWholeBlob(*store_, "x", "fresh", Deadline::Infinite());
  clock_.StepWall(-hours(1000));
  EXPECT_EQ(Collected().blobs.young, 1U);
  EXPECT_TRUE(HasBlob(fresh.digest));
}

TEST_F(CollectorTest, OneAtATimeNotWhileSomebodyRecordsAndNotTooOften) {
  Publish("make", "files", hours(1));
  clock_.Advance(hours(48));
  {
    const Result<Lease> recorder =
        Lease::Take(lease_folder(), kStoreLease, Lease::Mode::kShared, clock_, Deadline::Infinite());
    ASSERT_TRUE(recorder.ok());
    EXPECT_EQ(Collect().status().code(), StatusCode::kAborted);
  }
  EXPECT_TRUE(Collected({.min_interval = hours(6)}).was_due);
  Publish("make", "files", hours(1));
  clock_.Advance(hours(5));
  EXPECT_FALSE(Collected({.grace = hours(1), .min_interval = hours(6)}).was_due);
  clock_.Advance(hours(1));
  EXPECT_EQ(Removed(RemovalReason::kExpired, {.grace = hours(1), .min_interval = hours(6)}), 1U);
}

}  // namespace
}  // namespace paceline::deps
