#include "agent/csi/held_mounts.h"

#include <fmt/format.h>

namespace paceline::agent {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(50);
constexpr size_t kMaxReasonBytes = 600;  // events hold 1024, and others want room too

}  // namespace

// FNV-1a: the ids already are digests, or a few names that an administrator gave.
std::string HeldMountName(std::string_view kind, const std::string& volume_id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : volume_id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}-{:016x}", kind, hash);
}

std::string ReasonOf(const HeldMount& mount) {
  constexpr std::string_view kError = " error=\"";
  std::string reason;
  for (const std::string& line : mount.log) {
    const size_t at = line.find(kError);
    if (at != std::string::npos) reason = line.substr(at + kError.size());
  }
  if (!reason.empty() && reason.back() == '"') reason.pop_back();
  if (reason.empty() && !mount.log.empty()) reason = mount.log.back();
  if (reason.size() > kMaxReasonBytes) reason.resize(kMaxReasonBytes);
  return fmt::format("{}{}{}", mount.last_exit, reason.empty() ? "" : ": ", reason);
}

Result<HeldMount> AwaitHeld(HolderClient& holder, HeldMount mount, std::string_view why_slow, const Clock& clock,
                            Deadline deadline) {
  const std::string name = mount.name;
  while (mount.state == HeldState::kStarting) {
    if (deadline.Expired(clock)) {
      return DeadlineExceededError(
          fmt::format("the mount is not there yet; {}{}", why_slow, mount.log.empty() ? "" : ": " + mount.log.back()));
    }
    clock.SleepFor(kPoll, {});
    ASSIGN_OR_RETURN(std::optional<HeldMount> now, holder.Look(name, deadline));
    if (!now) return AbortedError("the mount was stopped while it started");
    mount = *std::move(now);
  }
  if (mount.state == HeldState::kMounted) return mount;
  if (mount.state == HeldState::kFailed) return UnavailableError("cannot mount: " + ReasonOf(mount));
  if (mount.state == HeldState::kBackingOff) {
    return UnavailableError("the mount process died and is started again: " + ReasonOf(mount));
  }
  return AbortedError("the mount is being stopped");
}

Result<std::optional<HeldMount>> AwaitHeldEnd(HolderClient& holder, const std::string& name, const Clock& clock,
                                              Deadline deadline) {
  while (true) {
    ASSIGN_OR_RETURN(std::optional<HeldMount> mount, holder.Look(name, deadline));
    if (!mount || mount->state == HeldState::kEnded) return mount;
    if (deadline.Expired(clock)) return DeadlineExceededError("the mount is still writing out");
    clock.SleepFor(kPoll, {});
  }
}

Result<bool> IsBound(VolumeHost& host, const std::string& target, const HeldMount& mount) {
  ASSIGN_OR_RETURN(const std::optional<MountEntry> served, host.MountAt(mount.mount_point));
  if (!served) {
    return UnavailableError(
        fmt::format("the mount at {} is not visible to the agent: both need kubelet's folder with "
                    "mountPropagation: Bidirectional",
                    mount.mount_point));
  }
  ASSIGN_OR_RETURN(const std::optional<MountEntry> shown, host.MountAt(target));
  return shown && shown->device == served->device;
}

Status BindHeld(VolumeHost& host, const std::string& target, const HeldMount& mount) {
  ASSIGN_OR_RETURN(const bool is_bound, IsBound(host, target, mount));
  if (is_bound) return Status();
  ASSIGN_OR_RETURN(const std::optional<MountEntry> below, host.MountAt(target));
  // What is mounted there is our dead mount: the new one goes over it.
  if (!below) RETURN_IF_ERROR(host.MakeDirectory(target, kMountPointMode));
  return host.BindMount(mount.mount_point, target);
}

}  // namespace paceline::agent
