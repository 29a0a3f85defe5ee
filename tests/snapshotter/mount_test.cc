// paceline-snapshotter as a program: real EROFS and overlay mounts in a mount namespace of the test's own, compared
// with the same layers mounted from plain files.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lib/base/json.h"
#include "tests/blocks_image/converted.h"
#include "tests/blocks_image/erofs_mount.h"
#include "tests/blocks_image/tree_facts.h"

namespace paceline::blocks {
namespace {

using testing::HasSubstr;

constexpr char kLowerTree[] = R"sh(
  mkdir -p tree/usr/bin tree/etc/conf tree/gone tree/kept; cd tree
  head -c 3000000 /dev/urandom > usr/bin/tool; chmod 4755 usr/bin/tool
  head -c 2000000 /dev/urandom > usr/lib.so
  for i in $(seq 1 200); do echo "file $i" > etc/conf/$i; done
  ln usr/bin/tool usr/bin/other; ln -s ../etc usr/link; mkfifo pipe; mknod null c 1 3
  echo old > gone/a; echo old > kept/b; python3 -c 'import os; os.setxattr("etc/conf/7", "user.note", b"hello")'; truncate -s 5M sparse
)sh";
constexpr char kUpperTree[] = R"sh(
  mkdir -p tree/etc/conf tree/kept tree/app; cd tree
  touch .wh.gone etc/conf/.wh.3 kept/.wh..wh..opq; echo new > kept/c; echo changed > etc/conf/5
  head -c 1000000 /dev/urandom > app/model
)sh";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A program that was started; what it prints goes to `out`.
struct Started {
  pid_t pid = -1;
  UniqueFd out;
};

class ImageMountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoErofs().empty()) GTEST_SKIP() << WhyNoErofs();
    for (const char* tree : {kLowerTree, kUpperTree}) layers_.push_back(MakeLayer(tree));
    BlockImageManifest image;
    image.subject = {kManifestMediaType, Sha256Of("original"), 7, {}};
    image.platform = "linux/amd64";
    image.layers = layers_;
    const Result<Descriptor> stored =
        bench_.store().PutManifest("image", kManifestMediaType, EncodeImageManifest(image), Deadline::Infinite());
    ASSERT_TRUE(stored.ok()) << stored.status().ToString();
    digest_ = stored->digest.ToString();
    mkdir(Directory().c_str(), 0755);
  }

  void TearDown() override {
    if (WhyNoErofs().empty()) Run({"unmount", Directory(), "--force"});
    for (const pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  std::string Path(const std::string& name) const { return bench_.folder() / name; }
  std::string Directory() const { return Path("mnt"); }

  BlockLayer MakeLayer(const std::string& script) {
    const std::string path = Path("make.sh");
    std::ofstream(path) << "set -euo pipefail\ncd " << bench_.folder().path() << "\nrm -rf tree\n(" << script
                        << ")\ntar --xattrs -C tree -cf layer.tar .\n";
    EXPECT_EQ(std::system(("bash " + path).c_str()), 0);
    const Result<ConvertedLayer> converted = bench_.Convert(ReadFile(Path("layer.tar")));
    EXPECT_TRUE(converted.ok()) << converted.status().ToString();
    return converted->layer;
  }

  std::vector<std::string> ServeArguments(std::vector<std::string> more) {
    std::vector<std::string> all = {
        "serve",          "--store",     bench_.store().Describe(), "--image", digest_, "--directory", Directory(),
        "--cache-folder", Path("cache"), "--cache-quota",           "1GiB"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Started Start(std::vector<std::string> arguments) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      arguments.insert(arguments.begin(), PACELINE_SNAPSHOTTER);
      arguments.insert(arguments.end(), {"--state-folder", Path("state")});
      std::vector<char*> words;
      for (std::string& argument : arguments) words.push_back(argument.data());
      words.push_back(nullptr);
      execv(words[0], words.data());
      _exit(127);
    }
    close(ends[1]);
    return {pid, UniqueFd(ends[0])};
  }

  // Runs to the end: exit code and output.
  std::pair<int, std::string> Run(std::vector<std::string> arguments) {
    const Started program = Start(std::move(arguments));
    std::string output;
    char buffer[4096];
    for (ssize_t got; (got = read(program.out.get(), buffer, sizeof buffer)) > 0;)
      output.append(buffer, static_cast<size_t>(got));
    int status = 0;
    waitpid(program.pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
  }

  // A server in the foreground, once it has mounted; its process.
  pid_t Serve(std::vector<std::string> more = {}) {
    Started server = Start(ServeArguments(std::move(more)));
    std::string output;
    char letter;
    const auto is_told = [&] { return output.ends_with('\n') && output.find("mounted on") != std::string::npos; };
    while (!is_told() && read(server.out.get(), &letter, 1) == 1) output += letter;
    EXPECT_TRUE(is_told()) << output;
    first_line_ = output;
    children_.push_back(server.pid);
    outputs_.push_back(std::move(server.out));
    return server.pid;
  }

  Json Ask(const std::string& what) {
    const auto [code, output] = Run({"ask", Directory(), what});
    EXPECT_EQ(code, 0) << output;
    return ParseJson(output).value_or(Json::object());
  }

  bool IsMounted() const { return std::filesystem::exists(Directory() + "/etc"); }

  LayerBench bench_;
  std::vector<BlockLayer> layers_;
  std::string digest_;
  std::string first_line_;
  std::vector<pid_t> children_;
  std::vector<UniqueFd> outputs_;
};

TEST_F(ImageMountTest, TheTreeIsTheImages) {
  const auto [code, output] = Run(ServeArguments({"--daemon"}));
  ASSERT_EQ(code, 0) << output;
  EXPECT_THAT(output, HasSubstr("2 layers"));
  std::vector<TestMount> reference;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Result<std::string> image = bench_.Image(layers_[i]);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    Result<TestMount> mount = TestMount::Erofs(*image, Path(fmt::format("plain{}", i)));
    ASSERT_TRUE(mount.ok()) << mount.status().ToString();
    reference.push_back(*std::move(mount));
  }
  Result<TestMount> whole = TestMount::Overlay({Path("plain1"), Path("plain0")}, Path("plain"));
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_EQ(TreeFacts(Directory()), TreeFacts(Path("plain")));
  EXPECT_FALSE(std::filesystem::exists(Directory() + "/gone"));
  EXPECT_FALSE(std::filesystem::exists(Directory() + "/kept/b"));
  EXPECT_EQ(ReadFile(Directory() + "/etc/conf/5"), "changed\n");
  EXPECT_EQ(Run({"unmount", Directory()}).first, 0);
  EXPECT_FALSE(IsMounted());
}

TEST_F(ImageMountTest, OnlyWhatIsReadIsFetched) {
  Serve();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Directory())) entry.symlink_status();
  EXPECT_EQ(Ask("stats")["originBytes"], 0);  // names and attributes came with the index
  EXPECT_EQ(ReadFile(Directory() + "/etc/conf/7"), "file 7\n");
  const Json one = Ask("stats");
  EXPECT_GT(one["originBytes"], 0);
  EXPECT_LE(one["originBytes"], 5 * 65536);  // a small file, and what the kernel reads ahead
  EXPECT_EQ(ReadFile(Directory() + "/app/model").size(), 1000000u);
  const uint64_t fetched = Ask("stats")["originBytes"];
  EXPECT_GE(fetched, 1000000u);
  EXPECT_LE(fetched, 1600000u);  // of 6 MB
}

TEST_F(ImageMountTest, TheLoopDeviceServesAsWell) {
  Serve({"--backing", "loop"});
  EXPECT_THAT(first_line_, HasSubstr("by loop"));
  EXPECT_EQ(ReadFile(Directory() + "/kept/c"), "new\n");
  EXPECT_EQ(ReadFile(Directory() + "/usr/bin/tool"), ReadFile(Directory() + "/usr/bin/other"));
  EXPECT_EQ(Run({"unmount", Directory()}).first, 0);
}

