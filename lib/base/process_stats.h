// What /proc says about the running process, for the process_* metrics. Reads files each time; nothing is cached.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline {

struct ProcessStats {
  double cpu_seconds = 0;         // user and system, all threads
  double start_time_seconds = 0;  // since the Unix epoch
  uint64_t virtual_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t threads = 0;
  uint64_t open_descriptors = 0;
  uint64_t max_descriptors = 0;
};

// The units that /proc/<pid>/stat counts in.
struct ProcUnits {
  uint64_t ticks_per_second = 100;
  uint64_t page_bytes = 4096;
};

// Fills the fields that `stat` (the text of /proc/<pid>/stat) and `boot_time_seconds` give; the descriptor counts stay
// zero. The program name in it may hold any characters, brackets and blanks included. kInvalidArgument when malformed.
Result<ProcessStats> ParseProcStat(std::string_view stat, double boot_time_seconds, const ProcUnits& units);

// The line "btime <seconds>" of /proc/stat. kNotFound without one.
Result<double> ParseBootTime(std::string_view proc_stat);

// The calling process, from `proc_root` ("/proc"). Short reads of memory-backed files: does not block on anything.
Result<ProcessStats> ReadOwnProcessStats(const std::string& proc_root);

}  // namespace paceline
