#include "tests/blocks_image/tree_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "lib/base/unique_fd.h"
#include "lib/blocks/format/digest.h"

namespace paceline::blocks {
namespace {

std::string XattrFacts(const std::string& path) {
  std::string names(65536, '\0');
  const ssize_t size = ::llistxattr(path.c_str(), names.data(), names.size());
  if (size < 0) return "no xattrs";
  names.resize(static_cast<size_t>(size));
  std::map<std::string, std::string> found;
  for (size_t at = 0; at < names.size();) {
    const std::string name = names.c_str() + at;
    at += name.size() + 1;
    std::string value(65536, '\0');
    const ssize_t length = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    found[name] = length < 0 ? "unreadable" : Sha256Of(std::string_view(value).substr(0, length)).Hex().substr(0, 12);
  }
  std::string facts;
  for (const auto& [name, value] : found) facts += " " + name + "=" + value;
  return facts;
}

std::string ContentFacts(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_valid()) return "unreadable";
  Sha256 hash;
  std::string piece(1U << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0) return "unreadable";
    if (got == 0) return hash.Finish().Hex();
    hash.Update(std::string_view(piece).substr(0, static_cast<size_t>(got)));
  }
}

void Walk(const std::string& root, const std::string& below, std::vector<std::string>* paths) {
  paths->push_back(below);
  DIR* folder = ::opendir((root + below).c_str());
  if (folder == nullptr) return;
  std::vector<std::string> directories;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info;
    const std::string path = below + "/" + name;
    if (::lstat((root + path).c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      directories.push_back(path);
    } else {
      paths->push_back(path);
    }
  }
  ::closedir(folder);
  for (const std::string& directory : directories) Walk(root, directory, paths);
}

}  // namespace

std::vector<std::string> TreeFacts(const std::string& root) {
  std::vector<std::string> paths;
  Walk(root, "", &paths);
  std::sort(paths.begin(), paths.end());
  std::map<std::pair<dev_t, ino_t>, std::string> first_path;
  std::vector<std::string> facts;
  for (const std::string& path : paths) {
    const std::string full = root + path;
    struct stat info;
    if (::lstat(full.c_str(), &info) != 0) {
      facts.push_back(path + " unreadable");
      continue;
    }
    const bool is_directory = S_ISDIR(info.st_mode);
    std::string line = fmt::format("{} mode={:o} owner={}:{} mtime={}.{:09}", path, info.st_mode, info.st_uid,
                                   info.st_gid, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    // What size a directory has is the file system's own business.
    if (!is_directory) line += fmt::format(" size={}", info.st_size);
    line += fmt::format(" links={}", info.st_nlink);
    if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
      line += fmt::format(" device={}:{}", major(info.st_rdev), minor(info.st_rdev));
    }
    if (S_ISLNK(info.st_mode)) {
      std::string target(8192, '\0');
      const ssize_t size = ::readlink(full.c_str(), target.data(), target.size());
      line += " to=" + (size < 0 ? std::string("unreadable") : target.substr(0, static_cast<size_t>(size)));
    }
    if (S_ISREG(info.st_mode)) line += " content=" + ContentFacts(full);
    const auto [first, is_new] = first_path.try_emplace({info.st_dev, info.st_ino}, path);
    if (!is_new) line += " same-as=" + first->second;
    facts.push_back(line + XattrFacts(full));
  }
  return facts;
}

}  // namespace paceline::blocks
