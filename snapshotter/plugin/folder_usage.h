// What a folder takes on disk, counted as containerd counts it: blocks, each inode once, nothing of other file systems
// that are mounted below. Walks the tree; safe on one that others change meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace paceline::snapshotter {

struct FolderUsage {
  uint64_t bytes = 0, inodes = 0;
  friend bool operator==(const FolderUsage&, const FolderUsage&) = default;
};

// kNotFound when the folder is not there; what vanishes during the walk is left out.
Result<FolderUsage> MeasureFolder(const std::string& folder);

}  // namespace paceline::snapshotter
