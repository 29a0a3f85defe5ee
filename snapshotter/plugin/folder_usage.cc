#include "snapshotter/plugin/folder_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "lib/base/unique_fd.h"

namespace paceline::snapshotter {
namespace {

constexpr uint64_t kStatBlockBytes = 512;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

bool IsGone(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

class Walk {
 public:
  explicit Walk(dev_t device) : device_(device) {}

  void Count(const struct stat& st) {
    if (st.st_nlink > 1 && !S_ISDIR(st.st_mode) && !seen_.insert(st.st_ino).second) return;
    usage_.bytes += static_cast<uint64_t>(st.st_blocks) * kStatBlockBytes;
    ++usage_.inodes;
  }

  Status CountEntries(Directory directory, const std::string& path, std::vector<std::string>* folders) {
    errno = 0;
    while (const dirent* entry = readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat st = {};
      if (fstatat(dirfd(directory.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (!IsGone(errno)) return ErrnoStatus(errno, path + "/" + entry->d_name);
        errno = 0;
        continue;
      }
      if (st.st_dev != device_) continue;
      Count(st);
      if (S_ISDIR(st.st_mode)) folders->push_back(path + "/" + entry->d_name);
      errno = 0;
    }
    return errno == 0 ? Status() : ErrnoStatus(errno, path);
  }

  const FolderUsage& usage() const { return usage_; }

 private:
  const dev_t device_;
  FolderUsage usage_;
  std::set<ino_t> seen_;  // files with several names
};

}  // namespace

Result<FolderUsage> MeasureFolder(const std::string& folder) {
  struct stat st = {};
  if (lstat(folder.c_str(), &st) != 0) return ErrnoStatus(errno, folder);
  Walk walk(st.st_dev);
  walk.Count(st);
  std::vector<std::string> folders = {folder};
  while (!folders.empty()) {
    const std::string path = std::move(folders.back());
    folders.pop_back();
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
      if (!IsGone(errno)) return ErrnoStatus(errno, path);
      continue;
    }
    Directory directory(fdopendir(fd));
    if (directory == nullptr) {
      const int error = errno;
      UniqueFd close_it(fd);
      return ErrnoStatus(error, path);
    }
    RETURN_IF_ERROR(walk.CountEntries(std::move(directory), path, &folders));
  }
  return walk.usage();
}

}  // namespace paceline::snapshotter
