#include "holder/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <csignal>

#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/json.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/memory_filesystem.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::holder {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Processes and mounts as plain facts that a test changes.
class FakeProcesses final : public ProcessHost {
 public:
  Result<ProcessId> Spawn(const SpawnOrder& order) override {
    if (!refusal.ok()) return refusal;
    orders.push_back(order);
    running.insert(next_pid);
    return ProcessId{next_pid++, 77};
  }
  bool Adopt(const std::string&, ProcessId process, const std::string&) override {
    return process.start_ticks == 77 && running.count(process.pid) > 0;
  }
  void Release(const std::string&, int pid) override { running.erase(pid); }
  void Signal(int pid, int signal) override { signals.emplace_back(pid, signal); }
  bool IsMounted(const std::string& path) override { return mounted.count(path) > 0; }
  Status Unmount(const std::string& path) override {
    mounted.erase(path);
    return Status();
  }

  Status refusal;
  std::vector<SpawnOrder> orders;
  std::set<int> running;
  std::vector<std::pair<int, int>> signals;
  std::set<std::string> mounted;
  int next_pid = 100;
};

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() { Restart(); }

  void Restart() {
    supervisor_ = std::make_unique<Supervisor>(Supervisor::Options{.state_dir = "/s",
                                                                   .mount_root = "/m",
                                                                   .programs = {"/usr/bin/mount-program"},
                                                                   .environment = {"KRB5CCNAME"},
                                                                   .max_mounts = 2},
                                               files_, processes_, clock_, log_.logger());
    ASSERT_TRUE(supervisor_->Recover().ok());
  }

  Request Order(const std::string& name, const std::string& uri = "hdfs://h/a") {
    Request request;
    request.command = Command::kStart;
    request.mount = {name, "owner-" + name, "mount-program", {"--uri", uri, "--directory={mountPoint}"}, {}};
    return request;
  }
  Json Ask(const Request& request) { return *ParseJson(supervisor_->Handle(request)); }
  Json Ask(Command command, const std::string& name) {
    Request request;
    request.command = command;
    request.mount.name = name;
    return Ask(request);
  }
  std::string StateOf(const std::string& name) {
    return JsonString(Ask(Command::kStatus, name), "mount.state").value_or("none");
  }
  static std::string CodeOf(const Json& answer) { return JsonString(answer, "code").value_or("ok"); }
  void StartMounted(const std::string& name) {
    ASSERT_EQ(CodeOf(Ask(Order(name))), "ok");
    processes_.mounted.insert("/m/" + name);
    supervisor_->Advance();
    ASSERT_EQ(StateOf(name), "Mounted");
  }
  void Die(int pid, const std::string& how) { supervisor_->Take({.exits = {{pid, how}}, .output = {}}); }

  fakes::SimulatedClock clock_;
  fakes::MemoryFileSystem files_{clock_};
  fakes::CaptureLog log_;
  FakeProcesses processes_;
  std::unique_ptr<Supervisor> supervisor_;
};

TEST_F(SupervisorTest, StartsOnceHoweverOftenItIsAsked) {
  Request order = Order("a");
  order.mount.environment = {{"KRB5CCNAME", "FILE:{files}/cc"}};
  order.files = std::map<std::string, std::string>{{"keytab", "secret"}};
  EXPECT_EQ(CodeOf(Ask(order)), "ok");
  ASSERT_EQ(processes_.orders.size(), 1u);
  EXPECT_EQ(processes_.orders[0].program, "/usr/bin/mount-program");
  EXPECT_THAT(processes_.orders[0].arguments, ElementsAre("--uri", "hdfs://h/a", "--directory=/m/a"));
  EXPECT_EQ(processes_.orders[0].environment.at("KRB5CCNAME"), "FILE:/s/mounts/a/files/cc");
  EXPECT_EQ(files_.ReadFile("/s/mounts/a/files/keytab", 100).value_or(""), "secret");
  EXPECT_EQ(files_.Stat("/s/mounts/a/files/keytab")->mode, 0600u);
  EXPECT_EQ(files_.Stat("/s/mounts/a/files")->mode, 0700u);
  EXPECT_EQ(StateOf("a"), "Starting");
  processes_.mounted.insert("/m/a");
  supervisor_->Advance();
  EXPECT_EQ(StateOf("a"), "Mounted");

  order.files = std::map<std::string, std::string>{{"keytab", "renewed"}};
  EXPECT_EQ(JsonString(Ask(order), "mount.state").value_or(""), "Mounted");
  EXPECT_EQ(files_.ReadFile("/s/mounts/a/files/keytab", 100).value_or(""), "renewed");
  order.files.reset();
  Ask(order);
  EXPECT_EQ(files_.ReadFile("/s/mounts/a/files/keytab", 100).value_or(""), "renewed");
  EXPECT_EQ(processes_.orders.size(), 1u);
  order.mount.arguments.push_back("--other");
  EXPECT_EQ(CodeOf(Ask(order)), "AlreadyExists");
}

