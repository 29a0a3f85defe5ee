#include "lib/blocks/format/folder_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>

#include "lib/base/unique_fd.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::blocks {
namespace {

namespace fs = std::filesystem;

class FolderStoreTest : public testing::Test {
 protected:
  std::unique_ptr<BlobStore> Open() {
    Result<std::unique_ptr<BlobStore>> store = OpenFolderStore(path_, StoreAccess::kWrite);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(*store);
  }
  Descriptor Write(BlobStore& store, const std::string& bytes) {
    std::unique_ptr<BlobWriter> writer = std::move(*store.NewBlob(forever_));
    EXPECT_TRUE(writer->Append(bytes.substr(0, 1), forever_).ok());
    EXPECT_TRUE(writer->Append(bytes.substr(1), forever_).ok());
    return *writer->Commit(forever_);
  }

  fakes::TemporaryFolder folder_;
  const std::string path_ = folder_ / "a/b/store";
  const Deadline forever_ = Deadline::Infinite();
};

TEST_F(FolderStoreTest, BlobsByDigest) {
  const std::unique_ptr<BlobStore> store = Open();
  const Descriptor blob = Write(*store, "content");
  EXPECT_EQ(blob.digest, Sha256Of("content"));
  EXPECT_EQ(blob.size_bytes, 7U);
  EXPECT_EQ(*store->StatBlob(blob.digest, forever_), 7U);
  std::string range(3, '\0');
  ASSERT_TRUE(store->ReadBlob(blob.digest, 2, range, forever_).ok());
  EXPECT_EQ(range, "nte");
  EXPECT_EQ(store->ReadBlob(blob.digest, 5, range, forever_).code(), StatusCode::kDataLoss);
  EXPECT_EQ(store->ReadBlob(Sha256Of("other"), 0, range, forever_).code(), StatusCode::kNotFound);
  EXPECT_EQ(store->StatBlob(Sha256Of("other"), forever_).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(fs::is_empty(path_ + "/tmp"));
}

TEST_F(FolderStoreTest, WithoutCommitNothingStays) {
  const std::unique_ptr<BlobStore> store = Open();
  {
    const std::unique_ptr<BlobWriter> writer = std::move(*store->NewBlob(forever_));
    ASSERT_TRUE(writer->Append("half", forever_).ok());
  }
  EXPECT_TRUE(fs::is_empty(path_ + "/tmp"));
  EXPECT_TRUE(fs::is_empty(path_ + "/blobs/sha256"));
}

TEST_F(FolderStoreTest, ManifestsByTagAndDigest) {
  const std::unique_ptr<BlobStore> store = Open();
  const std::string first = "{\"a\":1}", second = "{\"a\":2}";
  ASSERT_TRUE(store->PutManifest("t", "type/x", first, forever_).ok());
  const Result<Descriptor> put = store->PutManifest("t", "type/x", second, forever_);
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(store->GetManifest("t", forever_)->bytes, second);  // the last one wins
  EXPECT_EQ(store->GetManifest("t", forever_)->descriptor.media_type, "type/x");
  EXPECT_EQ(store->GetManifest(Sha256Of(first).ToString(), forever_)->bytes, first);
  EXPECT_EQ(store->GetManifest("none", forever_).status().code(), StatusCode::kNotFound);
  for (const char* tag : {"../t", "a/b", "-x", ".x", "a b"}) {
    EXPECT_EQ(store->GetManifest(tag, forever_).status().code(), StatusCode::kInvalidArgument) << tag;
    EXPECT_EQ(store->PutManifest(tag, "t", "{}", forever_).status().code(), StatusCode::kInvalidArgument) << tag;
  }
}

TEST_F(FolderStoreTest, DamagedManifestsAndTagsAreSaid) {
  const std::unique_ptr<BlobStore> store = Open();
  ASSERT_TRUE(store->PutManifest("t", "type/x", "{}", forever_).ok());
  std::ofstream(path_ + "/blobs/sha256/" + Sha256Of("{}").Hex()) << "[]";
  EXPECT_EQ(store->GetManifest("t", forever_).status().code(), StatusCode::kDataLoss);
  for (const char* text : {"", "{", "{\"digest\":\"x\",\"size\":1,\"mediaType\":\"\"}", "{\"digest\":5}"}) {
    std::ofstream(path_ + "/tags/t") << text;
    EXPECT_EQ(store->GetManifest("t", forever_).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST_F(FolderStoreTest, RemovesWhatDeadWritersLeftAndNothingElse) {
  std::unique_ptr<BlobStore> store = Open();
  const std::unique_ptr<BlobWriter> living = std::move(*store->NewBlob(forever_));
  ASSERT_TRUE(living->Append("living", forever_).ok());
  std::ofstream(path_ + "/tmp/blob-dead") << "dead";
  const std::unique_ptr<BlobStore> again = Open();
  EXPECT_FALSE(fs::exists(path_ + "/tmp/blob-dead"));
  EXPECT_TRUE(living->Commit(forever_).ok());
  EXPECT_TRUE(again->StatBlob(Sha256Of("living"), forever_).ok());
}

TEST_F(FolderStoreTest, OpensOnlyStores) {
  EXPECT_EQ(OpenFolderStore(path_, StoreAccess::kRead).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path_));
  Open();
  EXPECT_TRUE(OpenFolderStore(path_, StoreAccess::kRead).ok());
  std::ofstream(path_ + "/paceline-store") << "{\"version\":2}";
  EXPECT_EQ(OpenFolderStore(path_, StoreAccess::kWrite).status().code(), StatusCode::kUnimplemented);
  std::ofstream(path_ + "/paceline-store") << "what";
  EXPECT_EQ(OpenFolderStore(path_, StoreAccess::kWrite).status().code(), StatusCode::kInvalidArgument);
  fs::create_directories(folder_ / "home/pictures");
  EXPECT_EQ(OpenFolderStore(folder_ / "home", StoreAccess::kWrite).status().code(), StatusCode::kInvalidArgument);
  // The first writer died before it was done.
  fs::create_directories(folder_ / "young/blobs");
  EXPECT_TRUE(OpenFolderStore(folder_ / "young", StoreAccess::kWrite).ok());
}

}  // namespace
}  // namespace paceline::blocks
