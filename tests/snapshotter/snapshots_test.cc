#include "snapshotter/plugin/snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/simulated_clock.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Converted layers without a kernel: what is mounted is what a set says.
class FakeLayers final : public RemoteLayers {
 public:
  std::optional<RemoteLayer> Find(const LayerRequest& request) override {
    requests.push_back(request);
    if (!converted.contains(request.chain_id)) return std::nullopt;
    return RemoteLayer{request.image_name, "file:///store", blocks::Sha256Of(request.manifest_digest), 0};
  }
  Status Mount(uint64_t id, const RemoteLayer&, const std::string&) override {
    if (!failure.ok()) return failure;
    mounted.insert(id);
    return Status();
  }
  void Unmount(uint64_t id, const std::string&) override { mounted.erase(id); }
  void Use(const std::vector<uint64_t>& ids) override { used = ids; }
  uint64_t KeptBytes(uint64_t) override { return 4096; }

  std::set<std::string> converted;
  Status failure;
  std::vector<LayerRequest> requests;
  std::set<uint64_t> mounted;
  std::vector<uint64_t> used;
};

class SnapshotsTest : public testing::Test {
 protected:
  SnapshotsTest() {
    Result<std::unique_ptr<SnapshotTable>> table = SnapshotTable::Open(folder_.path(), files_, clock_);
    EXPECT_TRUE(table.ok());
    table_ = *std::move(table);
    snapshots_ = std::make_unique<Snapshots>(folder_.path(), OverlayTraits{}, *table_, layers_, *log_);
  }

  static NewSnapshot Extraction(const std::string& target, const std::string& parent = "") {
    return {"extract " + target,
            parent,
            SnapshotKind::kActive,
            {{kTargetLabel, target},
             {"containerd.io/snapshot/cri.image-ref", "registry.test/python:1"},
             {"containerd.io/snapshot/cri.manifest-digest", "sha256:m"}}};
  }
  // What containerd does after kAlreadyExists.
  std::vector<SnapshotPtr> Find(const std::string& target, const std::string& parent) {
    return snapshots_->List({"labels.\"" + std::string(kTargetLabel) + "\"==" + target + ",parent==\"" + parent + "\""})
        .value_or({});
  }
  std::string Path(uint64_t id) const { return SnapshotFiles(folder_.path(), id); }

  fakes::TemporaryFolder folder_;
  fakes::SimulatedClock clock_;
  RealFileSystem files_;
  std::unique_ptr<Logger> log_ = Logger::Discard();
  FakeLayers layers_;
  std::unique_ptr<SnapshotTable> table_;
  std::unique_ptr<Snapshots> snapshots_;
};

TEST_F(SnapshotsTest, AnOrdinaryImageIsUnpackedLayerByLayer) {
  const Result<std::vector<PlannedMount>> first = snapshots_->Make(Extraction("sha256:a"));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_EQ(first->front().type, "bind");
  std::ofstream(first->front().source + "/file") << std::string(10000, 'x');
  ASSERT_TRUE(snapshots_->Commit("extract sha256:a", {"base", "", SnapshotKind::kCommitted, {}}).ok());
  const Result<FolderUsage> usage = snapshots_->Usage("base");
  ASSERT_TRUE(usage.ok());
  EXPECT_GE(usage->bytes, 10000u);
  EXPECT_EQ(usage->inodes, 2u);
  const Result<std::vector<PlannedMount>> container = snapshots_->Make({"c", "base", SnapshotKind::kActive, {}});
  ASSERT_TRUE(container.ok());
  EXPECT_EQ(container->front().type, "overlay");
  const Result<std::vector<PlannedMount>> again = snapshots_->Mounts("c");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *container);
  EXPECT_EQ(snapshots_->Mounts("base").status().code(), StatusCode::kAborted);
  EXPECT_EQ(snapshots_->Mounts("nobody").status().code(), StatusCode::kNotFound);
  // Only extractions ask for converted layers.
  ASSERT_EQ(layers_.requests.size(), 1u);
  EXPECT_EQ(layers_.requests[0].chain_id, "sha256:a");
  EXPECT_EQ(layers_.requests[0].image_name, "registry.test/python:1");
  EXPECT_EQ(layers_.requests[0].manifest_digest, "sha256:m");
}

TEST_F(SnapshotsTest, TheRootBelongsToWhomTheImageSays) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  const Result<std::vector<PlannedMount>> first = snapshots_->Make({"a", "", SnapshotKind::kActive, {}});
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(chown(first->front().source.c_str(), 1000, 2000), 0);
  ASSERT_TRUE(snapshots_->Commit("a", {"base", "", SnapshotKind::kCommitted, {}}).ok());
  ASSERT_TRUE(snapshots_->Make({"c", "base", SnapshotKind::kActive, {}}).ok());
  struct stat st = {};
  ASSERT_EQ(stat(Path((*table_->Find("c"))->id).c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 1000u);
  EXPECT_EQ(st.st_gid, 2000u);
  EXPECT_EQ(st.st_mode & 07777, 0755u);
}

