// What is particular to striped files, on a folder of this machine always and on the HDFS of HDFS_URI where it is set:
// how they look to others, and that their folders come and go with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "lib/hdfs/open.h"
#include "lib/hdfs/posix_error.h"
#include "lib/hdfs/stripe_manifest.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/hdfs/sample_bytes.h"

namespace paceline::hdfs {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kSmallUnit = 64 << 10;

class Striped : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string uri = "file://" + folder_.path();
    if (std::string(GetParam()) == "Hdfs") {
      const char* base = std::getenv("HDFS_URI");
      if (base == nullptr || *base == '\0') GTEST_SKIP() << "HDFS_URI is not set: needs a real HDFS (scripts/testbed)";
      uri = base;
    }
    const Result<Location> location = ParseLocation(uri);
    ASSERT_TRUE(location.ok());
    ours_ = Make(*location, WriteLayout::kStriped);
    others_ = Make(*location, WriteLayout::kPlain);
    root_ = (location->path == "/" ? "" : location->path) + "/striped-" + folder_.name();
    ASSERT_TRUE(ours_->Mkdirs(root_, 0755, MkdirsMode::kMakeParents, In()).ok());
  }
  void TearDown() override {
    if (ours_ != nullptr) ours_->Remove(root_, RemoveMode::kRecursive, In()).IgnoreError();
  }

  std::unique_ptr<FileSystem> Make(const Location& location, WriteLayout layout) {
    FileSystemOptions options;
    options.config = *LoadHadoopConfig("");
    options.layout = layout;
    options.stripe_files = 4;
    options.stripe_unit = ByteSize{kSmallUnit};
    Result<std::unique_ptr<FileSystem>> fs = OpenFileSystem(location, options, clock_);
    EXPECT_TRUE(fs.ok()) << fs.status().ToString();
    return fs.ok() ? *std::move(fs) : nullptr;
  }
  Deadline In() const { return Deadline::After(clock_, std::chrono::seconds(60)); }
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  void WriteWith(FileSystem& fs, const std::string& path, const std::string& bytes) {
    Result<std::unique_ptr<Writer>> writer = fs.Create(path, {.permission = 0640}, In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    Status status = (*writer)->Write(std::as_bytes(std::span(bytes)), In());
    if (status.ok()) status = (*writer)->Close(In());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::string Contents(FileSystem& fs, const std::string& path) {
    Result<std::string> bytes = ReadWholeFile(fs, path, 1 << 30, In());
    return bytes.ok() ? *bytes : "(" + bytes.status().ToString() + ")";
  }
  // Hidden folders of stripes below the test's directory.
  std::vector<std::string> Folders() {
    std::vector<std::string> folders;
    Result<std::vector<FileStatus>> all = ListAll(*ours_, root_, In());
    EXPECT_TRUE(all.ok());
    for (const FileStatus& entry : *all) {
      if (entry.type == FileStatus::Type::kDirectory && !ours_->IsVisibleName(entry.name))
        folders.push_back(entry.name);
    }
    return folders;
  }

  const fakes::TemporaryFolder folder_;
  RealClock clock_;
  std::unique_ptr<FileSystem> ours_, others_;
  std::string root_;
  const std::string large_ = SampleBytes(11 * kSmallUnit + 123);
};

TEST_P(Striped, IsOneFileForEveryClientOfOurs) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  ASSERT_EQ(Folders().size(), 1u);
  for (FileSystem* fs : {ours_.get(), others_.get()}) {
    EXPECT_TRUE(Contents(*fs, At("f")) == large_);
    const Result<FileStatus> status = fs->Stat(At("f"), In());
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->length_bytes, large_.size());
    EXPECT_EQ(status->mode, 0640u);
    const Result<ListPage> page = fs->List(root_, "", In());
    ASSERT_TRUE(page.ok());
    for (const FileStatus& entry : page->entries) {
      if (entry.name == "f") {
        EXPECT_EQ(entry.length_bytes, large_.size());
      }
    }
  }
  const Result<std::vector<BlockLocation>> where = ours_->Locate(At("f"), {0, INT64_MAX}, In());
  ASSERT_TRUE(where.ok()) << where.status().ToString();
  uint64_t at = 0;
  for (const BlockLocation& piece : *where) {
    EXPECT_EQ(piece.offset_bytes, at);
    EXPECT_FALSE(piece.hosts.empty());
    at += piece.length_bytes;
  }
  EXPECT_EQ(at, large_.size());
}

TEST_P(Striped, LeavesSmallFilesOrdinary) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_.substr(0, 4 * kSmallUnit)));
  EXPECT_THAT(Folders(), IsEmpty());
  EXPECT_TRUE(Contents(*others_, At("f")) == large_.substr(0, 4 * kSmallUnit));
}

TEST_P(Striped, KeepsAnOrdinaryFileOfTheManifestsLength) {
  const std::string bytes = SampleBytes(kManifestBytes);
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), bytes));
  EXPECT_TRUE(Contents(*ours_, At("f")) == bytes);
}

