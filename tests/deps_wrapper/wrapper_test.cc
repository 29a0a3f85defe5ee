// paceline-deps as a program: order of its steps, exit codes, signals, process 1 of a namespace.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/fakes/child_program.h"
#include "tests/fakes/temporary_folder.h"

namespace paceline::deps_wrapper {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class WrapperTest : public testing::Test {
 protected:
  fakes::ChildProgram Start(Words words, int clone_flags = 0) {
    words.insert(words.begin(), PACELINE_DEPS_WRAPPER);
    return fakes::StartProgram(std::move(words), [this, clone_flags] {
      setenv("PACELINE_STAGE_FILE", (folder_ / "stages").c_str(), 1);
      if (clone_flags == 0) return;
      // The first child in a new process namespace is process 1 of it.
      if (unshare(clone_flags) != 0) _exit(99);
      const pid_t first = fork();
      if (first == 0) return;
      int status = 0;
      waitpid(first, &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    });
  }
  fakes::ChildResult Run(Words words) { return fakes::Finish(Start(std::move(words))); }
  std::string Sentinel(const std::string& key = "k1") {
    std::ofstream(folder_ / "sentinel") << "{\"base\":\"\",\"key\":\"" << key << "\"}\n";
    return folder_ / "sentinel";
  }
  std::string MakeSentinel() const { return "printf '{\"key\":\"k1\"}' > " + (folder_ / "sentinel"); }

  fakes::TemporaryFolder folder_;
};

TEST_F(WrapperTest, BecomesTheProgramWhenEverythingIsThere) {
  const fakes::ChildResult ran =
      Run({"--sentinel", Sentinel(), "--key", "k1", "--install", "touch " + (folder_ / "installed"), "--", "/bin/sh",
           "-c", "echo arguments: $0 $1; exit 5", "a b", "c"});
  EXPECT_EQ(ran.code, 5);
  EXPECT_THAT(ran.out, HasSubstr("dependencies in place after 0.0 s\n"));
  EXPECT_THAT(ran.out, HasSubstr("arguments: a b c"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "installed"));
  EXPECT_THAT(fakes::ReadText(folder_ / "stages"), testing::MatchesRegex("dependencies_restored [0-9]+\\.[0-9]{6}\n"
                                                                         "dependencies_ready [0-9]+\\.[0-9]{6}\n"));
}

TEST_F(WrapperTest, StepsAreTakenInOrderAndSaidInOneLine) {
  const std::string sentinel = folder_ / "sentinel";
  const std::string installed = "touch " + (folder_ / "installed");
  const struct {
    const char* name;
    std::string restore, install;
    int code;
    std::string line;
    bool installs;
  } cases[] = {
      {"restored", MakeSentinel(), installed, 0, "dependencies restored after ", false},
      {"restore fails", "exit 4", installed, 0, "dependencies installed after ", true},
      {"restore lies", "true", installed, 0, "(after the restore " + sentinel + " is not there)", true},
      {"no such restore", "/no/such", installed, 0, "the restore cannot be run: No such file", true},
      {"install fails", "exit 4", "exit 9", 9, "(the restore ended with 4; the install ended with 9)", false},
      {"nothing to do it with", "", "", 1, "dependencies are not there", false},
  };
  for (const auto& c : cases) {
    std::filesystem::remove(sentinel);
    std::filesystem::remove(folder_ / "installed");
    const fakes::ChildResult ran = Run({"--sentinel", sentinel, "--key", "k1", "--restore", c.restore, "--install",
                                        c.install, "--report", folder_ / "report", "--", "/bin/echo", "started"});
    EXPECT_EQ(ran.code, c.code) << c.name << ran.out;
    EXPECT_THAT(ran.out, HasSubstr(c.line)) << c.name;
    EXPECT_EQ(ran.out.find("started") != std::string::npos, c.code == 0) << c.name << ran.out;
    EXPECT_EQ(std::filesystem::exists(folder_ / "installed"), c.installs) << c.name;
    EXPECT_THAT(fakes::ReadText(folder_ / "report"), HasSubstr("\"key\":\"k1\",\"clean\":")) << c.name;
  }
}

TEST_F(WrapperTest, ASentinelOfAnotherKeyIsNone) {
  const fakes::ChildResult ran =
      Run({"--sentinel", Sentinel("k11"), "--key", "k1", "--install", "true", "--", "/bin/true"});
  EXPECT_THAT(ran.out, HasSubstr("dependencies installed"));
  EXPECT_THAT(ran.out, HasSubstr("is of another key"));
}

TEST_F(WrapperTest, WaitsForWhatIsMountedMeanwhile) {
  const fakes::ChildProgram program =
      Start({"--sentinel", folder_ / "sentinel", "--wait", "60", "--install", "false", "--", "/bin/echo", "started"});
  Sentinel();
  const fakes::ChildResult ran = fakes::Finish(program);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("in place"));
}

TEST_F(WrapperTest, ARestoreThatHangsIsStoppedWithAllItStarted) {
  const fakes::ChildResult ran = Run({"--restore", "sleep 1000 & sleep 1000", "--restore-limit", "1", "--install",
                                      "true", "--", "/bin/echo", "started"});
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("the restore took longer than 1 s"));
}

