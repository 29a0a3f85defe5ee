// A paceline-holder in memory, whose mounts appear in a MemoryMounts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/csi/holder_client.h"
#include "tests/agent/memory_mounts.h"

namespace paceline::agent {

// A holder whose processes mount at once, with a new device for each of them.
class FakeHolder {
 public:
  FakeHolder(MemoryMounts& mounts, std::string mount_root) : mounts_(mounts), mount_root_(std::move(mount_root)) {}

  Result<HeldMount> Start(const MountOrder& order) {
    if (!is_there) return UnavailableError("no holder");
    const bool is_refused = is_old ? !order.environment.empty() : order.environment.contains(refused_variable);
    if (is_refused) return PermissionDeniedError("a variable that may not be set");
    orders.push_back(order);
    const auto found = held.find(order.name);
    if (found != held.end()) {
      if (found->second.arguments == order.arguments) return found->second.mount;
      return AlreadyExistsError("other settings");
    }
    Held& entry = held[order.name];
    entry.arguments = order.arguments;
    entry.mount = {.name = order.name, .owner = order.owner, .state = next_state, .log = log};
    entry.mount.last_exit = next_state == HeldState::kFailed ? "exit code 1" : "";
    entry.mount.mount_point = mount_root_ + "/" + order.name;
    entry.mount.control_socket = "/control/" + order.name;
    if (next_state == HeldState::kMounted) Mount(entry.mount);
    return entry.mount;
  }
  void Mount(HeldMount& mount) {
    mounts_.DropMount(mount.mount_point);
    mounts_.AddMount({mount.mount_point, "/", fs_type, "hdfs://h/a", false, "0:" + std::to_string(++next_device)});
    mount.state = HeldState::kMounted;
  }
  void DieAndComeBack(const std::string& name) {
    HeldMount& mount = held.at(name).mount;
    ++mount.restarts;
    mount.last_exit = "signal 9";
    Mount(mount);
  }
  Result<std::optional<HeldMount>> Look(const std::string& name) {
    if (!is_there) return UnavailableError("no holder");
    const auto found = held.find(name);
    return found == held.end() ? std::optional<HeldMount>() : std::optional(found->second.mount);
  }
  Result<std::optional<HeldMount>> Stop(const std::string& name) {
    ASSIGN_OR_RETURN(std::optional<HeldMount> mount, Look(name));
    if (mount) mounts_.DropMount(mount->mount_point);
    held.erase(name);
    if (mount) mount->state = HeldState::kEnded;
    return mount;
  }

  struct Held {
    HeldMount mount;
    std::vector<std::string> arguments;
  };
  bool is_there = true;
  bool is_old = false;           // takes no environment
  std::string refused_variable;  // one that came after it
  HeldState next_state = HeldState::kMounted;
  std::vector<std::string> log;
  std::string stats = "{}";
  std::string fs_type = "fuse.paceline-hdfs";
  std::vector<MountOrder> orders;
  std::map<std::string, Held> held;
  int next_device = 50;

 private:
  MemoryMounts& mounts_;
  const std::string mount_root_;
};

class FakeHolderClient final : public HolderClient {
 public:
  explicit FakeHolderClient(FakeHolder& holder) : holder_(holder) {}
  Result<HeldMount> Start(const MountOrder& order, Deadline) override { return holder_.Start(order); }
  Result<std::optional<HeldMount>> Stop(const std::string& name, Deadline) override { return holder_.Stop(name); }
  Result<std::optional<HeldMount>> Look(const std::string& name, Deadline) override { return holder_.Look(name); }
  Result<std::vector<HeldMount>> List(Deadline) override {
    if (!holder_.is_there) return UnavailableError("no holder");
    std::vector<HeldMount> mounts;
    for (const auto& [name, held] : holder_.held) mounts.push_back(held.mount);
    return mounts;
  }
  Result<std::string> AskMount(const std::string&, const std::string&, Deadline) override { return holder_.stats; }

 private:
  FakeHolder& holder_;
};

}  // namespace paceline::agent
