// The holder as a process, with real mounts of a folder: what it starts, what dies, what is found again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/local_socket.h"
#include "tests/agent/mount_namespace.h"

extern char** environ;

namespace paceline::holder {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class HolderProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (!agent::WhyNoMounts().empty()) GTEST_SKIP() << agent::WhyNoMounts();
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse here";
    char name[] = "/tmp/paceline-holder-XXXXXX";
    folder_ = mkdtemp(name);
    std::filesystem::create_directory(folder_ + "/store");
    std::ofstream(folder_ + "/store/file") << "kept";
    Start();
  }
  void TearDown() override {
    if (folder_.empty()) return;
    for (const char* mount : {"a", "b"}) {
      Ask(Command("stop", mount));
      EXPECT_TRUE(Eventually([&] { return StateOf(mount) == "Ended" || StateOf(mount) == "none"; })) << Log();
    }
    End(SIGTERM);
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/mnt")) << "no mount is left";
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/state/mounts"));
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    const std::string script = fmt::format(
        "exec {} --state-dir {}/state --mount-root {}/mnt --programs {} --restart-first 100ms --stop-mounts no >> "
        "{}/log 2>&1",
        PACELINE_HOLDER, folder_, folder_, PACELINE_HDFS_MOUNT, folder_);
    const char* words[] = {"sh", "-c", script.c_str(), nullptr};
    ASSERT_EQ(posix_spawn(&holder_, "/bin/sh", nullptr, nullptr, const_cast<char**>(words), environ), 0);
    ASSERT_TRUE(Eventually([&] { return AskText(R"({"version":1,"command":"list"})").ok(); })) << Log();
  }
  void End(int signal) {
    kill(holder_, signal);
    int status = 0;
    waitpid(holder_, &status, 0);
    if (signal == SIGTERM) EXPECT_EQ(status, 0) << Log();
  }

  Result<std::string> AskText(const std::string& line) {
    return AskLocal(folder_ + "/state/holder.sock", line, 1 << 20, clock_,
                    Deadline::After(clock_, std::chrono::seconds(5)));
  }
  Json Ask(const Json& request) {
    const Result<std::string> answer = AskText(DumpJson(request));
    EXPECT_TRUE(answer.ok()) << answer.status().ToString() << Log();
    return answer.ok() ? ParseJson(*answer).value_or(Json()) : Json();
  }
  static Json Command(const std::string& command, const std::string& name) {
    return {{"version", 1}, {"command", command}, {"name", name}};
  }
  Json StartCommand(const std::string& name, const std::string& store) {
    Json request = Command("start", name);
    request["program"] = "paceline-hdfs-mount";
    request["arguments"] = {"file://" + folder_ + store, "{mountPoint}", "--control-socket", "{control}"};
    request["files"] = {{"token", "736563726574"}};
    return request;
  }
  std::string StateOf(const std::string& name) {
    return JsonString(Ask(Command("status", name)), "mount.state").value_or("none");
  }
  int64_t PidOf(const std::string& name) { return JsonInt(Ask(Command("status", name)), "mount.pid").value_or(0); }
  bool AwaitMounted(const std::string& name) {
    return Eventually([&] { return StateOf(name) == "Mounted"; });
  }

  bool Eventually(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::After(clock_, std::chrono::seconds(20));
    while (!condition()) {
      if (deadline.Expired(clock_)) return false;
      clock_.SleepFor(std::chrono::milliseconds(20), {});
    }
    return true;
  }
  std::string Log() { return ReadText(folder_ + "/log"); }
  std::string Mounted(const std::string& path) { return folder_ + "/mnt/" + path; }

  RealClock clock_;
  std::string folder_;
  pid_t holder_ = -1;
};

TEST_F(HolderProcess, MountsOutliveIt) {
  Ask(StartCommand("a", "/store"));
  ASSERT_TRUE(AwaitMounted("a")) << Log();
  EXPECT_EQ(ReadText(Mounted("a/file")), "kept");
  struct stat info {};
  ASSERT_EQ(stat((folder_ + "/state/mounts/a/files/token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const int64_t pid = PidOf("a");
  std::ofstream open_file(Mounted("a/written"));
  open_file << "before ";

  End(SIGKILL);
  EXPECT_EQ(ReadText(Mounted("a/file")), "kept") << "nobody holds it, and it serves";
  Start();
  ASSERT_TRUE(AwaitMounted("a")) << Log();
  EXPECT_EQ(PidOf("a"), pid) << "found again, not started again";
  open_file << "and after";
  open_file.close();
  EXPECT_EQ(ReadText(folder_ + "/store/written"), "before and after");

  kill(static_cast<pid_t>(pid), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return PidOf("a") != 0 && PidOf("a") != pid && StateOf("a") == "Mounted"; })) << Log();
  EXPECT_EQ(ReadText(Mounted("a/file")), "kept") << "also one that was not its child";
}

TEST_F(HolderProcess, StartsADeadMountAgain) {
  Ask(StartCommand("a", "/store"));
  ASSERT_TRUE(AwaitMounted("a")) << Log();
  const int64_t pid = PidOf("a");
  kill(static_cast<pid_t>(pid), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return PidOf("a") != 0 && PidOf("a") != pid && StateOf("a") == "Mounted"; })) << Log();
  EXPECT_EQ(ReadText(Mounted("a/file")), "kept");
  const Json answer = Ask(Command("status", "a"));
  EXPECT_EQ(JsonString(answer, "mount.lastExit.text").value_or(""), "signal 9");
  EXPECT_EQ(JsonInt(answer, "mount.restarts").value_or(0), 1);
}

TEST_F(HolderProcess, SaysWhyAMountDoesNotStart) {
  Ask(StartCommand("a", "/store"));
  Ask(StartCommand("b", "/missing"));
  ASSERT_TRUE(Eventually([&] { return StateOf("b") == "Failed"; })) << Log();
  const Json answer = Ask(Command("status", "b"));
  EXPECT_EQ(JsonString(answer, "mount.lastExit.text").value_or(""), "exit code 1");
  EXPECT_NE(DumpJson(answer).find("No such file"), std::string::npos) << DumpJson(answer);
  ASSERT_TRUE(AwaitMounted("a")) << Log();
}

}  // namespace
}  // namespace paceline::holder
