// What every FileSystem must do, in layout plain and striped: on a folder of this machine always, and on the HDFS that
// HDFS_URI names (a directory in which the suite may work, as in hdfs://127.0.0.1:8020/contract) when it is set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>

#include "lib/hdfs/file_system.h"
#include "lib/hdfs/open.h"
#include "lib/hdfs/posix_error.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::hdfs {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Bytes that differ from each other at every distance that a mix-up of blocks or chunks would have.
std::string Pattern(uint64_t seed, size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (size_t i = 0; i < size; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    bytes[i] = static_cast<char>(state);
  }
  return bytes;
}

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class FileSystemContract : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string uri;
    const std::string kind = GetParam();
    if (kind.starts_with("Local")) {
      uri = "file://" + local_.emplace().path();
    } else {
      const char* base = std::getenv("HDFS_URI");
      if (base == nullptr || *base == '\0') GTEST_SKIP() << "HDFS_URI is not set: needs a real HDFS (scripts/testbed)";
      uri = base;
    }
    Result<Location> location = ParseLocation(uri);
    ASSERT_TRUE(location.ok()) << location.status().ToString();
    Result<HadoopConfig> config = LoadHadoopConfig("");
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    FileSystemOptions options;
    options.config = *config;
    if (kind.ends_with("Striped")) {
      options.layout = WriteLayout::kStriped;
      options.stripe_files = 3;
      options.stripe_unit = ByteSize{64 << 10};
    }
    Result<std::unique_ptr<FileSystem>> fs = OpenFileSystem(*location, options, clock_);
    ASSERT_TRUE(fs.ok()) << fs.status().ToString();
    fs_ = *std::move(fs);
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = test->name();
    std::replace(name.begin(), name.end(), '/', '-');
    root_ = (location->path == "/" ? "" : location->path) + "/" + name;
    Status removed = fs_->Remove(root_, RemoveMode::kRecursive, In());
    ASSERT_TRUE(removed.ok() || removed.code() == StatusCode::kNotFound) << removed.ToString();
    Status made = fs_->Mkdirs(root_, 0755, MkdirsMode::kMakeParents, In());
    ASSERT_TRUE(made.ok()) << made.ToString();
  }

  void TearDown() override {
    if (fs_ != nullptr) fs_->Remove(root_, RemoveMode::kRecursive, In()).IgnoreError();
  }

  Deadline In(Duration time = seconds(60)) const { return Deadline::After(clock_, time); }
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  void WriteFile(const std::string& path, std::string_view bytes, const CreateOptions& options = {}) {
    Result<std::unique_ptr<Writer>> writer = fs_->Create(path, options, In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    Status status = (*writer)->Write(Bytes(bytes), In());
    ASSERT_TRUE(status.ok()) << status.ToString();
    status = (*writer)->Close(In());
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  std::string Contents(const std::string& path) {
    Result<std::string> bytes = ReadWholeFile(*fs_, path, 1 << 30, In());
    return bytes.ok() ? *bytes : "(" + bytes.status().ToString() + ")";
  }

  std::vector<std::string> Names(const std::string& path) {
    std::vector<std::string> names;
    Result<std::vector<FileStatus>> all = ListAll(*fs_, path, In());
    EXPECT_TRUE(all.ok()) << all.status().ToString();
    if (!all.ok()) return names;
    for (const FileStatus& entry : *all) names.push_back(entry.name);
    return names;
  }

  RealClock clock_;
  std::unique_ptr<FileSystem> fs_;
  std::string root_;
  std::optional<fakes::TemporaryFolder> local_;
};

TEST_P(FileSystemContract, ReadsBackWhatWasWritten) {
  for (const size_t size : {0, 1, 511, 512, 513, 65536, 1 << 20, (5 << 20) + 17}) {
    const std::string bytes = Pattern(size, size);
    WriteFile(At("f"), bytes);
    EXPECT_TRUE(Contents(At("f")) == bytes) << size;
    Result<FileStatus> status = fs_->Stat(At("f"), In());
    ASSERT_TRUE(status.ok()) << status.status().ToString();
    EXPECT_EQ(status->length_bytes, size);
    EXPECT_EQ(status->type, FileStatus::Type::kFile);
    EXPECT_EQ(status->name, "f");
  }
  // The last one is large enough to have hidden stripes beside it where the layout is that.
  std::vector<std::string> visible;
  for (const std::string& name : Names(root_)) {
    if (fs_->IsVisibleName(name)) visible.push_back(name);
  }
  EXPECT_THAT(visible, ElementsAre("f"));
}

TEST_P(FileSystemContract, ReadsBackManyOddWrites) {
  const std::string bytes = Pattern(7, (9 << 20) + 1234);
  Result<std::unique_ptr<Writer>> writer = fs_->Create(At("f"), {.block_size_bytes = 1 << 20}, In());
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  size_t at = 0;
  for (size_t step = 1; at < bytes.size(); step = step * 3 % 300007 + 1) {
    const std::string_view piece = std::string_view(bytes).substr(at, step);
    Status status = (*writer)->Write(Bytes(piece), In());
    ASSERT_TRUE(status.ok()) << status.ToString();
    at += piece.size();
    ASSERT_EQ((*writer)->position_bytes(), at);
  }
  Status closed = (*writer)->Close(In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  EXPECT_TRUE(Contents(At("f")) == bytes);
}

TEST_P(FileSystemContract, ReadsAtAnyOffsetFromManyThreads) {
  const std::string bytes = Pattern(3, (6 << 20) + 99);
  WriteFile(At("f"), bytes, {.block_size_bytes = 1 << 20});
  Result<std::unique_ptr<Reader>> reader = fs_->Open(At("f"), In());
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  std::vector<int> failures(4, 0);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        uint64_t state = t + 1;
        for (int i = 0; i < 50; ++i) {
          state = state * 6364136223846793005 + 1442695040888963407;
          const uint64_t offset = (state >> 20) % (bytes.size() + 10);
          std::string out((state >> 40) % 200000, '\0');
          Result<size_t> got = (*reader)->Read(offset, std::as_writable_bytes(std::span(out)), In());
          const std::string_view want =
              offset >= bytes.size() ? "" : std::string_view(bytes).substr(offset, out.size());
          if (!got.ok() || *got != want.size() || out.substr(0, *got) != want) ++failures[t];
        }
      });
    }
  }
  EXPECT_THAT(failures, ElementsAre(0, 0, 0, 0));
}

