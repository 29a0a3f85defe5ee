#include <gtest/gtest.h>
#include <sys/stat.h>
#include <cstdlib>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/fs_tables.h"
#include "cli/fs_transfer.h"
#include "lib/hdfs/local_file_system.h"

namespace paceline::cli {
namespace {

TEST(FsTables, Modes) {
  const struct {
    hdfs::FileStatus::Type type;
    hdfs::FileMode mode;
    const char* text;
  } cases[] = {
      {hdfs::FileStatus::Type::kFile, 0644, "-rw-r--r--"},
      {hdfs::FileStatus::Type::kDirectory, 0750, "drwxr-x---"},
      {hdfs::FileStatus::Type::kSymlink, 0777, "lrwxrwxrwx"},
      {hdfs::FileStatus::Type::kDirectory, 01777, "drwxrwxrwt"},
      {hdfs::FileStatus::Type::kDirectory, 01770, "drwxrwx--T"},
      {hdfs::FileStatus::Type::kFile, 0, "----------"},
  };
  for (const auto& c : cases) EXPECT_EQ(ModeText({.type = c.type, .mode = c.mode}), c.text);
}

TEST(FsTables, Sizes) {
  const struct {
    uint64_t bytes;
    const char* text;
  } cases[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1.0 KiB"},
               {1536, "1.5 KiB"},
               {1048575, "1.0 MiB"},
               {uint64_t{5} << 30, "5.0 GiB"},
               {UINT64_MAX, "16.0 EiB"}};
  for (const auto& c : cases) EXPECT_EQ(SizeText(c.bytes), c.text);
}

TEST(FsTables, ValuesForPrograms) {
  hdfs::FileStatus status{.name = "f", .length_bytes = 7, .mode = 0640, .owner = "a", .group = "b", .replication = 3};
  const nlohmann::json file = FileValue({"hdfs://nn:8020/f", status});
  EXPECT_EQ(file["lengthBytes"], 7);
  EXPECT_EQ(file["mode"], "0640");
  EXPECT_EQ(file["type"], "file");
  status.type = hdfs::FileStatus::Type::kDirectory;
  EXPECT_FALSE(FileValue({"/d", status}).contains("lengthBytes"));
  const nlohmann::json block =
      BlockValue({.offset_bytes = 1, .length_bytes = 2, .hosts = {"a:1", "b:2"}, .is_corrupt = true});
  EXPECT_EQ(block["hosts"].size(), 2u);
  EXPECT_EQ(block["isCorrupt"], true);
  EXPECT_EQ(FileTable({{"/f", status}}).rows.at(0).back(), "/f");
}

class TransferTest : public testing::Test {
 public:
  ~TransferTest() override { std::filesystem::remove_all(folder_); }

 protected:
  TransferTest() {
    char name[] = "/tmp/transfer-XXXXXX";
    folder_ = mkdtemp(name);
    for (const char* sub : {"/here", "/there"}) std::filesystem::create_directory(folder_ + sub);
  }

  void WriteHere(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/here/" + name, std::ios::binary) << content;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  Result<TransferResult> Put(const std::string& from, const std::string& to) {
    return Upload(*fs_, folder_ + "/" + from, folder_ + "/" + to, options_, clock_, nullptr);
  }
  Result<TransferResult> Get(const std::string& from, const std::string& to, const ProgressSink& progress = nullptr) {
    return Download(*fs_, folder_ + "/" + from, folder_ + "/" + to, options_, clock_, progress);
  }

  RealClock clock_;
  std::unique_ptr<hdfs::FileSystem> fs_ = hdfs::MakeLocalFileSystem(clock_);
  TransferOptions options_;
  std::string folder_;
};

TEST_F(TransferTest, FilesOfAnySizeGoThereAndBack) {
  for (const size_t size : {0, 1, 4 << 20, (9 << 20) + 5}) {
    std::string content(size, 'x');
    for (size_t i = 0; i < size; i += 997) content[i] = static_cast<char>(i);
    WriteHere("f", content);
    options_.overwrites = true;
    Result<TransferResult> put = Put("here/f", "there/g");
    ASSERT_TRUE(put.ok()) << put.status().ToString();
    EXPECT_EQ(put->bytes, size);
    uint64_t last = 0, total = 0;
    Result<TransferResult> get = Get("there/g", "here/back", [&](uint64_t done, uint64_t all) {
      EXPECT_GE(done, last);
      last = done;
      total = all;
    });
    ASSERT_TRUE(get.ok()) << get.status().ToString();
    EXPECT_EQ(get->files, 1u);
    EXPECT_EQ(last, size);
    EXPECT_EQ(total, size);
    EXPECT_TRUE(Read("here/back") == content) << size;
  }
}

TEST_F(TransferTest, TreesGoIntoADirectoryThatIsThere) {
  std::filesystem::create_directories(folder_ + "/here/tree/sub/empty");
  WriteHere("tree/a", "1");
  WriteHere("tree/sub/b", "22");
  Result<TransferResult> put = Put("here/tree", "there");
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  EXPECT_EQ(put->files, 2u);
  EXPECT_EQ(Read("there/tree/sub/b"), "22");
  ASSERT_TRUE(Put("here/tree", "there/renamed").ok());
  EXPECT_EQ(Read("there/renamed/a"), "1");
  ASSERT_TRUE(Get("there/tree", "here/copy").ok());
  EXPECT_EQ(Read("here/copy/sub/b"), "22");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/here/copy/sub/empty"));
}

TEST_F(TransferTest, KeepsWhatIsThereUnlessForced) {
  WriteHere("f", "new");
  std::ofstream(folder_ + "/there/f") << "old";
  EXPECT_EQ(Put("here/f", "there/f").status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Get("there/f", "here/f").status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Read("there/f"), "old");
  options_.overwrites = true;
  EXPECT_TRUE(Put("here/f", "there/f").ok());
  EXPECT_EQ(Read("there/f"), "new");
}

TEST_F(TransferTest, SaysWhatIsMissingAndLeavesNothing) {
  EXPECT_EQ(Get("there/none", "here/x").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Put("here/none", "there/x").status().code(), StatusCode::kNotFound);
  WriteHere("f", "x");
  EXPECT_FALSE(Put("here/f", "there/no/such/folder").ok());
  EXPECT_FALSE(Get("here/f", "no/such/folder").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/there"));
}

}  // namespace
}  // namespace paceline::cli
