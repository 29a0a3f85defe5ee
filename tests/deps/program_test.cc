// pacectl deps as a program: mounts, kills, two at once.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "tests/blocks_image/erofs_mount.h"
#include "tests/blocks_image/tree_facts.h"
#include "tests/fakes/child_program.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/fakes/test_keys.h"

namespace paceline::deps {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

class DepsProgramTest : public testing::Test {
 protected:
  void TearDown() override {
    if (is_mounted_)
      Run({"unmount", root_, "--force", "--run-folder", folder_ / "run", "--upper-folder", folder_ / "upper"});
  }

  // `go` is where the install command finds its variable GO.
  static fakes::ChildProgram Start(Words words, const std::string& go = {}) {
    words.insert(words.begin(), {PACELINE_PACECTL, "deps"});
    return fakes::StartProgram(std::move(words), [&go] {
      setenv("GO", go.c_str(), 1);
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
    });
  }
  static fakes::ChildResult Run(Words words) { return fakes::Finish(Start(std::move(words))); }
  Json RunJson(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    const fakes::ChildResult ran = Run(std::move(words));
    EXPECT_EQ(ran.code, 0) << ran.out;
    return ParseJson(ran.out).value_or(Json::object());
  }

  // The arguments that record and restore share.
  Words Key(const std::string& verb, const Words& more = {}) const {
    Words words = {verb, "--command", command_, "--capture", root_, "--store", Store(), "--interpreter", "none"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words Restore(const Words& more = {}) {
    is_mounted_ = true;
    Words words = Key("restore", {"--run-folder", folder_ / "run", "--upper-folder", folder_ / "upper",
                                  "--cache-folder", folder_ / "cache"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string Store() const { return "file://" + (folder_ / "store"); }
  std::vector<std::string> Facts() const {
    std::vector<std::string> lines = blocks::TreeFacts(root_);
    std::erase_if(lines, [](const std::string& line) {
      return line.starts_with(" mode") || line.find(".paceline-") != std::string::npos;
    });
    return lines;
  }
  size_t Snapshots() const { return RunJson({"ls", "--store", Store(), "-A"}).size(); }

  fakes::TemporaryFolder folder_;
  const std::string root_ = folder_ / "env";
  std::string command_ = "cd " + root_ +
                         "; mkdir -p lib bin; i=0; while [ $i -lt 300 ]; do echo file $i > lib/$i; "
                         "i=$((i+1)); done; head -c 4000000 /dev/urandom > bin/tool; ln -s tool bin/link; "
                         "ln bin/tool bin/hard; chmod 755 bin/tool";
  bool is_mounted_ = false;
};

TEST_F(DepsProgramTest, RecordsAndPutsBackByMountAndByCopy) {
  const Json recorded = RunJson(Key("record", {"--keep-times"}));
  EXPECT_EQ(JsonInt(recorded, "files").value_or(0), 301);
  const std::vector<std::string> installed = Facts();
  fs::remove_all(root_);
  EXPECT_EQ(Run(Key("restore")).code, 4);  // the times are part of the key
  EXPECT_EQ(Run(Key("restore", {"--copy", "--keep-times"})).code, 0);
  EXPECT_EQ(Facts(), installed);
  EXPECT_THAT(Run(Key("restore", {"--copy", "--keep-times"})).out, HasSubstr("in place already"));
  fs::remove_all(root_);

  if (!blocks::WhyNoErofs().empty()) GTEST_SKIP() << blocks::WhyNoErofs();
  const fakes::ChildResult mounted = Run(Restore({"--keep-times"}));
  ASSERT_EQ(mounted.code, 0) << mounted.out;
  EXPECT_THAT(mounted.out, HasSubstr("mounted in"));
  EXPECT_EQ(Facts(), installed);
  // It takes writes, and gives them up with the mount.
  std::ofstream(root_ + "/lib/0") << "written";
  fs::remove(root_ + "/lib/1");
  EXPECT_EQ(fakes::ReadText(root_ + "/lib/0"), "written");
  EXPECT_THAT(Run(Restore({"--keep-times"})).out, HasSubstr("in place already"));
  const Words unmount = {"unmount", root_, "--run-folder", folder_ / "run", "--upper-folder", folder_ / "upper"};
  const fakes::ChildResult unmounted = Run(unmount);
  EXPECT_EQ(unmounted.code, 0) << unmounted.out;
  EXPECT_TRUE(fs::is_empty(root_));
  EXPECT_EQ(Run(unmount).code, 1);
  EXPECT_FALSE(fs::exists(folder_ / "upper/") && !fs::is_empty(folder_ / "upper/"));
}

TEST_F(DepsProgramTest, AMountShowsTheBaseBelowAndHidesWhatWasRemoved) {
  if (!blocks::WhyNoErofs().empty()) GTEST_SKIP() << blocks::WhyNoErofs();
  const auto make_base = [&] {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/d");
    for (const char* name : {"kept", "changed", "removed", "d/removed", "d/kept"}) {
      std::ofstream(root_ + "/" + name) << "base\n";
    }
  };
  command_ = "cd " + root_ + "; echo new > changed; rm removed d/removed; echo added > d/added";
  make_base();
  ASSERT_EQ(Run(Key("record")).code, 0);
  make_base();
  const fakes::ChildResult mounted = Run(Restore());
  ASSERT_EQ(mounted.code, 0) << mounted.out;
  EXPECT_EQ(fakes::ReadText(root_ + "/changed"), "new\n");
  EXPECT_EQ(fakes::ReadText(root_ + "/kept"), "base\n");
  EXPECT_EQ(fakes::ReadText(root_ + "/d/added"), "added\n");
  EXPECT_EQ(fakes::ReadText(root_ + "/d/kept"), "base\n");
  EXPECT_FALSE(fs::exists(root_ + "/removed"));
  EXPECT_FALSE(fs::exists(root_ + "/d/removed"));
}

TEST_F(DepsProgramTest, WhateverMomentItIsKilledAtASnapshotIsWholeOrAbsent) {
  const RealClock clock;
  const TimePoint start = clock.Now();
  ASSERT_EQ(Run(Key("record")).code, 0);
  const double whole_ms = ToSeconds(clock.Now() - start) * 1000;
  fs::remove_all(folder_ / "store");
  constexpr int kKills = 20;
  int absent = 0;
  for (int i = 0; i < kKills; ++i) {
    const fakes::ChildProgram program = Start(Key("record", {"--empty-first", "--again"}));
    pollfd nothing = {-1, 0, 0};
    poll(&nothing, 1, static_cast<int>(whole_ms * (i + 0.5) / kKills));
    kill(-program.pid, SIGKILL);  // with what it has started
    fakes::Finish(program);
    if (!fs::exists(folder_ / "store/paceline-store")) {
      ++absent;
      continue;
    }
    const fakes::ChildResult verified = Run({"verify", "--store", Store()});
    EXPECT_EQ(verified.code, 0) << i << ": " << verified.out;
    if (Snapshots() == 0) ++absent;
  }
  EXPECT_GT(absent, 0);
  const fakes::ChildResult last = Run(Key("record", {"--empty-first", "--again"}));
  EXPECT_EQ(last.code, 0) << last.out;
  EXPECT_EQ(Snapshots(), 1U);
  // What dead recorders left is collected, and nothing else.
  EXPECT_EQ(Run({"gc", "--store", Store(), "--grace", "0"}).code, 0);
  EXPECT_EQ(Run({"verify", "--store", Store()}).code, 0);
  EXPECT_TRUE(fs::is_empty(folder_ / "store/tmp"));
}

TEST_F(DepsProgramTest, OfTwoAtOnceOneRecordsAndTheOtherInstallsPrivately) {
  for (const char* go : {"go-first", "go-second"}) ASSERT_EQ(mkfifo((folder_ / go).c_str(), 0600), 0);
  // Each of them waits for a word of its own: one that writes while the other records is a fault that stops recording.
  command_ = "mkdir -p " + root_ + "; echo begun; read word < $GO; echo x > " + root_ + "/file";
  const fakes::ChildProgram first = Start(Key("record"), folder_ / "go-first");
  fakes::ReadUntil(first, "begun");
  const fakes::ChildResult refused = Run(Key("record"));
  EXPECT_EQ(refused.code, 1);
  // The directories are shared here, so it sees a recording under way before it comes to the lease.
  EXPECT_THAT(refused.out, testing::AnyOf(HasSubstr("held by"), HasSubstr("half full")));
  const fakes::ChildProgram second = Start(Key("record", {"--always-install"}), folder_ / "go-second");
  const std::string said = fakes::ReadUntil(second, "begun");
  EXPECT_THAT(said, HasSubstr("not recorded: "));
  std::ofstream(folder_ / "go-second") << "now\n";
  const fakes::ChildResult installed = fakes::Finish(second);
  EXPECT_EQ(Snapshots(), 0U);
  std::ofstream(folder_ / "go-first") << "now\n";
  const fakes::ChildResult recorded = fakes::Finish(first);
  EXPECT_EQ(recorded.code, 0) << recorded.out;
  EXPECT_EQ(installed.code, 0) << installed.out;
  EXPECT_EQ(Snapshots(), 1U);
}

TEST_F(DepsProgramTest, SaysWhyAKeyMisses) {
  ASSERT_EQ(Run(Key("record")).code, 0);
  EXPECT_THAT(Run(Key("explain-key")).out, HasSubstr("there is a snapshot of this key"));
  fs::remove_all(root_);
  EXPECT_THAT(Run(Key("explain-key")).out, HasSubstr("there is a snapshot of this key"));
  EXPECT_THAT(Run(Key("explain-key", {"--epoch", "2"})).out, testing::ContainsRegex("epoch +0 +2\n"));
  const fakes::ChildResult missed = Run(Key("restore", {"--copy", "--epoch", "2"}));
  EXPECT_EQ(missed.code, 4) << missed.out;
  EXPECT_THAT(missed.out, HasSubstr("no snapshot of key"));
}

TEST_F(DepsProgramTest, TheInstallsExitCodeAndDamageAreTold) {
  const std::string good = command_;
  command_ = "exit 7";
  EXPECT_EQ(Run(Key("record")).code, 7);
  command_ = good;
  ASSERT_EQ(Run(Key("record", {"--empty-first"})).code, 0);
  for (const auto& blob : fs::directory_iterator(folder_ / "store/blobs/sha256")) {
    if (fs::file_size(blob) < 1000000) continue;
    std::string bytes = fakes::ReadText(blob.path().string());
    bytes[500000] = static_cast<char>(bytes[500000] ^ 1);
    std::ofstream(blob.path(), std::ios::binary) << bytes;
  }
  EXPECT_EQ(Run({"verify", "--store", Store()}).code, 3);
  fs::remove_all(root_);
  const fakes::ChildResult restored = Run(Key("restore", {"--copy"}));
  EXPECT_EQ(restored.code, 1) << restored.out;
  // What is half there is not taken for whole, and not installed over without a word.
  EXPECT_THAT(Run(Key("restore", {"--copy"})).out, HasSubstr("half full"));
}

TEST_F(DepsProgramTest, SignsAndBelievesWhomItIsToldTo) {
  const auto write = [this](const std::string& name, const char* text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  };
  const std::string signing = write("signing.pem", fakes::kTestKey);
  const std::string trusted = write("trusted.pem", fakes::kTestPublicKey);
  const std::string other = write("other.pem", fakes::kOtherTestPublicKey);
  const std::string key = JsonString(RunJson(Key("record", {"--sign-key", signing})), "key").value_or("");
  EXPECT_EQ(Run({"verify", "--store", Store(), "--key", trusted}).code, 0);
  const fakes::ChildResult verified = Run({"verify", key, "--store", Store(), "--key", other});
  EXPECT_EQ(verified.code, 3);
  EXPECT_THAT(verified.out, HasSubstr("which is not trusted"));
  EXPECT_THAT(Run({"verify", "--store", Store(), "--key", folder_ / "none.pem"}).out, HasSubstr("none.pem"));
  EXPECT_THAT(Run({"show", key, "--store", Store()}).out, HasSubstr("by host"));
  fs::remove_all(root_);
  const fakes::ChildResult refused = Run(Key("restore", {"--copy", "--key", other}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, HasSubstr("not trusted"));
  EXPECT_FALSE(fs::exists(root_ + "/lib"));
  EXPECT_EQ(Run(Key("restore", {"--copy", "--key", trusted})).code, 0);
  EXPECT_THAT(Run({"lift", key, "--store", Store()}).out, HasSubstr("not in quarantine"));
}

TEST_F(DepsProgramTest, CollectsWhatHasEnded) {
  ASSERT_EQ(Run(Key("record", {"--ttl", "1ms"})).code, 0);
  EXPECT_THAT(Run({"ls", "--store", Store()}).out, HasSubstr("expired"));
  EXPECT_THAT(Run({"gc", "--store", Store(), "--grace", "0", "--dry-run"}).out, HasSubstr("would remove: 1 expired"));
  EXPECT_EQ(Snapshots(), 1U);
  EXPECT_EQ(Run({"gc", "--store", Store(), "--grace", "0"}).code, 0);
  EXPECT_EQ(Snapshots(), 0U);
  // The blobs that only the snapshot's manifests named went in the same run or go in the next.
  EXPECT_EQ(Run({"gc", "--store", Store(), "--grace", "0"}).code, 0);
  EXPECT_TRUE(fs::is_empty(folder_ / "store/blobs/sha256"));
}

}  // namespace
}  // namespace paceline::deps