TEST_P(FileSystemContract, ShowsAFileOnlyWhenItIsClosed) {
  Result<std::unique_ptr<Writer>> writer = fs_->Create(At("f"), {}, In());
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  ASSERT_TRUE((*writer)->Write(Bytes("hello"), In()).ok());
  Status flushed = (*writer)->Sync(In());
  EXPECT_TRUE(flushed.ok()) << flushed.ToString();
  EXPECT_EQ(fs_->Stat(At("f"), In()).status().code(), StatusCode::kNotFound);
  for (const std::string& name : Names(root_)) EXPECT_FALSE(fs_->IsVisibleName(name)) << name;
  ASSERT_TRUE((*writer)->Write(Bytes(" world"), In()).ok());
  Status closed = (*writer)->Close(In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  EXPECT_EQ(Contents(At("f")), "hello world");
  EXPECT_TRUE(fs_->IsVisibleName("f"));
  EXPECT_THAT(Names(root_), ElementsAre("f"));
}

TEST_P(FileSystemContract, LeavesNothingOfAnAbandonedFile) {
  WriteFile(At("f"), "old");
  {
    Result<std::unique_ptr<Writer>> writer = fs_->Create(At("f"), {}, In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    ASSERT_TRUE((*writer)->Write(Bytes(Pattern(1, 3 << 20)), In()).ok());
    (*writer)->Abandon();
    (*writer)->Abandon();
    EXPECT_FALSE((*writer)->Write(Bytes("x"), In()).ok());
    Result<std::unique_ptr<Writer>> dropped = fs_->Create(At("g"), {}, In());
    ASSERT_TRUE(dropped.ok()) << dropped.status().ToString();
    ASSERT_TRUE((*dropped)->Write(Bytes("x"), In()).ok());
  }
  EXPECT_EQ(Contents(At("f")), "old");
  EXPECT_THAT(Names(root_), ElementsAre("f"));
}

TEST_P(FileSystemContract, ReplacesAFileOnlyWhenAsked) {
  WriteFile(At("f"), "old");
  Result<std::unique_ptr<Writer>> refused = fs_->Create(At("f"), {.mode = CreateMode::kFailIfExists}, In());
  EXPECT_EQ(ErrnoOf(refused.status()), EEXIST) << refused.status().ToString();
  WriteFile(At("f"), "new");
  EXPECT_EQ(Contents(At("f")), "new");
  EXPECT_EQ(ErrnoOf(fs_->Create(root_, {}, In()).status()), EISDIR);
  EXPECT_EQ(ErrnoOf(fs_->Create(At("no/such"), {}, In()).status()), ENOENT);
  EXPECT_EQ(ErrnoOf(fs_->Create(At("f/below"), {}, In()).status()), ENOTDIR);
}

TEST_P(FileSystemContract, AppendsToAFile) {
  const std::string bytes = Pattern(5, 700001);
  WriteFile(At("f"), bytes, {.block_size_bytes = 1 << 20});
  std::string want = bytes;
  for (const size_t size : {1, 1000, 400000}) {
    Result<std::unique_ptr<Writer>> writer = fs_->Append(At("f"), In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    EXPECT_EQ((*writer)->position_bytes(), want.size());
    const std::string more = Pattern(size, size);
    Status status = (*writer)->Write(Bytes(more), In());
    ASSERT_TRUE(status.ok()) << status.ToString();
    status = (*writer)->Close(In());
    ASSERT_TRUE(status.ok()) << status.ToString();
    want += more;
    ASSERT_TRUE(Contents(At("f")) == want) << size;
  }
  EXPECT_EQ(ErrnoOf(fs_->Append(At("none"), In()).status()), ENOENT);
}

TEST_P(FileSystemContract, AppendsToAFileThatWasFlushedWhileItWasWritten) {
  // On HDFS each flush ends a part, so the file has blocks of odd lengths.
  std::string want;
  Result<std::unique_ptr<Writer>> writer = fs_->Create(At("f"), {.block_size_bytes = 4 << 20}, In());
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  for (const size_t size : {700001, 5, 100000, 300007}) {
    const std::string more = Pattern(size, size);
    ASSERT_TRUE((*writer)->Write(Bytes(more), In()).ok());
    ASSERT_TRUE((*writer)->Flush(In()).ok());
    want += more;
  }
  Status closed = (*writer)->Close(In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  for (const size_t size : {1000, 1, 70000}) {
    writer = fs_->Append(At("f"), In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    const std::string more = Pattern(size, size);
    ASSERT_TRUE((*writer)->Write(Bytes(more), In()).ok());
    closed = (*writer)->Close(In());
    ASSERT_TRUE(closed.ok()) << closed.ToString();
    want += more;
    EXPECT_TRUE(Contents(At("f")) == want) << size;
  }
  closed = fs_->Truncate(At("f"), 700002, In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  EXPECT_TRUE(Contents(At("f")) == want.substr(0, 700002));
}

// Hadoop's client up to 3.4 cannot append to a file that has: docs/decisions/0014.
TEST_P(FileSystemContract, NoBlockBeforeTheLastEndsWithinAChunk) {
  std::string want = Pattern(1, (9 << 20) + 17);
  WriteFile(At("f"), want);
  for (const size_t size : {1000, 5 << 20, 3}) {
    Result<std::unique_ptr<Writer>> writer = fs_->Append(At("f"), In());
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    const std::string more = Pattern(size, size);
    ASSERT_TRUE((*writer)->Write(Bytes(more), In()).ok());
    const Status closed = (*writer)->Close(In());
    ASSERT_TRUE(closed.ok()) << closed.ToString();
    want += more;
  }
  EXPECT_TRUE(Contents(At("f")) == want);
  if (!std::string_view(GetParam()).ends_with("Hdfs")) return;
  const Result<std::vector<BlockLocation>> blocks = fs_->Locate(At("f"), {0, INT64_MAX}, In());
  ASSERT_TRUE(blocks.ok());
  ASSERT_GT(blocks->size(), 1u);
  for (size_t i = 0; i + 1 < blocks->size(); ++i) EXPECT_EQ((*blocks)[i].length_bytes % 512, 0u) << i;
}

TEST_P(FileSystemContract, ShowsAppendedBytesAfterFlush) {
  WriteFile(At("f"), "one");
  Result<std::unique_ptr<Writer>> writer = fs_->Append(At("f"), In());
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  std::string want = "one";
  for (int i = 0; i < 5; ++i) {
    const std::string more = Pattern(static_cast<uint64_t>(i), 700);
    ASSERT_TRUE((*writer)->Write(Bytes(more), In()).ok());
    Status flushed = i % 2 == 0 ? (*writer)->Flush(In()) : (*writer)->Sync(In());
    ASSERT_TRUE(flushed.ok()) << flushed.ToString();
    want += more;
    EXPECT_TRUE(Contents(At("f")) == want) << i;
  }
  Status closed = (*writer)->Close(In());
  ASSERT_TRUE(closed.ok()) << closed.ToString();
  EXPECT_TRUE(Contents(At("f")) == want);
}

TEST_P(FileSystemContract, TruncatesAFile) {
  const std::string bytes = Pattern(9, (2 << 20) + 5);
  WriteFile(At("f"), bytes, {.block_size_bytes = 1 << 20});
  for (const size_t size : {(2 << 20) + 5, (1 << 20) + 700, 1 << 20, 513, 0}) {
    Status status = fs_->Truncate(At("f"), size, In());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(Contents(At("f")) == bytes.substr(0, size)) << size;
  }
  EXPECT_EQ(ErrnoOf(fs_->Truncate(At("f"), 1, In())), EINVAL);
}

TEST_P(FileSystemContract, MakesDirectories) {
  EXPECT_TRUE(fs_->Mkdirs(At("a/b/c"), 0750, MkdirsMode::kMakeParents, In()).ok());
  EXPECT_TRUE(fs_->Mkdirs(At("a/b/c"), 0750, MkdirsMode::kMakeParents, In()).ok());
  Result<FileStatus> status = fs_->Stat(At("a/b/c"), In());
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->type, FileStatus::Type::kDirectory);
  EXPECT_EQ(status->mode, 0750u);
  EXPECT_EQ(ErrnoOf(fs_->Mkdirs(At("x/y"), 0750, MkdirsMode::kParentMustExist, In())), ENOENT);
  WriteFile(At("f"), "");
  EXPECT_EQ(ErrnoOf(fs_->Mkdirs(At("f"), 0750, MkdirsMode::kMakeParents, In())), EEXIST);
  EXPECT_EQ(ErrnoOf(fs_->Mkdirs(At("f/x"), 0750, MkdirsMode::kMakeParents, In())), ENOTDIR);
}

TEST_P(FileSystemContract, ListsInOrderAndInPages) {
  for (const char* name : {"b", "a", "c"}) WriteFile(At(name), name);
  ASSERT_TRUE(fs_->Mkdirs(At("d"), 0755, MkdirsMode::kMakeParents, In()).ok());
  EXPECT_THAT(Names(root_), ElementsAre("a", "b", "c", "d"));
  Result<ListPage> rest = fs_->List(root_, "b", In());
  ASSERT_TRUE(rest.ok()) << rest.status().ToString();
  ASSERT_EQ(rest->entries.size(), 2u);
  EXPECT_EQ(rest->entries[0].name, "c");
  EXPECT_EQ(rest->entries[0].length_bytes, 1u);
  EXPECT_FALSE(rest->has_more);
  EXPECT_THAT(Names(At("d")), IsEmpty());
  EXPECT_EQ(ErrnoOf(fs_->List(At("none"), "", In()).status()), ENOENT);
  EXPECT_EQ(Names(At("a")).size(), 1u);
}

TEST_P(FileSystemContract, ListsALargeDirectory) {
  std::vector<std::string> want;
  for (int i = 0; i < 1100; ++i) want.push_back("d" + std::to_string(10000 + i));
  for (const std::string& name : want) {
    ASSERT_TRUE(fs_->Mkdirs(At(name), 0755, MkdirsMode::kParentMustExist, In()).ok());
  }
  EXPECT_EQ(Names(root_), want);
  Result<ListPage> first = fs_->List(root_, "", In());
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->has_more);
}

TEST_P(FileSystemContract, Removes) {
  ASSERT_TRUE(fs_->Mkdirs(At("a/b"), 0755, MkdirsMode::kMakeParents, In()).ok());
  WriteFile(At("a/f"), "x");
  EXPECT_EQ(ErrnoOf(fs_->Remove(At("a"), RemoveMode::kFileOrEmptyDirectory, In())), ENOTEMPTY);
  EXPECT_TRUE(fs_->Remove(At("a/f"), RemoveMode::kFileOrEmptyDirectory, In()).ok());
  EXPECT_TRUE(fs_->Remove(At("a/b"), RemoveMode::kFileOrEmptyDirectory, In()).ok());
  EXPECT_EQ(ErrnoOf(fs_->Remove(At("a/b"), RemoveMode::kFileOrEmptyDirectory, In())), ENOENT);
  WriteFile(At("a/g"), "x");
  EXPECT_TRUE(fs_->Remove(At("a"), RemoveMode::kRecursive, In()).ok());
  EXPECT_EQ(ErrnoOf(fs_->Remove(At("a"), RemoveMode::kRecursive, In())), ENOENT);
}

TEST_P(FileSystemContract, Renames) {
  WriteFile(At("a"), "one");
  WriteFile(At("b"), "two");
  EXPECT_EQ(ErrnoOf(fs_->Rename(At("a"), At("b"), RenameMode::kFailIfExists, In())), EEXIST);
  EXPECT_TRUE(fs_->Rename(At("a"), At("c"), RenameMode::kFailIfExists, In()).ok());
  EXPECT_TRUE(fs_->Rename(At("c"), At("b"), RenameMode::kOverwrite, In()).ok());
  EXPECT_EQ(Contents(At("b")), "one");
  EXPECT_THAT(Names(root_), ElementsAre("b"));
  EXPECT_EQ(ErrnoOf(fs_->Rename(At("none"), At("x"), RenameMode::kOverwrite, In())), ENOENT);
  ASSERT_TRUE(fs_->Mkdirs(At("d/e"), 0755, MkdirsMode::kMakeParents, In()).ok());
  ASSERT_TRUE(fs_->Mkdirs(At("n"), 0755, MkdirsMode::kMakeParents, In()).ok());
  EXPECT_TRUE(fs_->Rename(At("n"), At("d/e"), RenameMode::kOverwrite, In()).ok());
  ASSERT_TRUE(fs_->Mkdirs(At("n"), 0755, MkdirsMode::kMakeParents, In()).ok());
  EXPECT_EQ(ErrnoOf(fs_->Rename(At("n"), At("d"), RenameMode::kOverwrite, In())), ENOTEMPTY);
}

TEST_P(FileSystemContract, ChangesAttributes) {
  WriteFile(At("f"), "x", {.permission = 0640});
  Result<FileStatus> status = fs_->Stat(At("f"), In());
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->mode, 0640u);
  EXPECT_FALSE(status->owner.empty());
  EXPECT_FALSE(status->group.empty());
  EXPECT_TRUE(fs_->SetMode(At("f"), 0604, In()).ok());
  const WallTime modified{std::chrono::milliseconds(1700000000123)};
  EXPECT_TRUE(fs_->SetTimes(At("f"), modified, std::nullopt, In()).ok());
  EXPECT_TRUE(fs_->SetOwner(At("f"), "", status->group, In()).ok());
  EXPECT_TRUE(fs_->SetReplication(At("f"), 1, In()).ok());
  Result<FileStatus> after = fs_->Stat(At("f"), In());
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->mode, 0604u);
  EXPECT_EQ(after->modified, modified);
  EXPECT_EQ(after->group, status->group);
  EXPECT_EQ(after->file_id, status->file_id);
  EXPECT_EQ(ErrnoOf(fs_->SetMode(At("none"), 0600, In())), ENOENT);
  EXPECT_EQ(ErrnoOf(fs_->SetTimes(At("none"), modified, modified, In())), ENOENT);
}

TEST_P(FileSystemContract, KeepsXattrs) {
  WriteFile(At("f"), "x");
  Status set = fs_->SetXattr(At("f"), "user.paceline.test", "one", XattrMode::kCreate, In());
  if (set.code() == StatusCode::kUnimplemented) GTEST_SKIP() << "no extended attributes here: " << set.ToString();
  EXPECT_TRUE(set.ok()) << set.ToString();
  EXPECT_TRUE(fs_->SetXattr(At("f"), "user.paceline.test", "two", XattrMode::kReplace, In()).ok());
  EXPECT_EQ(ErrnoOf(fs_->SetXattr(At("f"), "user.paceline.test", "x", XattrMode::kCreate, In())), EEXIST);
  EXPECT_EQ(ErrnoOf(fs_->SetXattr(At("f"), "user.paceline.none", "x", XattrMode::kReplace, In())), ENODATA);
  Result<Xattrs> attributes = fs_->GetXattrs(At("f"), In());
  ASSERT_TRUE(attributes.ok()) << attributes.status().ToString();
  EXPECT_THAT(*attributes, Contains(Pair("user.paceline.test", "two")));
  EXPECT_TRUE(fs_->RemoveXattr(At("f"), "user.paceline.test", In()).ok());
  EXPECT_EQ(ErrnoOf(fs_->RemoveXattr(At("f"), "user.paceline.test", In())), ENODATA);
}

TEST_P(FileSystemContract, SaysWhereBlocksLieAndHowFullItIs) {
  WriteFile(At("f"), Pattern(1, (2 << 20) + 1), {.block_size_bytes = 1 << 20});
  Result<std::vector<BlockLocation>> blocks = fs_->Locate(At("f"), {0, UINT64_MAX >> 1}, In());
  ASSERT_TRUE(blocks.ok()) << blocks.status().ToString();
  uint64_t at = 0;
  for (const BlockLocation& block : *blocks) {
    EXPECT_EQ(block.offset_bytes, at);
    EXPECT_FALSE(block.hosts.empty());
    EXPECT_FALSE(block.is_corrupt);
    at += block.length_bytes;
  }
  EXPECT_EQ(at, (2u << 20) + 1);
  Result<Capacity> capacity = fs_->StatCapacity(In());
  ASSERT_TRUE(capacity.ok());
  EXPECT_GT(capacity->total_bytes, capacity->free_bytes);
}

TEST_P(FileSystemContract, RefusesToOpenWhatIsNoFile) {
  EXPECT_EQ(ErrnoOf(fs_->Open(root_, In()).status()), EISDIR);
  EXPECT_EQ(ErrnoOf(fs_->Open(At("none"), In()).status()), ENOENT);
  EXPECT_EQ(ErrnoOf(fs_->Stat(At("none"), In()).status()), ENOENT);
}

TEST_P(FileSystemContract, RemovesPartsOfDeadWritersOnly) {
  Result<std::unique_ptr<Writer>> writer = fs_->Create(At("f"), {}, In());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(Bytes("x"), In()).ok());
  ASSERT_TRUE((*writer)->Flush(In()).ok());
  WriteFile(At(".g.0000000112345678abcdef00.pl-p000001"), "dead");
  WriteFile(At(".g.keep"), "not ours");
  const WallTime old = clock_.WallNow() - std::chrono::hours(2);
  ASSERT_TRUE(fs_->SetTimes(At(".g.0000000112345678abcdef00.pl-p000001"), old, std::nullopt, In()).ok());
  ASSERT_TRUE(fs_->SetTimes(At(".g.keep"), old, std::nullopt, In()).ok());
  Result<size_t> removed = fs_->RemoveStaleParts(root_, std::chrono::hours(1), In());
  ASSERT_TRUE(removed.ok()) << removed.status().ToString();
  EXPECT_EQ(*removed, 1u);
  Status closed = (*writer)->Close(In());
  EXPECT_TRUE(closed.ok()) << closed.ToString();
  EXPECT_THAT(Names(root_), ElementsAre(".g.keep", "f"));
}

INSTANTIATE_TEST_SUITE_P(, FileSystemContract, testing::Values("Local", "LocalStriped", "Hdfs", "HdfsStriped"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace paceline::hdfs