TEST_F(SupervisorTest, RunsNothingElse) {
  Request order = Order("a");
  order.mount.program = "sh";
  EXPECT_EQ(CodeOf(Ask(order)), "PermissionDenied");
  order.mount.program = "/usr/bin/mount-program";
  EXPECT_EQ(CodeOf(Ask(order)), "PermissionDenied") << "names, never paths";
  order = Order("a");
  order.mount.environment = {{"LD_PRELOAD", "x"}};
  EXPECT_EQ(CodeOf(Ask(order)), "PermissionDenied");
  Ask(Order("a"));
  Ask(Order("b"));
  EXPECT_EQ(CodeOf(Ask(Order("c"))), "ResourceExhausted");
  EXPECT_EQ(processes_.orders.size(), 2u);
}

TEST_F(SupervisorTest, LeavesNothingOfWhatCannotStart) {
  processes_.refusal = NotFoundError("no such program");
  EXPECT_EQ(CodeOf(Ask(Order("a"))), "NotFound");
  EXPECT_EQ(StateOf("a"), "none");
  EXPECT_THAT(files_.List("/s/mounts").value_or({"?"}), ElementsAre());
}

TEST_F(SupervisorTest, TellsWhyTheFirstStartFailedAndTriesWhenAsked) {
  Ask(Order("a"));
  supervisor_->Take({.exits = {{100, "exit code 1"}}, .output = {{"a", "no such host"}}});
  EXPECT_EQ(StateOf("a"), "Failed");
  const Json answer = Ask(Command::kStatus, "a");
  EXPECT_EQ(JsonString(answer, "mount.lastExit.text").value_or(""), "exit code 1");
  EXPECT_EQ(JsonString(answer, "mount.log.0").value_or(""), "no such host");
  clock_.Advance(seconds(1000));
  supervisor_->Advance();
  EXPECT_EQ(processes_.orders.size(), 1u) << "a wrong address does not get right by trying";
  EXPECT_EQ(JsonString(Ask(Order("a", "hdfs://right/a")), "mount.state").value_or(""), "Starting");
  EXPECT_EQ(processes_.orders.back().arguments[1], "hdfs://right/a");
}

TEST_F(SupervisorTest, StartsTheDeadAgainEverMoreSlowly) {
  StartMounted("a");
  int waited_seconds = 0;
  for (const int expected_seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    Die(processes_.next_pid - 1, "signal 9");
    ASSERT_EQ(StateOf("a"), "BackingOff");
    const size_t before = processes_.orders.size();
    clock_.Advance(seconds(expected_seconds) - std::chrono::milliseconds(1));
    supervisor_->Advance();
    EXPECT_EQ(processes_.orders.size(), before);
    clock_.Advance(std::chrono::milliseconds(1));
    supervisor_->Advance();
    ASSERT_EQ(processes_.orders.size(), before + 1) << "after " << waited_seconds;
    EXPECT_FALSE(processes_.IsMounted("/m/a")) << "the dead mount was taken away first";
    processes_.mounted.insert("/m/a");
    supervisor_->Advance();
    waited_seconds += expected_seconds;
  }
  EXPECT_EQ(JsonInt(Ask(Command::kStatus, "a"), "mount.restarts").value_or(0), 8);
  clock_.Advance(seconds(121));
  Die(processes_.next_pid - 1, "signal 9");
  clock_.Advance(seconds(1));
  supervisor_->Advance();
  EXPECT_EQ(StateOf("a"), "Starting") << "a long life makes up for the deaths before it";
}

