#include "analysis/rings/process_probe.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/fakes/memory_filesystem.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

TEST(ProcessState, IsTheLetterBehindTheName) {
  EXPECT_EQ(*ParseProcessState("12 (python) S 1 12 12"), 'S');
  EXPECT_EQ(*ParseProcessState("12 (a) T (x) T 1 12"), 'T');
  for (const char* text : {"", "12", "12 (python", "12 (python)", "12 (python)S", ") "}) {
    EXPECT_EQ(ParseProcessState(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(SchedulerTimes, AreTheFirstTwoNumbers) {
  EXPECT_EQ(ParseSchedulerTimes("1135399 4100371 2\n")->waiting, 4100371ns);
  for (const char* text : {"", "1", "1 2", "1 x 3", "-1 2 3", "99999999999999999999 1 1"}) {
    EXPECT_FALSE(ParseSchedulerTimes(text).ok()) << text;
  }
}

TEST(CpuCgroup, IsFoundForBothVersions) {
  EXPECT_EQ(*ParseCpuCgroup("0::/kubepods/x\n"), "/kubepods/x");
  EXPECT_EQ(*ParseCpuCgroup("5:memory:/m\n3:cpu,cpuacct:/a:b\n0::/\n"), "cpu,cpuacct/a:b");
  EXPECT_EQ(*ParseCpuCgroup("1:cpu:/"), "cpu/");
  for (const char* text : {"", "\n\n", "5:memory:/m", "cpu", "3:cpuset:/x"}) {
    EXPECT_EQ(ParseCpuCgroup(text).status().code(), StatusCode::kNotFound) << text;
  }
}

TEST(Throttled, HasTheUnitOfItsVersion) {
  EXPECT_EQ(*ParseThrottled("usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n"), 1500us);
  EXPECT_EQ(*ParseThrottled("nr_periods 1\nnr_throttled 1\nthrottled_time 42\n"), 42ns);
  EXPECT_EQ(ParseThrottled("usage_usec 5\n").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ParseThrottled("throttled_usec -4\n").ok());
}

TEST(IoBytes, AreThoseOfTheSystemCalls) {
  EXPECT_EQ(*ParseIoBytes("rchar: 100\nwchar: 20\nsyscr: 5\nread_bytes: 7\n"), 120u);
  for (const char* text : {"", "rchar: 1", "rchar: x\nwchar: 1\n", "wchar: -1\nrchar: 1\n"}) {
    EXPECT_FALSE(ParseIoBytes(text).ok()) << text;
  }
}

TEST(IoRate, IsOfTheLastSecond) {
  RealClock clock;
  fakes::MemoryFileSystem files(clock);
  ProcessProbe probe(files, "/proc", "/cgroup");
  const auto look = [&](uint64_t written, TimePoint now) {
    EXPECT_TRUE(files.MakeDirectories("/proc/7").ok());
    EXPECT_TRUE(files.WriteFileAtomically("/proc/7/io", "rchar: 0\nwchar: " + std::to_string(written) + "\n").ok());
    return probe.IoRateOf(7, now);
  };
  const TimePoint start{};
  EXPECT_EQ(look(1000, start), std::nullopt) << "one look tells no rate";
  EXPECT_EQ(look(5000, start + 2s), 2000.0);
  EXPECT_EQ(look(9000, start + 2100ms), 2000.0) << "within a second the same again";
  EXPECT_EQ(look(5000, start + 4s), 0.0);
  EXPECT_EQ(probe.IoRateOf(8, start), std::nullopt);
}

TEST(Parsers, SurviveAnyBytes) {
  std::mt19937 random(1);
  const std::string good = "12 (a) S\n3:cpu,cpuacct:/x\nthrottled_usec 12\n1 2 3\n";
  for (int round = 0; round < 2000; round++) {
    std::string text = good.substr(0, random() % good.size());
    for (int i = 0; i < 3 && !text.empty(); i++) text[random() % text.size()] = static_cast<char>(random());
    const bool is_any = ParseProcessState(text).ok() || ParseSchedulerTimes(text).ok() || ParseCpuCgroup(text).ok() ||
                        ParseThrottled(text).ok();
    (void)is_any;
  }
}

class Probe : public testing::Test {
 protected:
  void SetThread(const std::string& thread, const std::string& name, const std::string& times) {
    const std::string folder = "/proc/7/task/" + thread;
    files_.AddFile(folder + "/comm", name + "\n");
    files_.AddFile(folder + "/schedstat", times + "\n");
  }
  void SetFile(const std::string& folder, const std::string& name, const std::string& text) {
    files_.AddFile(folder + "/" + name, text);
  }

  fakes::SimulatedClock clock_;
  fakes::MemoryFileSystem files_{clock_};
  ProcessProbe probe_{files_, "/proc", "/cgroup"};
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(Probe, TellsStoppedAndEndedProcesses) {
  EXPECT_EQ(probe_.StateOf(7), ProcessState::kUnknown);
  const std::pair<const char*, ProcessState> cases[] = {{"7 (t) R 1", ProcessState::kRunning},
                                                        {"7 (t) D 1", ProcessState::kRunning},
                                                        {"7 (t) T 1", ProcessState::kStopped},
                                                        {"7 (t) t 1", ProcessState::kStopped},
                                                        {"7 (t) Z 1", ProcessState::kDead}};
  for (const auto& [stat, state] : cases) {
    SetFile("/proc/7", "stat", stat);
    EXPECT_EQ(probe_.StateOf(7), state) << stat;
  }
}

TEST_F(Probe, GivesSharesOfTheTimeBetweenTwoLooks) {
  SetThread("10", "python", "0 0 1");
  SetThread("11", "NCCL Progress 0", "1000000000 1000000000 5");
  SetFile("/proc/7", "cgroup", "0::/pod\n");
  SetFile("/cgroup/pod", "cpu.stat", "throttled_usec 1000000\n");
  EXPECT_FALSE(probe_.ProxyThreadOf(7, now_).has_value());
  SetThread("10", "python", "0 9000000000 1");
  SetThread("11", "NCCL Progress 0", "1500000000 2200000000 5");
  SetFile("/cgroup/pod", "cpu.stat", "throttled_usec 2600000\n");
  const auto view = probe_.ProxyThreadOf(7, now_ + 2s);
  ASSERT_TRUE(view.has_value());
  EXPECT_NEAR(view->running, 0.25, 1e-9);
  EXPECT_NEAR(view->waiting, 0.6, 1e-9);
  EXPECT_NEAR(view->throttled, 0.8, 1e-9);
  // Within a second the same again.
  SetThread("11", "NCCL Progress 0", "9900000000 2200000000 5");
  EXPECT_NEAR(probe_.ProxyThreadOf(7, now_ + 2500ms)->running, 0.25, 1e-9);
  probe_.Forget(7);
  EXPECT_FALSE(probe_.ProxyThreadOf(7, now_ + 4s).has_value());
}

}  // namespace
}  // namespace paceline::analysis
