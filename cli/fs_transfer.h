// Bytes between this machine's files and a hdfs::FileSystem, for `pacectl fs get` and `put`: whole trees, large files
// by several threads at once, nothing half-done under a final name. Blocking; a value of this kind belongs to one
// thread.
#pragma once

#include <functional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/hdfs/file_system.h"

namespace paceline::cli {

// "folder/name".
std::string JoinPath(const std::string& folder, const std::string& name);

// Called as bytes arrive, from several threads but never at once; `total_bytes` grows while a tree is walked.
using ProgressSink = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

struct TransferOptions {
  int threads = 8;                                  // of one download
  Duration call_limit = std::chrono::seconds(120);  // without a byte moving
  bool overwrites = false;
};

struct TransferResult {
  uint64_t files = 0, bytes = 0;
};

// Copies a file or a directory with all below it to `local`, or into it when it is a directory. Existing files are
// kept (kAlreadyExists) unless `overwrites`.
Result<TransferResult> Download(hdfs::FileSystem& fs, const std::string& path, const std::string& local,
                                const TransferOptions& options, const Clock& clock, const ProgressSink& progress);

// The reverse, to `path` or into it when it is a directory.
Result<TransferResult> Upload(hdfs::FileSystem& fs, const std::string& local, const std::string& path,
                              const TransferOptions& options, const Clock& clock, const ProgressSink& progress);

}  // namespace paceline::cli
