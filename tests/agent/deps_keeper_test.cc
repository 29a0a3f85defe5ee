// Uses and collections with a real folder store; the snapshots in it have no layer.
#include "agent/csi/deps_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/deps/key.h"
#include "lib/deps/snapshot_store.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::agent {
namespace {

using std::chrono::hours;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DepsKeeperTest : public ::testing::Test {
 protected:
  std::unique_ptr<DepsKeeper> Keeper(const std::string& node) {
    DepsKeeperOptions options;
    options.store = "file://" + folder_ / "store";
    options.folder = folder_ / "store";
    options.lease_folder = folder_ / "store/leases";
    options.node = node;
    options.open_for_reading = [this] { return Open(blocks::StoreAccess::kRead); };
    options.open_for_writing = [this] { return Open(); };
    options.list_used = [this, node] { return used_.at(node); };
    options.metrics = &metrics_;
    return std::make_unique<DepsKeeper>(std::move(options), clock_, log_.logger());
  }
  Result<std::unique_ptr<blocks::BlobStore>> Open(blocks::StoreAccess access = blocks::StoreAccess::kWrite) const {
    if (!is_store_there_) return UnavailableError("the store is away");
    return blocks::OpenFolderStore(folder_ / "store", access);
  }
  blocks::Digest Publish(const std::string& command) {
    const auto store = *Open();
    deps::KeyInputs inputs;
    inputs.ns = "team";
    inputs.command = command;
    deps::SnapshotRecord record;
    record.key_document = DumpJson(deps::KeyDocument(inputs));
    record.created = clock_.WallNow();
    record.expires = clock_.WallNow() + hours(1);
    deps::SnapshotManifest manifest;
    manifest.key = blocks::Sha256Of(record.key_document).Hex();
    manifest.ns = "team";
    manifest.created = FormatRfc3339(clock_.WallNow());
    manifest.layer.index = *blocks::WriteWholeBlob(*store, blocks::kIndexMediaType, command, Deadline::Infinite());
    manifest.layer.data = {*blocks::WriteWholeBlob(*store, blocks::kDataMediaType, command, Deadline::Infinite())};
    return deps::PublishSnapshot(*store, manifest, record, std::nullopt, Deadline::Infinite())->descriptor.digest;
  }
  std::vector<deps::Use> Uses(const std::string& node = "") const {
    return *deps::ListUses(**Open(), node, Deadline::Infinite());
  }
  size_t Snapshots() const { return deps::ListSnapshots(**Open(), "", Deadline::Infinite())->snapshots.size(); }

  const fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_{RealClock().WallNow()};
  fakes::CaptureLog log_;
  const std::unique_ptr<MetricsRegistry> registry_ = MetricsRegistry::Create();
  DepsMetrics metrics_{*registry_};
  std::map<std::string, Result<std::set<blocks::Digest>>> used_ = {{"n1", std::set<blocks::Digest>()},
                                                                   {"n2", std::set<blocks::Digest>()}};
  bool is_store_there_ = true;
};

TEST_F(DepsKeeperTest, WhatAnyNodeUsesIsRemovedByNone) {
  const blocks::Digest snapshot = Publish("make");
  Publish("other");
  const auto one = Keeper("n1"), two = Keeper("n2");
  used_.at("n2") = std::set{snapshot};
  two->LookAfter();
  ASSERT_THAT(Uses("n2"), SizeIs(1));
  EXPECT_EQ(Uses("n2")[0].snapshot, snapshot);
  EXPECT_THAT(Uses("n1"), IsEmpty());
  // A pod of weeks; its node says so again and again.
  for (int day = 0; day < 20; ++day) {
    clock_.Advance(hours(24));
    two->LookAfter();
    one->LookAfter();
  }
  EXPECT_EQ(Snapshots(), 1U) << "the other one is gone";
  EXPECT_THAT(registry_->Render(), HasSubstr("paceline_dependency_collected_snapshots_total{reason=\"expired\"} 1"));
  // Its pod is over.
  used_.at("n2") = std::set<blocks::Digest>();
  two->LookAfter();
  EXPECT_THAT(Uses(), IsEmpty());
  clock_.Advance(hours(6));
  one->LookAfter();
  EXPECT_EQ(Snapshots(), 0U);
}

TEST_F(DepsKeeperTest, ADeadNodeHoldsNothingForEver) {
  used_.at("n1") = std::set{Publish("make")};
  Keeper("n1")->LookAfter();
  clock_.Advance(hours(24 * 6));
  Keeper("n2")->LookAfter();
  EXPECT_EQ(Snapshots(), 1U);
  clock_.Advance(hours(24));
  Keeper("n2")->LookAfter();
  EXPECT_EQ(Snapshots(), 0U);
  EXPECT_THAT(Uses(), IsEmpty());
}

TEST_F(DepsKeeperTest, MakesNoStoreWhereThereIsNone) {
  Keeper("n1")->LookAfter();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "store"));
  EXPECT_EQ(log_.Text(), "");
}

TEST_F(DepsKeeperTest, WhoDoesNotKnowWhatIsUsedRemovesNothing) {
  used_.at("n1") = std::set{Publish("make")};
  const auto keeper = Keeper("n1");
  keeper->LookAfter();
  clock_.Advance(hours(100));
  used_.at("n1") = UnavailableError("no such folder");
  keeper->LookAfter();
  keeper->LookAfter();
  EXPECT_THAT(Uses(), SizeIs(1)) << "what was said before holds";
  EXPECT_EQ(Snapshots(), 1U);
  EXPECT_EQ(log_.Count("uses of dependency snapshots were not written, retrying"), 1U);
  is_store_there_ = false;
  used_.at("n1") = std::set<blocks::Digest>();
  keeper->LookAfter();
  is_store_there_ = true;
  keeper->LookAfter();
  EXPECT_EQ(Snapshots(), 0U);
}

}  // namespace
}  // namespace paceline::agent
