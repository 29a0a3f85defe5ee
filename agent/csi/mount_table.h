// The kernel's list of mounts as values. Parses the text of /proc/self/mountinfo; who reads that file is volume_host.h.
// Pure; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline::agent {

struct MountEntry {
  std::string mount_point;    // absolute, as this process sees it
  std::string root;           // which folder of the file system is mounted: "/" or, for a bind mount, a path inside it
  std::string fs_type;        // "tmpfs", "ext4", "fuse.paceline"
  std::string source;         // what mount(2) was given; for tmpfs any word
  bool is_read_only = false;  // of this mount or of its file system
  std::string device = {};    // "0:57": the same for all mounts of one file system, and for no other's
  bool operator==(const MountEntry&) const = default;
};

// In the kernel's order, so that of two mounts on one point the later covers the earlier. kDataLoss for a line that
// does not follow the format (proc(5)).
Result<std::vector<MountEntry>> ParseMountInfo(std::string_view text);

// The visible (topmost) mount on exactly `mount_point`, if there is one.
std::optional<MountEntry> FindMount(const std::vector<MountEntry>& mounts, std::string_view mount_point);

}  // namespace paceline::agent
