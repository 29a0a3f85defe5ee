// An emulated training job on this machine: a process per rank, with a folder for the trace rings of each "node", and
// the faults that come from outside.
//
// For tests and for trying things by hand. What is still running ends with the object. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/unique_fd.h"
#include "tests/collectives/slow_link.h"

namespace paceline::collectives {

struct JobDescription {
  uint32_t ranks = 4;
  std::vector<std::string> options;                      // of every worker, see worker_main.cc
  std::map<uint32_t, std::vector<std::string>> of_rank;  // further ones of single ranks
  std::string trace_folder;                              // of all rings
  std::string run = "run-1";
  // Data from the first to the second rank goes through a link that can be slowed down.
  std::optional<std::pair<uint32_t, uint32_t>> slow_link;
};

class Job {
 public:
  explicit Job(const JobDescription& description);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Waits for all ranks. True when each ended with 0.
  bool Wait();
  // Exit status as of waitpid, once the rank has ended.
  int WaitFor(uint32_t rank);
  void Signal(uint32_t rank, int signal) const;
  pid_t pid(uint32_t rank) const { return pids_[rank]; }
  // The proxy progress thread of a rank; 0 when there is none.
  pid_t ProxyThreadOf(uint32_t rank) const;
  SlowLink& link() { return *link_; }

 private:
  void Start(const JobDescription& description, uint32_t rank, const std::vector<UniqueFd>& listeners);

  std::vector<pid_t> pids_;
  std::vector<bool> has_ended_;
  std::unique_ptr<SlowLink> link_;
};

}  // namespace paceline::collectives
