#include "fuse-hdfs/caller_process.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace paceline::fuse_hdfs {
namespace {

// The value behind "key:" in a file of such lines, empty when it is not there.
std::string FieldOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word, value;
  while (file >> word) {
    if (word == key && file >> value) return value;
    file.ignore(4096, '\n');
  }
  return "";
}

}  // namespace

int32_t ProcessOf(int32_t thread) {
  if (thread <= 0) return 0;
  const std::string process = FieldOf(fmt::format("/proc/{}/status", thread), "Tgid:");
  return process.empty() ? 0 : static_cast<int32_t>(std::strtol(process.c_str(), nullptr, 10));
}

bool HoldsForWriting(int32_t process, uint64_t inode, const std::string& name) {
  const std::string folder = fmt::format("/proc/{}", process);
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder + "/fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    // The path is the one of the process's own mount namespace; its last part is the same everywhere.
    if (std::filesystem::read_symlink(at->path(), gone).filename() != name || gone) continue;
    const std::string info = folder + "/fdinfo/" + at->path().filename().string();
    if (FieldOf(info, "ino:") != std::to_string(inode)) continue;
    const long flags = std::strtol(FieldOf(info, "flags:").c_str(), nullptr, 8);
    if ((flags & O_ACCMODE) != O_RDONLY) return true;
  }
  return false;
}

}  // namespace paceline::fuse_hdfs
