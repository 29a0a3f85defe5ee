// What lies in some directories, once before an install and once after it, and what the install changed: by type, mode,
// owner, size, change time and inode, as backup programs do it. Needs no privileges; cannot see what the user cannot.
//
// Called by the recorder. Scan blocks for the disk (about a second for 100,000 files that are cached); the rest is
// pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/deps/capture_rules.h"
#include "lib/deps/tree_view.h"

namespace paceline::deps {

struct FileFacts {
  uint32_t mode = 0;  // st_mode
  uint32_t uid = 0, gid = 0;
  uint64_t size_bytes = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  int64_t ctime_s = 0;
  uint32_t ctime_ns = 0;
  uint64_t inode = 0, device = 0, links = 0;
  std::string target;  // of a symbolic link
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};

struct TreeScan {
  std::map<std::string, FileFacts> files;   // by absolute path, directories among them; the capture directories too
  std::map<std::string, uint64_t> dropped;  // reason to count; a directory counts once
  std::vector<std::string> roots;           // the capture directories that are there
};

// Directories that are not there are as good as empty. `roots` are absolute, without links in them and not inside each
// other. kInvalidArgument for a root that is no directory, kResourceExhausted for more than `max_files`, and the errors
// of reading.
inline constexpr size_t kMaxScannedFiles = 8U << 20;
Result<TreeScan> ScanTrees(const std::vector<std::string>& roots, const CaptureRules& rules,
                           const TreeView& view = TreeView(), size_t max_files = kMaxScannedFiles);

struct TreeChanges {
  std::vector<std::string> written;  // new or changed, sorted: a directory before what is in it
  std::vector<std::string> removed;  // sorted; of a directory that is gone, only itself
};
TreeChanges CompareScans(const TreeScan& before, const TreeScan& after);

// Section 1.2 of the format; "" when nothing but the roots themselves is there.
std::string BaseOf(const TreeScan& scan);

// Facts of one file, links not followed.
Result<FileFacts> FactsOf(const TreeView& view, const std::string& path);

}  // namespace paceline::deps