TEST_F(WrapperTest, SignalsReachTheInstallAndEndTheRun) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const fakes::ChildProgram program =
        Start({"--install", "trap 'echo got it; exit 3' TERM INT HUP; echo ready; while :; do sleep 0.1; done", "--",
               "/bin/echo", "started"});
    std::string seen = fakes::ReadUntil(program, "ready");
    kill(program.pid, signal);
    const fakes::ChildResult ran = fakes::Finish(program);
    EXPECT_EQ(ran.code, 128 + signal) << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("got it"));
    EXPECT_THAT(ran.out, Not(HasSubstr("started")));
  }
}

TEST_F(WrapperTest, TheProgramGetsTheSignalsAndTheProcessOfTheWrapper) {
  const fakes::ChildProgram program = Start({"--install", "true", "--", "/bin/sh", "-c",
                                             "trap 'echo term; exit 6' TERM; echo me $$; while :; do sleep 0.1; done"});
  const std::string seen = fakes::ReadUntil(program, "me " + std::to_string(program.pid));
  EXPECT_THAT(seen, HasSubstr("me " + std::to_string(program.pid)));
  kill(program.pid, SIGTERM);
  const fakes::ChildResult ran = fakes::Finish(program);
  EXPECT_EQ(ran.code, 6);
  EXPECT_THAT(ran.out, HasSubstr("term"));
}

TEST_F(WrapperTest, SupervisesOnRequest) {
  const fakes::ChildProgram program = Start({"--supervise", "--install", "true", "--", "/bin/sh", "-c",
                                             "trap 'echo term; exit 6' TERM; echo me $$; while :; do sleep 0.1; done"});
  fakes::ReadUntil(program, "me ");
  kill(program.pid, SIGTERM);
  const fakes::ChildResult ran = fakes::Finish(program);
  EXPECT_EQ(ran.code, 6) << ran.out;
  EXPECT_EQ(Run({"--supervise", "--install", "true", "--", "/bin/sh", "-c", "kill -KILL $$"}).code, 128 + SIGKILL);
  EXPECT_EQ(Run({"--supervise", "--install", "true", "--", "/no/such"}).code, 127);
}

TEST_F(WrapperTest, LetsTheRecorderSeeAnInstallBeforeTheProgram) {
  std::filesystem::create_directory(folder_ / "venv");
  const Words words = {"--sentinel",
                       folder_ / "venv/sentinel",
                       "--key",
                       "k1",
                       "--mark",
                       "--report",
                       folder_ / "report",
                       "--answer",
                       folder_ / "answer",
                       "--answer-limit",
                       "60",
                       "--started",
                       folder_ / "started",
                       "--install",
                       "echo x > " + (folder_ / "venv/file"),
                       "--",
                       "/bin/echo",
                       "runs"};
  const fakes::ChildProgram program = Start(words);
  while (!std::filesystem::exists(folder_ / "report")) std::this_thread::yield();
  EXPECT_THAT(fakes::ReadText(folder_ / "report"), HasSubstr("{\"how\":\"installed\""));
  EXPECT_THAT(fakes::ReadText(folder_ / "report"), HasSubstr("\"clean\":true}"));
  EXPECT_EQ(fakes::ReadText(folder_ / "venv/sentinel"), "{\"base\":\"\",\"key\":\"k1\"}\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
  std::ofstream(folder_ / "answer") << "they are being recorded for the next start\n";
  fakes::ChildResult ran = fakes::Finish(program);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("; they are being recorded for the next start\nruns\n"));
  EXPECT_THAT(fakes::ReadText(folder_ / "stages"),
              testing::MatchesRegex("dependencies_installed [0-9.]+\ndependencies_recorded [0-9.]+\n"
                                    "dependencies_ready [0-9.]+\n"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "started"));

  ran = Run(words);
  EXPECT_THAT(ran.out, HasSubstr("in place"));
  // What begins with something there is no install from nothing: nobody is waited for.
  std::filesystem::remove(folder_ / "venv/sentinel");
  std::filesystem::remove(folder_ / "answer");
  ran = Run(words);
  EXPECT_THAT(fakes::ReadText(folder_ / "report"), HasSubstr("\"clean\":false}"));
  EXPECT_THAT(ran.out, HasSubstr("runs"));
}