TEST_F(SupervisorTest, StopsWithTimeToWriteOut) {
  StartMounted("a");
  EXPECT_EQ(JsonString(Ask(Command::kStop, "a"), "mount.state").value_or(""), "Stopping");
  EXPECT_THAT(processes_.signals, ElementsAre(std::pair(100, SIGTERM)));
  EXPECT_EQ(CodeOf(Ask(Order("a"))), "Aborted");
  Ask(Command::kStop, "a");
  EXPECT_EQ(processes_.signals.size(), 1u);
  clock_.Advance(seconds(330));
  supervisor_->Advance();
  EXPECT_EQ(processes_.signals.back(), std::pair(100, SIGKILL));
  supervisor_->Take({.exits = {{100, "signal 9"}}, .output = {{"a", "could not write x"}}});
  EXPECT_EQ(StateOf("a"), "Ended");
  EXPECT_EQ(JsonString(Ask(Command::kStatus, "a"), "mount.log.0").value_or(""), "could not write x");
  EXPECT_THAT(files_.List("/s/mounts").value_or({"?"}), ElementsAre());
  EXPECT_THAT(processes_.mounted, ElementsAre());
  EXPECT_EQ(CodeOf(Ask(Command::kStop, "never")), "ok");
  EXPECT_EQ(CodeOf(Ask(Order("a"))), "ok") << "the name is free again";
}

TEST_F(SupervisorTest, FindsAgainWhatRuns) {
  StartMounted("a");
  StartMounted("b");
  processes_.running.erase(101);  // b went while nobody watched
  Restart();
  supervisor_->Advance();
  EXPECT_EQ(StateOf("a"), "Mounted");
  EXPECT_EQ(JsonInt(Ask(Command::kStatus, "a"), "mount.pid").value_or(0), 100);
  EXPECT_EQ(StateOf("b"), "Starting");
  EXPECT_EQ(JsonInt(Ask(Command::kStatus, "b"), "mount.restarts").value_or(0), 1);
  EXPECT_EQ(processes_.orders.size(), 3u);
  EXPECT_EQ(CodeOf(Ask(Order("a"))), "ok");
  EXPECT_EQ(processes_.orders.size(), 3u);

  Ask(Command::kStop, "a");
  Restart();
  EXPECT_EQ(StateOf("a"), "Stopping");
  processes_.running.erase(100);
  Restart();
  EXPECT_EQ(StateOf("a"), "Ended");
}

TEST_F(SupervisorTest, ALostPowerLosesNoPromise) {
  Ask(Order("a"));
  files_.LosePower();
  Restart();
  EXPECT_NE(StateOf("a"), "none");
  files_.FailNext(fakes::MemoryFileSystem::Operation::kWrite, "/s/mounts/b/record.json", ENOSPC);
  EXPECT_EQ(CodeOf(Ask(Order("b"))), "ResourceExhausted");
  EXPECT_EQ(StateOf("b"), "none");
  EXPECT_EQ(processes_.signals.back().second, SIGKILL) << "nothing runs that nobody would find";
}

TEST_F(SupervisorTest, SetsDamageAside) {
  files_.AddFile("/s/mounts/a/record.json", "{\"version\":1");
  files_.AddFile("/s/mounts/b/files/half", "");
  Restart();
  EXPECT_EQ(StateOf("a"), "none");
  EXPECT_THAT(files_.List("/s/mounts").value_or({}), ElementsAre("a.damaged"));
  EXPECT_THAT(log_.Text(), HasSubstr("record set aside"));
}

TEST_F(SupervisorTest, TheEndKeepsRecordsForTheNext) {
  StartMounted("a");
  supervisor_->EndAll();
  EXPECT_THAT(processes_.signals, ElementsAre(std::pair(100, SIGTERM)));
  EXPECT_TRUE(supervisor_->has_processes());
  EXPECT_EQ(CodeOf(Ask(Order("b"))), "Unavailable");
  processes_.mounted.clear();
  Die(100, "exit code 0");
  EXPECT_FALSE(supervisor_->has_processes());
  Restart();
  supervisor_->Advance();
  EXPECT_EQ(StateOf("a"), "Starting");
  EXPECT_EQ(processes_.orders.size(), 2u);
}

}  // namespace
}  // namespace paceline::holder
