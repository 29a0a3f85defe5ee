// Processes and mounts as the supervisor needs them, behind an interface, so that its rules are tested without either.
//
// Used by one thread, the holder's loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

struct pollfd;

namespace paceline::holder {

// A process and proof that it is still the same one: pids come around again.
struct ProcessId {
  int pid = 0;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
};

struct SpawnOrder {
  std::string name;     // the mount's, for what the process writes
  std::string program;  // full path
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string log_pipe;  // path of the named pipe that becomes its output; made when absent
};

// What happened since the last look.
struct ProcessNews {
  std::map<int, std::string> exits;                         // pid to "exit code 1" or "signal 9"
  std::vector<std::pair<std::string, std::string>> output;  // name of the mount, line
};

class ProcessHost {
 public:
  virtual ~ProcessHost() = default;

  // Starts a process whose end will be reported. kNotFound and the like when the program cannot be run.
  virtual Result<ProcessId> Spawn(const SpawnOrder& order) = 0;
  // Watches a process that an earlier holder started. False when it is gone.
  virtual bool Adopt(const std::string& name, ProcessId process, const std::string& log_pipe) = 0;
  // The process has been reported as ended: forgets its pipe too.
  virtual void Release(const std::string& name, int pid) = 0;
  virtual void Signal(int pid, int signal) = 0;

  // True when something is mounted exactly on `path`.
  virtual bool IsMounted(const std::string& path) = 0;
  // Takes every mount off `path`, lazily; ok when there is none.
  virtual Status Unmount(const std::string& path) = 0;
};

// The machine's own, with what the loop needs to wait for it.
class LinuxProcessHost : public ProcessHost {
 public:
  // Makes this process the parent of orphans among its descendants.
  static std::unique_ptr<LinuxProcessHost> Make();

  // Appends what becomes readable when there is news.
  virtual void AddPollFds(std::vector<pollfd>* fds) const = 0;
  // Never blocks.
  virtual ProcessNews Gather() = 0;
};

}  // namespace paceline::holder