TEST_P(Striped, TakesItsFolderAlong) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  ASSERT_TRUE(ours_->Rename(At("f"), At("g"), RenameMode::kFailIfExists, In()).ok());
  EXPECT_TRUE(Contents(*ours_, At("g")) == large_);
  ASSERT_TRUE(ours_->Mkdirs(At("d"), 0755, MkdirsMode::kMakeParents, In()).ok());
  EXPECT_EQ(ErrnoOf(ours_->Rename(At("g"), At("d/g"), RenameMode::kOverwrite, In())), EXDEV);
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("d/f"), large_));
  ASSERT_TRUE(ours_->Rename(At("d"), At("e"), RenameMode::kFailIfExists, In()).ok());
  EXPECT_TRUE(Contents(*ours_, At("e/f")) == large_);
  // Replaced by a file of another layout, by a rename, and removed.
  ASSERT_NO_FATAL_FAILURE(WriteWith(*others_, At("g"), "plain"));
  EXPECT_THAT(Folders(), IsEmpty());
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  ASSERT_TRUE(ours_->Rename(At("g"), At("f"), RenameMode::kOverwrite, In()).ok());
  EXPECT_THAT(Folders(), IsEmpty());
  EXPECT_EQ(Contents(*ours_, At("f")), "plain");
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_ + large_));
  EXPECT_EQ(Folders().size(), 1u);
  EXPECT_TRUE(ours_->Remove(At("f"), RemoveMode::kFileOrEmptyDirectory, In()).ok());
  EXPECT_THAT(Folders(), IsEmpty());
  EXPECT_EQ(ErrnoOf(ours_->Stat(At("f"), In()).status()), ENOENT);
}

TEST_P(Striped, AppendsAndIsCut) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  std::string want = large_;
  for (const size_t size : {size_t{5}, size_t{kSmallUnit} * 6}) {
    Result<std::unique_ptr<Writer>> writer = others_->Append(At("f"), In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    EXPECT_EQ((*writer)->position_bytes(), want.size());
    const std::string more = SampleBytes(size);
    ASSERT_TRUE((*writer)->Write(std::as_bytes(std::span(more)), In()).ok());
    const Status closed = (*writer)->Close(In());
    ASSERT_TRUE(closed.ok()) << closed.ToString();
    want += more;
    EXPECT_TRUE(Contents(*ours_, At("f")) == want) << size;
  }
  EXPECT_EQ(Folders().size(), 3u);
  EXPECT_EQ(ours_->Stat(At("f"), In())->mode, 0640u);
  for (const size_t size : {want.size() - 1, large_.size() + 3, large_.size() - 70'000, size_t{0}}) {
    const Status status = ours_->Truncate(At("f"), size, In());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(Contents(*ours_, At("f")) == want.substr(0, size)) << size;
  }
  EXPECT_THAT(Folders(), IsEmpty());
}

TEST_P(Striped, KeepsModesTogether) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  ASSERT_TRUE(ours_->SetMode(At("f"), 0604, In()).ok());
  EXPECT_EQ(ours_->Stat(At("f"), In())->mode, 0604u);
  EXPECT_EQ(ours_->Stat(At(Folders().at(0)), In())->mode, 0705u);
}

TEST_P(Striped, LeavesNothingOfAnAbandonedFile) {
  Result<std::unique_ptr<Writer>> writer = ours_->Create(At("f"), {}, In());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(std::as_bytes(std::span(large_)), In()).ok());
  const Status synced = (*writer)->Sync(In());
  EXPECT_TRUE(synced.ok()) << synced.ToString();
  EXPECT_EQ(Folders().size(), 1u);
  EXPECT_EQ(ErrnoOf(ours_->Stat(At("f"), In()).status()), ENOENT);
  (*writer)->Abandon();
  EXPECT_THAT(Folders(), IsEmpty());
}

TEST_P(Striped, RemovesFoldersOfDeadWritersOnly) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  const std::string used = Folders().at(0);
  const std::string dead = ".g.0000000112345678abcdef00.pl-s";
  ASSERT_TRUE(ours_->Mkdirs(At(dead), 0755, MkdirsMode::kMakeParents, In()).ok());
  ASSERT_NO_FATAL_FAILURE(WriteWith(*others_, At(dead + "/s0000"), "x"));
  Result<std::unique_ptr<Writer>> writer = ours_->Create(At("h"), {}, In());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(std::as_bytes(std::span(large_)), In()).ok());
  Result<size_t> removed = others_->RemoveStaleParts(root_, hours(0), In());
  ASSERT_TRUE(removed.ok()) << removed.status().ToString();
  EXPECT_EQ(*removed, 0u) << "there is a writer, and nobody can tell which folder is its";
  const Status closed = (*writer)->Close(In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  removed = others_->RemoveStaleParts(root_, hours(0), In());
  ASSERT_TRUE(removed.ok()) << removed.status().ToString();
  EXPECT_EQ(*removed, 1u);
  EXPECT_EQ(Folders().size(), 2u);
  EXPECT_THAT(Folders(), testing::Contains(used));
  EXPECT_THAT(Folders(), testing::Not(testing::Contains(dead)));
  for (const char* name : {"f", "h"}) EXPECT_TRUE(Contents(*ours_, At(name)) == large_) << name;
}

TEST_P(Striped, SaysWhichStripeIsMissing) {
  ASSERT_NO_FATAL_FAILURE(WriteWith(*ours_, At("f"), large_));
  const std::string stripe = At(Folders().at(0) + "/s0002");
  ASSERT_TRUE(ours_->Remove(stripe, RemoveMode::kFileOrEmptyDirectory, In()).ok());
  const Status status = ours_->Open(At("f"), In()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), testing::HasSubstr("s0002"));
}

INSTANTIATE_TEST_SUITE_P(, Striped, testing::Values("Local", "Hdfs"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace paceline::hdfs
