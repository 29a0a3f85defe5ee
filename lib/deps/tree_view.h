// Where captured directories are looked at from: this machine's own root, or a folder that stands for the root of a
// container. Below such a folder lies what somebody else writes while we read as root, so every path is resolved by the
// kernel as if the folder were the root: a link to /etc/shadow leads to a file of the folder or to none.
//
// Made once for a recording; the scan, the checks and the stream of files go through it. Thread-safe: no state that
// changes. Paths are absolute, as the container names them; all calls block for the disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

struct stat;

namespace paceline::deps {

class TreeView {
 public:
  // This machine's root, links followed as ever.
  TreeView() = default;
  // The folder is held open: it may be moved meanwhile. Errors of opening it. Needs Linux 5.6 (openat2).
  static Result<TreeView> Below(const std::string& folder);

  bool is_machine() const { return root_ == nullptr; }

  // open(2) with O_CLOEXEC; the last part of the path may be no link. Reads never wait (fifos).
  Result<UniqueFd> Open(const std::string& path, int flags) const;
  // lstat(2).
  Status Stat(const std::string& path, struct stat* st) const;
  Result<std::string> ReadLink(const std::string& path) const;
  // Names of extended attributes; empty where there are none.
  Result<std::vector<std::string>> ListXattrs(const std::string& path) const;
  Result<std::string> ReadXattr(const std::string& path, const std::string& name) const;
  // Whether something is there, links followed.
  bool Exists(const std::string& path) const;

 private:
  std::shared_ptr<const UniqueFd> root_;  // null: the machine's
};

}  // namespace paceline::deps