TEST_F(ImageMountTest, AKilledServerGivesErrorsAndCanBeTakenDown) {
  const pid_t server = Serve();
  EXPECT_EQ(ReadFile(Directory() + "/kept/c"), "new\n");
  Ask("settle");  // readers do not wait for the disk
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  children_.clear();
  // What was not read yet fails at once, with an error.
  const int fd = open((Directory() + "/app/model").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    char byte;
    EXPECT_EQ(pread(fd, &byte, 1, 500000), -1);
    EXPECT_EQ(errno, EIO);
    close(fd);
  }
  const auto [code, output] = Run({"unmount", Directory()});
  EXPECT_EQ(code, 0) << output;
  EXPECT_FALSE(IsMounted());
  EXPECT_TRUE(std::filesystem::is_empty(Path("state")));
  // And the next one starts over on what is in the cache.
  Serve();
  EXPECT_EQ(ReadFile(Directory() + "/kept/c"), "new\n");
  EXPECT_EQ(Ask("stats")["originBytes"], 0);
}

TEST_F(ImageMountTest, ASuccessorRemovesWhatAKilledServerLeft) {
  const pid_t server = Serve({"--writable"});
  std::ofstream(Directory() + "/written") << "x";
  // While one serves, another is refused.
  EXPECT_THAT(Run(ServeArguments({"--cache-folder", Path("other-cache")})).second, HasSubstr("an image is mounted on"));
  EXPECT_EQ(ReadFile(Directory() + "/written"), "x");
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  children_.clear();
  Serve({"--writable", "--log-level", "error"});
  EXPECT_EQ(ReadFile(Directory() + "/kept/c"), "new\n");
  EXPECT_FALSE(std::filesystem::exists(Directory() + "/written"));
  EXPECT_EQ(Run({"unmount", Directory()}).first, 0);
  EXPECT_FALSE(IsMounted());
}

