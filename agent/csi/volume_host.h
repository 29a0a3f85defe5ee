// The node as volume code changes it: mounts, folders and small state files, behind one interface, so that tests can
// put a memory-only mount table or a power cut between any two steps.
//
// Every path must lie below one of the roots given to NewLinuxVolumeHost. Components below a root are opened one by one
// without following symbolic links, so a link planted under kubelet's folder cannot lead a root process elsewhere
// (kInvalidArgument). All calls block on the file system only; implementations are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/csi/mount_table.h"
#include "lib/base/result.h"

namespace paceline::agent {

// Of a folder that a mount covers.
inline constexpr unsigned kMountPointMode = 0750;

enum class MountAccess { kReadWrite, kReadOnly };

struct TmpfsOptions {
  std::string source;       // shown in the mount table, so that our mounts can be told from others
  uint64_t size_bytes = 0;  // 0: the kernel's default, half of the memory
  MountAccess access = MountAccess::kReadWrite;
};

class VolumeHost {
 public:
  virtual ~VolumeHost() = default;

  // The mount that is visible on `path`, which need not exist. kUnavailable when the table cannot be read.
  virtual Result<std::optional<MountEntry>> MountAt(const std::string& path) = 0;
  // Every mount of this process's namespace.
  virtual Result<std::vector<MountEntry>> Mounts() = 0;

  // All mounts are made nosuid and nodev, on an existing folder. They stack: look with MountAt before.
  virtual Status MountTmpfs(const std::string& target, const TmpfsOptions& options) = 0;
  virtual Status BindMount(const std::string& source, const std::string& target) = 0;
  // Sets a bind mount to read-only or back; its file system is not touched.
  virtual Status SetBindAccess(const std::string& target, MountAccess access) = 0;
  // Takes every mount off `target`, lazily where one is busy. Ok when there is none or no such path.
  virtual Status Unmount(const std::string& target) = 0;

  // Makes one folder with exactly `mode`; ok (mode untouched) when it is there. kNotFound without a parent.
  virtual Status MakeDirectory(const std::string& path, unsigned mode) = 0;
  virtual Result<bool> DirectoryExists(const std::string& path) = 0;
  // Removes an empty folder; ok when it is gone.
  virtual Status RemoveDirectory(const std::string& path) = 0;
  // Removes a folder with all it holds; ok when it is gone. May take as long as the file system needs.
  virtual Status RemoveTree(const std::string& path) = 0;
  // Names in a folder, without order. kNotFound when there is no such folder.
  virtual Result<std::vector<std::string>> ListDirectory(const std::string& path) = 0;
  // Moves within one file system, replacing nothing: kAlreadyExists when `to` is taken.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;

  // kNotFound when absent, kInvalidArgument for anything but a regular file, kResourceExhausted above 1 MiB.
  virtual Result<std::string> ReadFile(const std::string& path) = 0;
  // The same, but at most the first `max_bytes` of a file of any size.
  virtual Result<std::string> ReadFileStart(const std::string& path, size_t max_bytes) = 0;
  // Replaces the file, which then has `mode`, in one step; when this returns ok the bytes survive a power cut.
  virtual Status WriteFile(const std::string& path, std::string_view bytes, unsigned mode = 0600) = 0;
  // Ok when it is gone; survives a power cut as WriteFile does.
  virtual Status RemoveFile(const std::string& path) = 0;

  // Bytes that an ordinary user could still write to the file system of `path`.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
};

// `roots` are absolute, without a slash at their end; symbolic links in a root itself are followed (an administrator
// may have moved kubelet's folder). Roots need not exist yet.
std::unique_ptr<VolumeHost> NewLinuxVolumeHost(std::vector<std::string> roots);

}  // namespace paceline::agent
