#include "agent/csi/scratch_volume.h"

#include <fmt/format.h>

#include <optional>

#include "lib/api/quantity.h"

namespace paceline::agent {
namespace {

constexpr char kScratchSource[] = "paceline-scratch";
constexpr unsigned kFolderMode = 0777;   // any user of the pod may write, as in an emptyDir
constexpr unsigned kPrivateMode = 0700;  // the way to the folders, for nobody but us
constexpr uint64_t kSmallestTmpfsBytes = 4096;

enum class Medium { kDisk, kMemory };

struct ScratchSettings {
  Medium medium = Medium::kDisk;
  uint64_t size_bytes = 0;  // 0: not given
};

Result<ScratchSettings> ParseSettings(const std::map<std::string, std::string>& attributes) {
  ScratchSettings settings;
  for (const auto& [key, value] : attributes) {
    if (key == "medium") {
      if (value != "Memory" && value != "Disk") {
        return InvalidArgumentError(fmt::format("attribute medium: \"{}\" is neither Memory nor Disk", value));
      }
      settings.medium = value == "Memory" ? Medium::kMemory : Medium::kDisk;
    } else if (key == "size") {
      Result<int64_t> size = api::ParseQuantity(value);
      if (!size.ok()) return InvalidArgumentError("attribute size: " + size.status().message());
      if (*size < static_cast<int64_t>(kSmallestTmpfsBytes)) {
        return InvalidArgumentError(
            fmt::format("attribute size: \"{}\" is less than {} bytes", value, kSmallestTmpfsBytes));
      }
      settings.size_bytes = static_cast<uint64_t>(*size);
    } else {
      return InvalidArgumentError(
          fmt::format("unknown attribute \"{}\": a scratch volume has type, medium and size", key));
    }
  }
  return settings;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

class ScratchVolume final : public VolumeType {
 public:
  ScratchVolume(const std::string& state_dir, VolumeHost& host)
      : host_(host),
        folders_(state_dir + "/scratch"),
        staging_(state_dir + "/scratch-new"),
        trash_(state_dir + "/scratch-trash") {}

  std::string_view name() const override { return "scratch"; }
  Status Validate(const VolumeSpec& spec) const override { return ParseSettings(spec.attributes).status(); }
  Status Publish(const VolumeSpec& spec, Deadline deadline) override;
  Status Unpublish(const VolumeSpec& spec, Deadline deadline) override;
  bool serves_persistent() const override { return false; }
  std::optional<VolumeHealth> Look(const VolumeSpec&, Deadline) override { return std::nullopt; }
  Status RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) override;
  Status TakeOutTrash() override;

 private:
  Status PublishMemory(const VolumeSpec& spec, uint64_t size_bytes);
  Status PublishDisk(const VolumeSpec& spec, uint64_t size_bytes);
  Status MakeFolder(const VolumeSpec& spec, uint64_t size_bytes);
  std::string FolderOf(const std::string& volume_id) const { return folders_ + "/" + volume_id; }

  VolumeHost& host_;
  const std::string folders_;  // one folder per Disk volume, named by its id
  const std::string staging_;  // where such a folder is made before it gets its name
  const std::string trash_;    // folders of ended volumes, until somebody has the time to empty them
};

Status ScratchVolume::Publish(const VolumeSpec& spec, Deadline /*deadline: nothing here waits*/) {
  ASSIGN_OR_RETURN(ScratchSettings settings, ParseSettings(spec.attributes));
  if (settings.medium == Medium::kMemory) return PublishMemory(spec, settings.size_bytes);
  return PublishDisk(spec, settings.size_bytes);
}

Status ScratchVolume::PublishMemory(const VolumeSpec& spec, uint64_t size_bytes) {
  const std::string& target = spec.target.path;
  ASSIGN_OR_RETURN(std::optional<MountEntry> mounted, host_.MountAt(target));
  if (mounted && mounted->fs_type == "tmpfs" && mounted->source == kScratchSource &&
      mounted->is_read_only == spec.is_read_only) {
    return Status();
  }
  if (mounted) RETURN_IF_ERROR(host_.Unmount(target));
  RETURN_IF_ERROR(host_.MakeDirectory(target, kMountPointMode));
  return host_.MountTmpfs(target, {.source = kScratchSource,
                                   .size_bytes = size_bytes,
                                   .access = spec.is_read_only ? MountAccess::kReadOnly : MountAccess::kReadWrite});
}

Status ScratchVolume::PublishDisk(const VolumeSpec& spec, uint64_t size_bytes) {
  const std::string& target = spec.target.path;
  const std::string folder = FolderOf(spec.volume_id);
  RETURN_IF_ERROR(MakeFolder(spec, size_bytes));
  ASSIGN_OR_RETURN(std::optional<MountEntry> mounted, host_.MountAt(target));
  // A folder that was deleted under its mount ends in "//deleted" and so is bound anew.
  const bool is_ours = mounted && EndsWith(mounted->root, "/scratch/" + spec.volume_id);
  if (is_ours && mounted->is_read_only == spec.is_read_only) return Status();
  if (!is_ours) {
    if (mounted) RETURN_IF_ERROR(host_.Unmount(target));
    RETURN_IF_ERROR(host_.MakeDirectory(target, kMountPointMode));
    RETURN_IF_ERROR(host_.BindMount(folder, target));
  }
  return host_.SetBindAccess(target, spec.is_read_only ? MountAccess::kReadOnly : MountAccess::kReadWrite);
}

Status ScratchVolume::MakeFolder(const VolumeSpec& spec, uint64_t size_bytes) {
  const std::string folder = FolderOf(spec.volume_id);
  RETURN_IF_ERROR(host_.MakeDirectory(folders_, kPrivateMode));
  ASSIGN_OR_RETURN(bool exists, host_.DirectoryExists(folder));
  if (!exists && size_bytes > 0) {
    ASSIGN_OR_RETURN(uint64_t free_bytes, host_.FreeBytes(folders_));
    if (free_bytes < size_bytes) {
      return ResourceExhaustedError(
          fmt::format("scratch volume of {} bytes: only {} are free on the node's disk", size_bytes, free_bytes));
    }
  }
  if (exists) return Status();
  // Made and given its mode under another name, so that a folder of this name is always usable, whatever cut us off.
  const std::string draft = staging_ + "/" + spec.volume_id;
  RETURN_IF_ERROR(host_.MakeDirectory(staging_, kPrivateMode));
  RETURN_IF_ERROR(host_.RemoveTree(draft));
  RETURN_IF_ERROR(host_.MakeDirectory(draft, kFolderMode));
  return host_.Rename(draft, folder);
}

Status ScratchVolume::Unpublish(const VolumeSpec& spec, Deadline /*deadline: nothing here waits*/) {
  RETURN_IF_ERROR(host_.Unmount(spec.target.path));
  RETURN_IF_ERROR(host_.RemoveDirectory(spec.target.path));
  const std::string folder = FolderOf(spec.volume_id);
  ASSIGN_OR_RETURN(bool exists, host_.DirectoryExists(folder));
  if (!exists) return Status();
  // A volume can hold millions of files and kubelet waits: move it out of the way in one step, empty it later. Volume
  // ids come from the pod's uid, so a name is taken only when this very volume was published again after an earlier
  // end.
  RETURN_IF_ERROR(host_.MakeDirectory(trash_, kPrivateMode));
  for (int attempt = 0;; ++attempt) {
    constexpr int kMostAttempts = 1000;
    Status moved = host_.Rename(folder, fmt::format("{}/{}.{}", trash_, spec.volume_id, attempt));
    if (moved.code() != StatusCode::kAlreadyExists || attempt == kMostAttempts) return moved;
  }
}

Status ScratchVolume::RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) {
  RETURN_IF_ERROR(host_.RemoveTree(staging_));
  Result<std::vector<std::string>> names = host_.ListDirectory(folders_);
  if (names.status().code() == StatusCode::kNotFound) return Status();
  if (!names.ok()) return names.status();
  ASSIGN_OR_RETURN(std::vector<MountEntry> mounts, host_.Mounts());
  for (const std::string& name : *names) {
    if (is_known(name)) continue;
    bool is_in_use = false;  // a record that got lost must not cost a running pod its files
    for (const MountEntry& mount : mounts) is_in_use = is_in_use || EndsWith(mount.root, "/scratch/" + name);
    if (is_in_use) continue;
    RETURN_IF_ERROR(host_.RemoveTree(FolderOf(name)));
  }
  return Status();
}

Status ScratchVolume::TakeOutTrash() {
  Result<std::vector<std::string>> names = host_.ListDirectory(trash_);
  if (names.status().code() == StatusCode::kNotFound) return Status();
  if (!names.ok()) return names.status();
  Status first_failure;
  for (const std::string& name : *names) {
    Status removed = host_.RemoveTree(trash_ + "/" + name);
    if (!removed.ok() && first_failure.ok()) first_failure = removed;
  }
  return first_failure;
}

}  // namespace

std::unique_ptr<VolumeType> NewScratchVolume(const std::string& state_dir, VolumeHost& host) {
  return std::make_unique<ScratchVolume>(state_dir, host);
}

}  // namespace paceline::agent