TEST_F(ImageMountTest, WithAKeeperReadersWaitForTheSuccessorOfAKilledServer) {
  const std::vector<std::string> kept = {"--keeper", "--writable"};
  pid_t server = Serve(kept);
  const std::string elsewhere = Path("bound");  // as a container has it
  mkdir(elsewhere.c_str(), 0755);
  ASSERT_EQ(mount(Directory().c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr), 0);
  std::ofstream(elsewhere + "/written") << "x";
  const UniqueFd held(open((elsewhere + "/app/model").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(held.is_valid());
  std::string whole = ReadFile(Path("tree/app/model"));
  ASSERT_EQ(whole.size(), 1000000U);
  for (int death = 0; death < 2; ++death) {
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
    children_.pop_back();
    // As the holder does it before it starts another one.
    ASSERT_EQ(umount2(Directory().c_str(), MNT_DETACH), 0);
    std::string got(100000, '\0');
    const off_t at = death == 0 ? 500000 : 900000;
    std::jthread reader([&] { EXPECT_EQ(pread(held.get(), got.data(), got.size(), at), 100000) << strerror(errno); });
    server = Serve(kept);
    reader.join();
    EXPECT_EQ(got, whole.substr(static_cast<size_t>(at), got.size()));
    EXPECT_EQ(ReadFile(elsewhere + "/usr/lib.so").size(), 2000000U);
    EXPECT_EQ(ReadFile(elsewhere + "/written"), "x") << "whoever had it goes on with it";
    EXPECT_EQ(ReadFile(Directory() + "/app/model"), whole);
    EXPECT_FALSE(std::filesystem::exists(Directory() + "/written")) << "whoever comes now begins anew";
  }
  ASSERT_EQ(umount2(elsewhere.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(Run({"unmount", Directory(), "--force"}).first, 0);
  EXPECT_FALSE(IsMounted());
  waitpid(children_.back(), nullptr, 0);
  children_.clear();
  // The keeper has nothing left to keep.
  while (!std::filesystem::is_empty(Path("state"))) std::this_thread::yield();
}

TEST_F(ImageMountTest, AMountInUseStaysUnlessForced) {
  Serve();
  const UniqueFd held(open((Directory() + "/usr/bin/tool").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(held.is_valid());
  const auto [code, output] = Run({"unmount", Directory()});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(output, HasSubstr("in use"));
  EXPECT_EQ(ReadFile(Directory() + "/kept/c"), "new\n");
  EXPECT_EQ(Run({"unmount", Directory(), "--force"}).first, 0);
  EXPECT_FALSE(IsMounted());
}

TEST_F(ImageMountTest, WritesAreTakenAndDropped) {
  Serve({"--writable"});
  std::ofstream(Directory() + "/etc/conf/5") << "mine";
  std::filesystem::remove(Directory() + "/usr/lib.so");
  EXPECT_EQ(ReadFile(Directory() + "/etc/conf/5"), "mine");
  EXPECT_EQ(Run({"unmount", Directory()}).first, 0);
  waitpid(children_.back(), nullptr, 0);
  children_.clear();
  Serve();
  EXPECT_EQ(ReadFile(Directory() + "/etc/conf/5"), "changed\n");
  EXPECT_TRUE(std::filesystem::exists(Directory() + "/usr/lib.so"));
  for (const auto& entry : std::filesystem::directory_iterator(Path("cache"))) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("written-"));
  }
}

TEST_F(ImageMountTest, ARecordedHotSetIsThereBeforeItIsRead) {
  const auto read_some = [&] {
    EXPECT_EQ(ReadFile(Directory() + "/app/model").size(), 1000000u);
    EXPECT_EQ(ReadFile(Directory() + "/etc/conf/9"), "file 9\n");
  };
  Serve();
  read_some();
  const auto [code, hot_set] = Run({"ask", Directory(), "hotset"});
  ASSERT_EQ(code, 0);
  std::ofstream(Path("hot.json")) << hot_set;
  EXPECT_EQ(Run({"unmount", Directory()}).first, 0);
  waitpid(children_.back(), nullptr, 0);
  children_.clear();
  std::filesystem::remove_all(Path("cache"));
  Serve({"--fetch-hot-set", Path("hot.json")});
  const uint64_t fetched = Ask("settle")["prefetchedBytes"];
  EXPECT_GE(fetched, 1000000u);
  read_some();
  const Json after = Ask("stats");
  EXPECT_EQ(after["chunkMisses"], 0);
  EXPECT_EQ(after["originBytes"], fetched);
}

TEST_F(ImageMountTest, WalkingTheTreeAsksNobody) {
  Serve();
  const Json before = Ask("stats");
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Directory())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_GT(files, 200u);
  EXPECT_EQ(Ask("stats")["reads"], before["reads"]);  // the kernel has all names and attributes
}

TEST_F(ImageMountTest, AMountFetchesFirstWhatTheOneBeforeHasRecorded) {
  const auto mount_again = [&](std::vector<std::string> more) {
    EXPECT_EQ(Run({"unmount", Directory()}).first, 0);
    waitpid(children_.back(), nullptr, 0);
    children_.clear();
    std::filesystem::remove_all(Path("cache"));
    Serve(std::move(more));
  };
  Serve({"--hot-set-use", "record"});
  EXPECT_EQ(ReadFile(Directory() + "/app/model").size(), 1000000u);
  const Json first = Ask("settle");
  EXPECT_EQ(first["hotSet"]["state"], "Recording");
  mount_again({});
  const Json second = Ask("settle");
  EXPECT_EQ(second["hotSet"]["state"], "Fetched");
  EXPECT_GE(second["prefetchedBytes"], 1000000u);
  EXPECT_EQ(ReadFile(Directory() + "/app/model").size(), 1000000u);
  EXPECT_EQ(Ask("stats")["chunkMisses"], 0);
  mount_again({"--hot-set-use", "none"});
  EXPECT_EQ(Ask("settle")["originBytes"], 0);
}

TEST_F(ImageMountTest, WhatCannotBeMountedSaysWhy) {
  std::vector<std::string> arguments = ServeArguments({});
  arguments[4] = Sha256Of("another image").ToString();
  const auto [code, output] = Run(arguments);
  EXPECT_EQ(code, 1);
  EXPECT_FALSE(IsMounted());
  EXPECT_EQ(Run({"unmount", Directory()}).first, 1);
  EXPECT_EQ(Run({"serve"}).first, 2);
  EXPECT_EQ(Run({"ask", Directory(), "stats"}).first, 1);
}

}  // namespace
}  // namespace paceline::blocks