TEST_F(WrapperTest, NoAnswerHoldsTheProgramUpForTheLimitOnly) {
  const fakes::ChildResult ran =
      Run({"--install", "true", "--answer", folder_ / "answer", "--answer-limit", "1", "--", "/bin/echo", "runs"});
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("; nobody records it (no answer for 1 s)\nruns"));
}

TEST_F(WrapperTest, TheInstallSeesNamedVariablesOnlyAndTheProgramAll) {
  const fakes::ChildResult ran = Run({"--only", "PATH", "--install", "echo stage: [$PACELINE_STAGE_FILE] path: [$PATH]",
                                      "--", "/bin/sh", "-c", "echo program: [$PACELINE_STAGE_FILE]"});
  EXPECT_THAT(ran.out, HasSubstr("stage: [] path: [/"));
  EXPECT_THAT(ran.out, HasSubstr("program: [" + (folder_ / "stages") + "]"));
}

TEST_F(WrapperTest, AsProcessOneItReapsAndIsStopped) {
  if (geteuid() != 0) GTEST_SKIP() << "a process namespace takes root";
  // Orphans of the install, already ended: process 1 has to reap them, or they stay.
  const std::string install =
      "for i in 1 2 3; do (sh -c 'sleep 0.1' & ); done; sleep 0.5; "
      "cat /proc/*/stat 2>/dev/null | grep -c ') Z ' ; echo ready; sleep 1000";
  const fakes::ChildProgram program =
      Start({"--install", install, "--", "/bin/echo", "started"}, CLONE_NEWPID | CLONE_NEWNS);
  const std::string seen = fakes::ReadUntil(program, "ready");
  EXPECT_THAT(seen, HasSubstr("ready"));
  // The child of this test waits for the namespace's process 1; its only child is the wrapper.
  std::string children;
  std::ifstream("/proc/" + std::to_string(program.pid) + "/task/" + std::to_string(program.pid) + "/children") >>
      children;
  ASSERT_FALSE(children.empty());
  kill(std::stoi(children), SIGTERM);
  const fakes::ChildResult ran = fakes::Finish(program);
  EXPECT_EQ(ran.code, 128 + SIGTERM) << ran.out;
}

TEST_F(WrapperTest, CommandsWithoutShellNeedNone) {
  // A file system without a shell, in which nothing but the wrapper and one program lie.
  EXPECT_THAT(Run({"--install", "/bin/echo plain words", "--", "/bin/true"}).out, HasSubstr("plain words\n"));
  EXPECT_THAT(Run({"--install", "echo \"quoted  words\"", "--", "/bin/true"}).out, HasSubstr("quoted  words\n"));
}

TEST_F(WrapperTest, WrongArgumentsAreSaid) {
  for (const Words& words : {Words{}, Words{"--"}, Words{"program"}, Words{"--wait", "x", "--", "true"},
                             Words{"--nothing", "1", "--", "true"}, Words{"--key", "--", "true"}}) {
    const fakes::ChildResult ran = Run(words);
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_THAT(ran.out, HasSubstr("usage:"));
  }
  EXPECT_EQ(Run({"--install", "true", "--", "/no/such"}).code, 127);
  EXPECT_EQ(Run({"--install", "true", "--", "/etc/passwd"}).code, 126);
  EXPECT_EQ(Run({"--install=true", "--", "/bin/true"}).code, 0);
}

TEST_F(WrapperTest, NeedsNothingOfTheImage) {
  const std::string program = fakes::ReadText(PACELINE_DEPS_WRAPPER);
  if (program.find("__asan_init") != std::string::npos || program.find("__tsan_init") != std::string::npos) {
    GTEST_SKIP() << "sanitizers come as libraries";
  }
  Elf64_Ehdr header;
  ASSERT_GT(program.size(), sizeof header);
  std::memcpy(&header, program.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, program.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    EXPECT_NE(segment.p_type, static_cast<uint32_t>(PT_INTERP));
  }
}

}  // namespace
}  // namespace paceline::deps_wrapper
