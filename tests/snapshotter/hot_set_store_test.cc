#include "snapshotter/hot_set_store.h"

#include <gtest/gtest.h>

#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::snapshotter {
namespace {

class HotSetStoreTest : public testing::Test {
 protected:
  HotSetStoreTest() {
    Result<std::unique_ptr<blocks::BlobStore>> store =
        blocks::OpenFolderStore(folder_ / "store", blocks::StoreAccess::kWrite);
    EXPECT_TRUE(store.ok());
    store_ = *std::move(store);
    blocks::BlockImageManifest image;
    image.subject = {blocks::kManifestMediaType, blocks::Sha256Of("original"), 7, {}};
    image.platform = "linux/amd64";
    const auto stored = store_->PutManifest("image", blocks::kManifestMediaType, blocks::EncodeImageManifest(image),
                                            Deadline::Infinite());
    EXPECT_TRUE(stored.ok());
    image_ = stored->digest;
  }

  fakes::TemporaryFolder folder_;
  std::unique_ptr<blocks::BlobStore> store_;
  blocks::Digest image_;
  const HotSet set_{{blocks::Sha256Of("index")}, {{0, 7, std::chrono::milliseconds(3)}}};
};

TEST_F(HotSetStoreTest, TheFirstSetStays) {
  EXPECT_EQ(LoadHotSet(*store_, image_, Deadline::Infinite()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(SaveHotSet(*store_, image_, set_, HotSetSave::kFirst, Deadline::Infinite()).ok());
  const Result<HotSet> read = LoadHotSet(*store_, image_, Deadline::Infinite());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->layers, set_.layers);
  EXPECT_EQ(read->accesses, set_.accesses);
  EXPECT_EQ(SaveHotSet(*store_, image_, {}, HotSetSave::kFirst, Deadline::Infinite()).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(LoadHotSet(*store_, image_, Deadline::Infinite())->accesses, set_.accesses);
}

TEST_F(HotSetStoreTest, ABetterSetReplacesIt) {
  ASSERT_TRUE(SaveHotSet(*store_, image_, set_, HotSetSave::kFirst, Deadline::Infinite()).ok());
  const HotSet larger{set_.layers, {{0, 7, std::chrono::milliseconds(3)}, {0, 9, std::chrono::milliseconds(5)}}};
  ASSERT_TRUE(SaveHotSet(*store_, image_, larger, HotSetSave::kReplace, Deadline::Infinite()).ok());
  EXPECT_EQ(LoadHotSet(*store_, image_, Deadline::Infinite())->accesses, larger.accesses);
}

TEST_F(HotSetStoreTest, RefusesWhatIsNoSetOfTheImage) {
  ASSERT_TRUE(SaveHotSet(*store_, image_, set_, HotSetSave::kFirst, Deadline::Infinite()).ok());
  const blocks::Digest other = blocks::Sha256Of("other");
  const auto stored = store_->GetManifest(blocks::HotSetTag(image_), Deadline::Infinite());
  ASSERT_TRUE(stored.ok());
  for (const std::string& text : {stored->bytes, std::string("{}"), std::string("no json")}) {
    ASSERT_TRUE(
        store_->PutManifest(blocks::HotSetTag(other), blocks::kManifestMediaType, text, Deadline::Infinite()).ok());
    EXPECT_EQ(LoadHotSet(*store_, other, Deadline::Infinite()).status().code(), StatusCode::kDataLoss) << text;
  }
  EXPECT_EQ(SaveHotSet(*store_, blocks::Sha256Of("nobody"), set_, HotSetSave::kFirst, Deadline::Infinite()).code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::snapshotter