TEST_F(SnapshotsTest, AConvertedLayerIsThereAtOnce) {
  layers_.converted = {"sha256:a", "sha256:b"};
  ASSERT_EQ(snapshots_->Make(Extraction("sha256:a")).status().code(), StatusCode::kAlreadyExists);
  const std::vector<SnapshotPtr> bottom = Find("sha256:a", "");
  ASSERT_EQ(bottom.size(), 1u);
  EXPECT_EQ(bottom[0]->kind, SnapshotKind::kCommitted);
  EXPECT_TRUE(layers_.mounted.contains(bottom[0]->id));
  ASSERT_EQ(snapshots_->Make(Extraction("sha256:b", bottom[0]->name)).status().code(), StatusCode::kAlreadyExists);
  const std::vector<SnapshotPtr> top = Find("sha256:b", bottom[0]->name);
  ASSERT_EQ(top.size(), 1u);
  EXPECT_THAT(Find("sha256:b", ""), IsEmpty());
  // Asked again, as after a lost answer, there is still one.
  EXPECT_EQ(snapshots_->Make(Extraction("sha256:b", bottom[0]->name)).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Find("sha256:b", bottom[0]->name).size(), 1u);
  EXPECT_EQ(snapshots_->Usage(top[0]->name)->bytes, 4096u);
  // A lost mount comes back when a container needs it.
  layers_.mounted.clear();
  const Result<std::vector<PlannedMount>> container = snapshots_->Make({"c", top[0]->name, SnapshotKind::kActive, {}});
  ASSERT_TRUE(container.ok()) << container.status().ToString();
  EXPECT_EQ(container->front().options.back(), "lowerdir=" + Path(top[0]->id) + ":" + Path(bottom[0]->id));
  EXPECT_EQ(layers_.mounted.size(), 2u);
  EXPECT_THAT(layers_.used, ElementsAre(bottom[0]->id, top[0]->id));
  // And goes when the snapshots do.
  ASSERT_TRUE(snapshots_->Remove("c").ok());
  EXPECT_EQ(snapshots_->Remove(bottom[0]->name).code(), StatusCode::kAborted);
  ASSERT_TRUE(snapshots_->Remove(top[0]->name).ok());
  ASSERT_TRUE(snapshots_->Remove(bottom[0]->name).ok());
  EXPECT_THAT(layers_.mounted, IsEmpty());
  ASSERT_TRUE(snapshots_->CleanUp().ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "snapshots"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
}

TEST_F(SnapshotsTest, WhatCannotBeMountedIsUnpacked) {
  layers_.converted = {"sha256:a"};
  layers_.failure = UnavailableError("no EROFS");
  const Result<std::vector<PlannedMount>> mounts = snapshots_->Make(Extraction("sha256:a"));
  ASSERT_TRUE(mounts.ok()) << mounts.status().ToString();
  EXPECT_EQ(mounts->front().type, "bind");
  EXPECT_THAT(Find("sha256:a", ""),
              ElementsAre(testing::Pointee(testing::Field(&SnapshotRecord::kind, SnapshotKind::kActive))));
  ASSERT_TRUE(snapshots_->CleanUp().ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "snapshots"), {}), 1);
}

TEST_F(SnapshotsTest, AViewOfAConvertedLayerIsABind) {
  layers_.converted = {"sha256:a"};
  EXPECT_FALSE(snapshots_->Make(Extraction("sha256:a")).ok());
  const SnapshotPtr bottom = Find("sha256:a", "").at(0);
  NewSnapshot view = Extraction("sha256:b", bottom->name);
  view.kind = SnapshotKind::kView;
  const Result<std::vector<PlannedMount>> mounts = snapshots_->Make(view);
  ASSERT_TRUE(mounts.ok());
  EXPECT_EQ(mounts->front(), (PlannedMount{"bind", Path(bottom->id), {"ro", "rbind"}}));
}

TEST_F(SnapshotsTest, CleanUpLeavesWhatIsInUse) {
  ASSERT_TRUE(snapshots_->Make({"a", "", SnapshotKind::kActive, {}}).ok());
  ASSERT_TRUE(snapshots_->Make({"b", "", SnapshotKind::kActive, {}}).ok());
  const std::string kept = Path((*table_->Find("a"))->id), gone = Path((*table_->Find("b"))->id);
  std::ofstream(gone + "/x") << "x";
  ASSERT_TRUE(snapshots_->Remove("b").ok());
  EXPECT_TRUE(std::filesystem::exists(gone));
  ASSERT_TRUE(snapshots_->CleanUp().ok());
  EXPECT_FALSE(std::filesystem::exists(gone));
  EXPECT_TRUE(std::filesystem::exists(kept));
}

}  // namespace
}  // namespace paceline::snapshotter
