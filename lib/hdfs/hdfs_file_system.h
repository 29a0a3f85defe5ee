// The FileSystem interface on HDFS: puts the NameNode's calls, the parallel reader and the writers together. Made by
// OpenFileSystem. Thread-safe.
#pragma once

#include <memory>

#include "lib/hdfs/byte_budget.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/hadoop_config.h"
#include "lib/hdfs/open.h"

namespace paceline::hdfs {

// kInvalidArgument, naming the key, when the configuration cannot be understood. `clock` is borrowed. `budget` is what
// writers may hold.
Result<std::unique_ptr<FileSystem>> MakeHdfsFileSystem(const NameService& service, const FileSystemOptions& options,
                                                       std::shared_ptr<ByteBudget> budget, const Clock& clock);

}  // namespace paceline::hdfs
