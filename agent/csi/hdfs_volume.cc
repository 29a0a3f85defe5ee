#include "agent/csi/hdfs_volume.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/csi/held_mounts.h"
#include "lib/base/json.h"

namespace paceline::agent {
namespace {

constexpr std::string_view kNamePrefix = "hdfs-";

std::optional<WallTime> TimeIn(const Json& stats, std::string_view field) {
  const Result<std::string> text = JsonString(stats, field);
  const Result<WallTime> time = text.ok() ? ParseRfc3339(*text) : text.status();
  return time.ok() ? std::optional(*time) : std::nullopt;
}

class HdfsVolume final : public VolumeType {
 public:
  HdfsVolume(HdfsOptions options, std::unique_ptr<HolderClient> holder, VolumeHost& host, const Clock& clock,
             Logger& log)
      : options_(std::move(options)), holder_(std::move(holder)), host_(host), clock_(clock), log_(log) {}

  std::string_view name() const override { return "hdfs"; }
  bool serves_persistent() const override { return true; }
  Status Validate(const VolumeSpec& spec) const override { return MakeHdfsOrder(spec, options_.rules).status(); }
  Status Publish(const VolumeSpec& spec, Deadline deadline) override;
  Status Unpublish(const VolumeSpec& spec, Deadline deadline) override;
  std::optional<VolumeHealth> Look(const VolumeSpec& spec, Deadline deadline) override;
  Status RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) override;
  Status TakeOutTrash() override { return Status(); }

 private:
  Result<HeldMount> AskForMount(const VolumeSpec& spec, Deadline deadline);
  Status AwaitEnded(const std::string& name, Deadline deadline);
  void ReadStats(const HeldMount& mount, Deadline deadline, MountFigures* figures);

  const HdfsOptions options_;
  const std::unique_ptr<HolderClient> holder_;
  VolumeHost& host_;
  const Clock& clock_;
  Logger& log_;
};

Status HdfsVolume::Publish(const VolumeSpec& spec, Deadline deadline) {
  const Deadline limit = deadline.Min(Deadline::After(clock_, options_.mount_limit));
  ASSIGN_OR_RETURN(HeldMount mount, AskForMount(spec, limit));
  ASSIGN_OR_RETURN(mount, AwaitHeld(*holder_, std::move(mount), "the NameNode may not answer", clock_, limit));
  return BindHeld(host_, spec.target.path, mount);
}

Result<HeldMount> HdfsVolume::AskForMount(const VolumeSpec& spec, Deadline deadline) {
  const std::string name = HdfsMountName(spec.volume_id);
  if (spec.has_secrets && spec.secrets.empty()) {
    // The Secret is not kept here. kubelet brings it with each of its calls, and it calls again and again.
    ASSIGN_OR_RETURN(std::optional<HeldMount> known, holder_->Look(name, deadline));
    if (IsHeld(known)) return *std::move(known);
    return UnavailableError("the mount is gone, and its Secret comes with kubelet's next call");
  }
  ASSIGN_OR_RETURN(const MountOrder order, MakeHdfsOrder(spec, options_.rules));
  Result<HeldMount> mount = holder_->Start(order, deadline);
  if (mount.status().code() != StatusCode::kAlreadyExists) return mount;
  // It runs with what an agent of another version would say; a running mount stays as it is.
  ASSIGN_OR_RETURN(std::optional<HeldMount> known, holder_->Look(name, deadline));
  if (IsHeld(known)) return *std::move(known);
  return mount;
}

Status HdfsVolume::Unpublish(const VolumeSpec& spec, Deadline deadline) {
  RETURN_IF_ERROR(host_.Unmount(spec.target.path));
  RETURN_IF_ERROR(host_.RemoveDirectory(spec.target.path));
  const std::string name = HdfsMountName(spec.volume_id);
  Result<std::optional<HeldMount>> stopped = holder_->Stop(name, deadline);
  if (!stopped.ok()) {
    // Every type is asked about a volume that has no record; without attributes it need not be one of ours.
    const bool may_be_foreign = spec.attributes.empty() && stopped.status().code() == StatusCode::kUnavailable;
    return may_be_foreign ? Status() : stopped.status();
  }
  if (!*stopped) return Status();
  return AwaitEnded(name, deadline);
}

// SIGTERM makes the mount write out what it holds. kubelet asks again when that takes longer than it waits.
Status HdfsVolume::AwaitEnded(const std::string& name, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::optional<HeldMount> mount, AwaitHeldEnd(*holder_, name, clock_, deadline));
  if (!mount) return Status();
  const bool is_clean = mount->last_exit.empty() || mount->last_exit == "exit code 0";
  if (!is_clean) {
    log_.Error("mount ended badly, data may be missing", {{"volume", mount->owner}, {"error", ReasonOf(*mount)}});
  }
  return Status();
}

