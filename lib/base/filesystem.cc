#include "lib/base/filesystem.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "lib/base/unique_fd.h"

namespace paceline {

namespace {

FileInfo InfoOf(const struct stat& st) {
  FileInfo info;
  info.type = S_ISREG(st.st_mode)   ? FileInfo::Type::kFile
              : S_ISDIR(st.st_mode) ? FileInfo::Type::kDirectory
              : S_ISLNK(st.st_mode) ? FileInfo::Type::kSymlink
                                    : FileInfo::Type::kOther;
  info.size_bytes = S_ISREG(st.st_mode) ? st.st_size : 0;
  info.mode = st.st_mode & 07777;
  info.modified = WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
  return info;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status SyncDirectory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path);
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync " + path);
  return Status();
}

Status WriteAndSync(int fd, std::string_view contents, uint32_t mode, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + path);
    contents.remove_prefix(written);
  }
  if (::fchmod(fd, mode) != 0) return ErrnoStatus(errno, "chmod " + path);
  if (::fsync(fd) != 0) return ErrnoStatus(errno, "fsync " + path);
  return Status();
}

// Makes and opens a file beside `path`, so that the rename stays within one file system; `made` is its name.
UniqueFd OpenTemporary(const std::string& path, std::string& made) {
  const size_t name_start = path.find_last_of('/') + 1;
  made = fmt::format("{}.{}.tmp-XXXXXX", path.substr(0, name_start), path.substr(name_start));
  return UniqueFd(::mkostemp(made.data(), O_CLOEXEC));
}

}  // namespace

Result<bool> FileSystem::Exists(const std::string& path) const {
  const Result<FileInfo> info = Stat(path);
  if (info.ok()) return true;
  if (info.status().code() == StatusCode::kNotFound) return false;
  return info.status();
}

std::string RealFileSystem::Full(const std::string& path) const {
  if (root_.empty()) return path;
  return path.rfind('/', 0) == 0 ? root_ + path : root_ + "/" + path;
}

Result<std::string> RealFileSystem::ReadFile(const std::string& path, size_t max_bytes) const {
  const std::string full = Full(path);
  const UniqueFd fd(::open(full.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, "open " + full);
  std::string contents;
  char buffer[16384];
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read " + full);
    if (count == 0) return contents;
    if (contents.size() + count > max_bytes) {
      return ResourceExhaustedError(fmt::format("read {}: larger than the limit of {} bytes", full, max_bytes));
    }
    contents.append(buffer, count);
  }
}

Status RealFileSystem::WriteFileAtomically(const std::string& path, std::string_view contents, uint32_t mode) {
  const std::string full = Full(path);
  std::string temporary;
  UniqueFd fd = OpenTemporary(full, temporary);
  if (!fd.is_valid()) return ErrnoStatus(errno, "create a temporary file beside " + full);
  Status status = WriteAndSync(fd.get(), contents, mode, temporary);
  fd.Reset();
  if (status.ok() && ::rename(temporary.c_str(), full.c_str()) != 0) status = ErrnoStatus(errno, "rename to " + full);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(ParentOf(full));
}

Result<std::vector<std::string>> RealFileSystem::List(const std::string& path) const {
  const std::string full = Full(path);
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(full.c_str()), ::closedir);
  if (dir == nullptr) return ErrnoStatus(errno, "open " + full);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, "list " + full);
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileInfo> RealFileSystem::Stat(const std::string& path) const {
  const std::string full = Full(path);
  struct stat st {};
  if (::stat(full.c_str(), &st) != 0) return ErrnoStatus(errno, "stat " + full);
  return InfoOf(st);
}

Result<FileInfo> RealFileSystem::StatLink(const std::string& path) const {
  const std::string full = Full(path);
  struct stat st {};
  if (::lstat(full.c_str(), &st) != 0) return ErrnoStatus(errno, "stat " + full);
  return InfoOf(st);
}

Result<std::string> RealFileSystem::ReadSymlink(const std::string& path) const {
  const std::string full = Full(path);
  std::string target(256, '\0');
  while (true) {
    const ssize_t length = ::readlink(full.c_str(), target.data(), target.size());
    if (length < 0) return ErrnoStatus(errno, "read link " + full);
    if (static_cast<size_t>(length) < target.size()) return target.substr(0, length);
    target.resize(target.size() * 2);  // exactly full may mean cut off
  }
}

Status RealFileSystem::MakeDirectories(const std::string& path, uint32_t mode) {
  const std::string full = Full(path);
  for (size_t slash = 0; slash != std::string::npos;) {
    slash = full.find('/', slash + 1);
    const std::string part = full.substr(0, slash);
    if (::mkdir(part.c_str(), mode) == 0) {
      RETURN_IF_ERROR(SyncDirectory(ParentOf(part)));
      continue;
    }
    const int error = errno;
    struct stat st {};
    // mkdir reports a read-only or forbidden parent before it looks whether the directory is there already.
    const bool is_there = ::stat(part.c_str(), &st) == 0;
    if (is_there && S_ISDIR(st.st_mode)) continue;
    return ErrnoStatus(is_there ? ENOTDIR : error, "make directory " + part);
  }
  return Status();
}

Status RealFileSystem::Remove(const std::string& path) {
  const std::string full = Full(path);
  if (std::remove(full.c_str()) != 0) return ErrnoStatus(errno, "remove " + full);
  return Status();
}

Status RealFileSystem::Rename(const std::string& from, const std::string& to) {
  const std::string full_from = Full(from), full_to = Full(to);
  if (::rename(full_from.c_str(), full_to.c_str()) != 0) {
    return ErrnoStatus(errno, "rename " + full_from + " to " + full_to);
  }
  return Status();
}

}  // namespace paceline
