// What /proc and the cgroup files say of a training process and of its NCCL proxy thread.
//
// NCCL is silent when its proxy thread gets no processor; the kernel is not. The collector asks once per sample for
// each living writer of a ring. Parsers are pure; the probe reads small kernel files and keeps the last counters, and
// is not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/trace_model.h"
#include "lib/base/filesystem.h"

namespace paceline::analysis {

// Letter of the state in the text of /proc/<pid>/stat: R, S, D, T, t, Z, ... The program name in it may hold anything.
// kInvalidArgument when malformed.
Result<char> ParseProcessState(std::string_view stat);

struct SchedulerTimes {
  Duration running{};
  Duration waiting{};  // ready to run, on no processor
};
// Text of /proc/<pid>/task/<tid>/schedstat. kInvalidArgument when malformed.
Result<SchedulerTimes> ParseSchedulerTimes(std::string_view schedstat);

// Path of the cpu controller's cgroup in the text of /proc/<pid>/cgroup, below /sys/fs/cgroup: "/kubepods/x" with
// version 2, "cpu,cpuacct/kubepods/x" with version 1. kNotFound without one.
Result<std::string> ParseCpuCgroup(std::string_view cgroup);

// Time in which the cgroup was throttled, from the text of cpu.stat of either version. kNotFound where the file does
// not say, as in a cgroup without a quota.
Result<Duration> ParseThrottled(std::string_view cpu_stat);

// Bytes that a process has read and written by system calls, files and pipes alike, from the text of /proc/<pid>/io.
// kInvalidArgument when malformed.
Result<uint64_t> ParseIoBytes(std::string_view io);

class ProcessProbe {
 public:
  // `proc_root` is "/proc" and `cgroup_root` "/sys/fs/cgroup", or where a container has them of its node.
  ProcessProbe(const FileSystem& files, std::string proc_root, std::string cgroup_root)
      : files_(files), proc_root_(std::move(proc_root)), cgroup_root_(std::move(cgroup_root)) {}

  // State of a process. kRunning unless it is stopped; kUnknown when /proc does not say.
  ProcessState StateOf(int64_t pid) const;

  // Shares of the last second or more, of the proxy thread that waited longest; the same again within a second. Nothing
  // at the first call, and for a process without such a thread.
  std::optional<ProxyThreadView> ProxyThreadOf(int64_t pid, TimePoint now);

  // Bytes per second that the process reads and writes, over the last second or more. Nothing at the first call. A rank
  // that saves a checkpoint has launched nothing, like one that hangs; this tells them apart.
  std::optional<double> IoRateOf(int64_t pid, TimePoint now);

  // Forgets a process that has ended.
  void Forget(int64_t pid) {
    processes_.erase(pid);
    io_.erase(pid);
  }

 private:
  struct Seen {
    std::map<std::string, SchedulerTimes> threads;  // proxy threads by id
    std::optional<Duration> throttled;
    TimePoint at;
    TimePoint listed;
    std::optional<ProxyThreadView> view;
  };
  struct SeenIo {
    uint64_t bytes = 0;
    TimePoint at;
    std::optional<double> rate;
  };
  void ListProxyThreads(int64_t pid, Seen& seen) const;
  std::optional<Duration> ThrottledOf(int64_t pid) const;

  const FileSystem& files_;
  std::string proc_root_;
  std::string cgroup_root_;
  std::map<int64_t, Seen> processes_;
  std::map<int64_t, SeenIo> io_;
};

}  // namespace paceline::analysis
