#include "agent/csi/trace_volume.h"

#include <fmt/format.h>

#include "lib/api/names.h"
#include "lib/api/quantity.h"

namespace paceline::agent {
namespace {

constexpr char kTraceSource[] = "paceline-trace";
constexpr size_t kMaxPluginBytes = 16 << 20;
constexpr int64_t kSmallestBytes = 16 << 20;  // the rings of a process or two
constexpr unsigned kPluginMode = 0644;

class TraceVolume final : public VolumeType {
 public:
  TraceVolume(TraceVolumeOptions options, const FileSystem& files, VolumeHost& host)
      : options_(std::move(options)), files_(files), host_(host) {}

  std::string_view name() const override { return kTraceVolumeType; }
  Status Validate(const VolumeSpec& spec) const override { return SizeOf(spec).status(); }
  Status Publish(const VolumeSpec& spec, Deadline deadline) override;
  Status Unpublish(const VolumeSpec& spec, Deadline deadline) override;
  bool serves_persistent() const override { return false; }
  std::optional<VolumeHealth> Look(const VolumeSpec&, Deadline) override { return std::nullopt; }
  Status RemoveOrphans(const std::function<bool(const std::string& volume_id)>&) override { return Status(); }
  Status TakeOutTrash() override { return Status(); }

 private:
  Result<uint64_t> SizeOf(const VolumeSpec& spec) const;
  Status PutPlugin(const std::string& folder);

  const TraceVolumeOptions options_;
  const FileSystem& files_;
  VolumeHost& host_;
};

Result<uint64_t> TraceVolume::SizeOf(const VolumeSpec& spec) const {
  if (spec.is_read_only) return InvalidArgumentError("readOnly: a trace volume is written by the training process");
  uint64_t size = options_.size.bytes;
  for (const auto& [key, value] : spec.attributes) {
    if (key != "size") {
      return InvalidArgumentError(fmt::format("unknown attribute \"{}\": a trace volume has type and size", key));
    }
    Result<int64_t> given = api::ParseQuantity(value);
    if (!given.ok()) return InvalidArgumentError("attribute size: " + given.status().message());
    if (*given < kSmallestBytes) {
      return InvalidArgumentError(fmt::format("attribute size: \"{}\" is less than {} bytes", value, kSmallestBytes));
    }
    size = static_cast<uint64_t>(*given);
  }
  return size;
}

// Replaced in one step, so that a process that has an older one open keeps it.
Status TraceVolume::PutPlugin(const std::string& folder) {
  const Result<std::string> plugin = files_.ReadFile(options_.plugin, kMaxPluginBytes);
  if (!plugin.ok()) {
    return UnavailableError("trace volume: this agent has no NCCL plugin: " + plugin.status().message());
  }
  const std::string path = fmt::format("{}/{}", folder, api::kTracePluginName);
  const Result<std::string> there = host_.ReadFile(path);
  if (there.ok() && *there == *plugin) return Status();
  return host_.WriteFile(path, *plugin, kPluginMode);
}

Status TraceVolume::Publish(const VolumeSpec& spec, Deadline /*deadline: nothing here waits*/) {
  ASSIGN_OR_RETURN(const uint64_t size, SizeOf(spec));
  const std::string& target = spec.target.path;
  ASSIGN_OR_RETURN(std::optional<MountEntry> mounted, host_.MountAt(target));
  if (!mounted || mounted->fs_type != "tmpfs" || mounted->source != kTraceSource) {
    if (mounted) RETURN_IF_ERROR(host_.Unmount(target));
    RETURN_IF_ERROR(host_.MakeDirectory(target, kMountPointMode));
    RETURN_IF_ERROR(host_.MountTmpfs(target, {.source = kTraceSource, .size_bytes = size}));
  }
  return PutPlugin(target);
}

Status TraceVolume::Unpublish(const VolumeSpec& spec, Deadline /*deadline: nothing here waits*/) {
  RETURN_IF_ERROR(host_.Unmount(spec.target.path));
  return host_.RemoveDirectory(spec.target.path);
}

}  // namespace

std::unique_ptr<VolumeType> NewTraceVolume(TraceVolumeOptions options, const FileSystem& files, VolumeHost& host) {
  return std::make_unique<TraceVolume>(std::move(options), files, host);
}

}  // namespace paceline::agent
