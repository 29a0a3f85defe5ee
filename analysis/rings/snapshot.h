// One look at the rings below a folder: the tables of all training processes of this machine, without an agent.
//
// For pacectl, and the part of the agent's collector that finds rings. Blocks for file reads, and for a second between
// two looks, which tell how much processor time the proxy threads got. Not to be called inside a process that writes a
// ring there.
#pragma once

#include <string>
#include <vector>

#include "analysis/trace_model.h"
#include "lib/base/filesystem.h"

namespace paceline::analysis {

// Paths of the files in `folder`, and up to three folders below, that are named like rings. Links are not followed.
// What cannot be listed is left out: folders of pods come and go.
std::vector<std::string> FindRings(const FileSystem& files, const std::string& folder);

struct SnapshotOptions {
  std::string folder;
  std::string node;
  std::string proc_root = "/proc";
  std::string cgroup_root = "/sys/fs/cgroup";
  Duration between = std::chrono::milliseconds(1100);
};

// kNotFound when there is no ring; rings that cannot be read are named as missing.
Result<Tables> SnapshotRings(const SnapshotOptions& options, const FileSystem& files, const Clock& clock);

}  // namespace paceline::analysis
