#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

class FolderCollectorTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<BlobStore>> store = OpenFolderStore(folder_.path(), StoreAccess::kWrite);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }
  Descriptor Blob(const std::string& text, const char* type) {
    return *WriteWholeBlob(*store_, type, text, Deadline::Infinite());
  }
  void Layer(const std::string& tag, const std::string& name) {
    Blob("{}", kEmptyMediaType);
    const BlockLayer layer{
        Sha256Of(name), {}, Blob(name + " index", kIndexMediaType), {Blob(name + " data", kDataMediaType)}};
    ASSERT_TRUE(store_->PutManifest(tag, kManifestMediaType, EncodeLayerManifest(layer), Deadline::Infinite()).ok());
  }
  Result<CollectedBlobs> Collect(Duration grace, CollectMode mode = CollectMode::kRemove) {
    return CollectFolderStore(folder_.path(), grace, mode, clock_);
  }
  bool Has(const std::string& text) { return store_->StatBlob(Sha256Of(text), Deadline::Infinite()).ok(); }

  fakes::TemporaryFolder folder_;
  RealClock clock_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(FolderCollectorTest, RemovesWhatNoTagLeadsTo) {
  Layer("kept", "a");
  Layer("going", "b");
  Blob("stray", kDataMediaType);
  ASSERT_TRUE(store_->RemoveTag("going", Deadline::Infinite()).ok());
  ASSERT_TRUE(store_->RemoveTag("going", Deadline::Infinite()).ok());
  const Result<CollectedBlobs> young = Collect(std::chrono::hours(1));
  ASSERT_TRUE(young.ok()) << young.status().ToString();
  EXPECT_EQ(young->removed, 0U);
  EXPECT_EQ(young->young, 4U);
  EXPECT_EQ(Collect(Duration(0), CollectMode::kDryRun)->removed, 4U);
  EXPECT_TRUE(Has("b data"));
  EXPECT_EQ(Collect(Duration(0))->removed, 4U);
  EXPECT_FALSE(Has("b data") || Has("b index") || Has("stray"));
  EXPECT_TRUE(Has("a data") && Has("a index") && Has("{}"));
  EXPECT_TRUE(store_->GetManifest("kept", Deadline::Infinite()).ok());
}

TEST_F(FolderCollectorTest, RemovesNothingWhileATagCannotBeRead) {
  Layer("kept", "a");
  Blob("stray", kDataMediaType);
  std::ofstream(folder_ / "tags/broken") << "{";
  EXPECT_EQ(Collect(Duration(0)).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Has("stray"));
}

TEST_F(FolderCollectorTest, TagsAreListedByTheirBeginning) {
  Layer("a-1", "a");
  Layer("a-2", "b");
  Layer("b-1", "c");
  EXPECT_THAT(*store_->ListTags("a-", Deadline::Infinite()), testing::ElementsAre("a-1", "a-2"));
  EXPECT_THAT(*store_->ListTags("", Deadline::Infinite()), testing::SizeIs(3));
}

}  // namespace
}  // namespace paceline::blocks
