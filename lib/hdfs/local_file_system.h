// file:///: the FileSystem interface on a folder of this machine, so that every command and the mount work without a
// cluster. Called by OpenFileSystem. The deadline is not looked at: local calls end by themselves. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "lib/hdfs/file_system.h"

namespace paceline::hdfs {

// `clock` is borrowed.
std::unique_ptr<FileSystem> MakeLocalFileSystem(const Clock& clock);

}  // namespace paceline::hdfs
