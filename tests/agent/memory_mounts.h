// A VolumeHost with real folders and files (below a temporary folder) but mounts in a table in memory, so that volume
// code runs without privileges; and with a power cut that can strike between any two steps that change something.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/csi/volume_host.h"

namespace paceline::agent {

class MemoryMounts final : public VolumeHost {
 public:
  explicit MemoryMounts(std::vector<std::string> roots) : files_(NewLinuxVolumeHost(std::move(roots))) {}

  // After `steps` more changes everything fails and nothing changes any more, as if the process were gone.
  void CutPowerAfter(int steps) { steps_left_ = steps; }
  void RestorePower() { steps_left_ = kNever; }
  bool is_power_cut() const { return steps_left_ == 0; }
  // From now on every write of a file fails as on a full disk.
  void FillDisk() { is_disk_full_ = true; }

  // Mounts that somebody else makes or takes away.
  void AddMount(MountEntry mount) { mounts_.push_back(std::move(mount)); }
  void DropMount(const std::string& path) {
    std::erase_if(mounts_, [&](const MountEntry& mount) { return mount.mount_point == path; });
  }

  size_t mount_count() const { return mounts_.size(); }

  Result<std::optional<MountEntry>> MountAt(const std::string& path) override {
    if (is_power_cut()) return Cut();
    return FindMount(mounts_, path);
  }
  Result<std::vector<MountEntry>> Mounts() override {
    if (is_power_cut()) return Cut();
    return mounts_;
  }
  Status MountTmpfs(const std::string& target, const TmpfsOptions& options) override {
    return Step([&] {
      mounts_.push_back({target, "/", "tmpfs", options.source, options.access == MountAccess::kReadOnly});
      return Status();
    });
  }
  Status BindMount(const std::string& source, const std::string& target) override {
    return Step([&] {
      const std::optional<MountEntry> from = FindMount(mounts_, source);
      mounts_.push_back(from ? *from : MountEntry{target, source, "ext4", "/dev/vda", false});
      mounts_.back().mount_point = target;
      return Status();
    });
  }
  Status SetBindAccess(const std::string& target, MountAccess access) override {
    return Step([&]() -> Status {
      for (MountEntry& mount : mounts_) {
        if (mount.mount_point == target) mount.is_read_only = access == MountAccess::kReadOnly;
      }
      return Status();
    });
  }
  Status Unmount(const std::string& target) override {
    return Step([&] {
      std::erase_if(mounts_, [&](const MountEntry& mount) { return mount.mount_point == target; });
      return Status();
    });
  }
  Status MakeDirectory(const std::string& path, unsigned mode) override {
    return Step([&] { return files_->MakeDirectory(path, mode); });
  }
  Result<bool> DirectoryExists(const std::string& path) override {
    if (is_power_cut()) return Cut();
    return files_->DirectoryExists(path);
  }
  Status RemoveDirectory(const std::string& path) override {
    return Step([&] {
      if (FindMount(mounts_, path)) return UnavailableError(path + " is busy");
      return files_->RemoveDirectory(path);
    });
  }
  Status RemoveTree(const std::string& path) override {
    return Step([&] { return files_->RemoveTree(path); });
  }
  Result<std::vector<std::string>> ListDirectory(const std::string& path) override {
    if (is_power_cut()) return Cut();
    return files_->ListDirectory(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return Step([&] { return files_->Rename(from, to); });
  }
  Result<std::string> ReadFile(const std::string& path) override {
    if (is_power_cut()) return Cut();
    return files_->ReadFile(path);
  }
  Result<std::string> ReadFileStart(const std::string& path, size_t max_bytes) override {
    if (is_power_cut()) return Cut();
    return files_->ReadFileStart(path, max_bytes);
  }
  Status WriteFile(const std::string& path, std::string_view bytes, unsigned mode) override {
    return Step([&] {
      if (is_disk_full_) return ResourceExhaustedError("disk full");
      return files_->WriteFile(path, bytes, mode);
    });
  }
  Status RemoveFile(const std::string& path) override {
    return Step([&] { return files_->RemoveFile(path); });
  }
  Result<uint64_t> FreeBytes(const std::string& path) override { return files_->FreeBytes(path); }

 private:
  static constexpr int kNever = -1;

  static Status Cut() { return UnavailableError("power cut"); }

  template <typename Change>
  Status Step(Change change) {
    if (is_power_cut()) return Cut();
    if (steps_left_ > 0) --steps_left_;
    return change();
  }

  const std::unique_ptr<VolumeHost> files_;
  std::vector<MountEntry> mounts_;
  int steps_left_ = kNever;
  bool is_disk_full_ = false;
};

}  // namespace paceline::agent