std::optional<VolumeHealth> HdfsVolume::Look(const VolumeSpec& spec, Deadline deadline) {
  VolumeHealth health;
  MountFigures& figures = health.figures;
  const Result<std::optional<HeldMount>> answer = holder_->Look(HdfsMountName(spec.volume_id), deadline);
  if (!answer.ok()) {
    figures.state = "Unknown";
    figures.message = answer.status().message();
    return health;
  }
  if (!IsHeld(*answer)) {
    figures.state = "Failed";
    figures.message = "no process serves the mount";
    health.needs_mending = true;
    return health;
  }
  const HeldMount& mount = **answer;
  figures.restarts = mount.restarts;
  if (mount.restarts > 0 || !mount.last_exit.empty()) {
    figures.message = fmt::format(
        "the mount process ended ({}) and was started again {} times: what programs had open is lost to them, and "
        "containers without mountPropagation HostToContainer must be restarted",
        mount.last_exit, mount.restarts);
  }
  figures.state = mount.state == HeldState::kMounted ? "Mounted" : "Restarting";
  if (mount.state == HeldState::kFailed) figures.state = "Failed";
  if (mount.state != HeldState::kMounted) {
    if (mount.state == HeldState::kFailed) figures.message = ReasonOf(mount);
    health.needs_mending = mount.state == HeldState::kFailed;
    return health;
  }
  ReadStats(mount, deadline, &figures);
  const Result<bool> is_bound = IsBound(host_, spec.target.path, mount);
  health.needs_mending = !is_bound.ok() || !*is_bound;
  return health;
}

void HdfsVolume::ReadStats(const HeldMount& mount, Deadline deadline, MountFigures* figures) {
  const Result<std::string> text = holder_->AskMount(mount.control_socket, "stats", deadline);
  const Result<Json> stats = text.ok() ? ParseJson(*text) : text.status();
  if (!stats.ok()) return;  // it has just mounted, or is busy; the next look is soon
  figures->read_bytes = JsonIntOr(*stats, "readBytes", 0).value_or(0);
  figures->written_bytes = JsonIntOr(*stats, "writtenBytes", 0).value_or(0);
  figures->first_read_at = TimeIn(*stats, "firstReadAt");
  figures->last_read_at = TimeIn(*stats, "startReadEndAt");
}

Status HdfsVolume::RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) {
  constexpr Duration kListLimit = std::chrono::seconds(5);
  const Deadline deadline = Deadline::After(clock_, kListLimit);
  const Result<std::vector<HeldMount>> held = holder_->List(deadline);
  // Without a holder nothing is mounted.
  if (held.status().code() == StatusCode::kUnavailable) return Status();
  if (!held.ok()) return held.status();
  ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, host_.Mounts());
  Status first_failure;
  for (const HeldMount& mount : *held) {
    if (mount.name.compare(0, kNamePrefix.size(), kNamePrefix) != 0 || is_known(mount.owner)) continue;
    // A record that got lost must not cost a running pod its files: one bound somewhere else is in use.
    const std::optional<MountEntry> served = FindMount(mounts, mount.mount_point);
    bool is_in_use = false;
    for (const MountEntry& entry : mounts) {
      is_in_use = is_in_use || (served && entry.device == served->device && entry.mount_point != mount.mount_point);
    }
    if (is_in_use) continue;
    const Status stopped = holder_->Stop(mount.name, deadline).status();
    if (!stopped.ok() && first_failure.ok()) first_failure = stopped;
  }
  return first_failure;
}

}  // namespace

std::unique_ptr<VolumeType> NewHdfsVolume(HdfsOptions options, std::unique_ptr<HolderClient> holder, VolumeHost& host,
                                          const Clock& clock, Logger& log) {
  return std::make_unique<HdfsVolume>(std::move(options), std::move(holder), host, clock, log);
}

}  // namespace paceline::agent
