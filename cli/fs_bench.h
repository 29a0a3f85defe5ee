// How fast files are written and read at a place, for `pacectl fs bench`. Blocking; a call belongs to one thread, and
// starts others.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/fs_transfer.h"
#include "cli/output.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/hdfs/file_system.h"

namespace paceline::cli {

struct BenchOptions {
  uint64_t file_bytes = 1ull << 30;
  int files = 1;             // written and read at once, each by a thread of its own
  uint32_t replication = 0;  // 0: the server's default
  bool keeps_files = false;
  Duration call_limit = std::chrono::seconds(120);  // of one write or read of 4 MiB
};

struct BenchResult {
  std::string operation;  // "write", "read"
  int files = 0;
  uint64_t bytes = 0;  // of all files
  Duration took{};
  Duration cpu{};           // of this process
  Duration longest_call{};  // until 4 MiB were taken or there
};

// Writes files of known content into `directory`, reads them back, compares, and removes them (also when something
// fails). Nothing that is there is touched. kDataLoss when a byte differs.
Result<std::vector<BenchResult>> BenchDirectory(hdfs::FileSystem& fs, const std::string& directory,
                                                const BenchOptions& options, const Clock& clock,
                                                const ProgressSink& progress);

// Reads a file that is there, from its start to its end.
Result<BenchResult> BenchFile(hdfs::FileSystem& fs, const std::string& path, const BenchOptions& options,
                              const Clock& clock, const ProgressSink& progress);

Table BenchTable(const std::vector<BenchResult>& results);
nlohmann::json BenchValue(const BenchResult& result);

}  // namespace paceline::cli
