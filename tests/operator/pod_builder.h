// Pods, events and times for the tests of the operator's pure parts.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "lib/kube/views.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

inline const WallTime kTestBase{std::chrono::seconds(1767323040)};
inline WallTime AtMs(int64_t ms) { return kTestBase + std::chrono::milliseconds(ms); }
inline WallTime SecondOf(WallTime at) { return std::chrono::floor<std::chrono::seconds>(at); }

// An event as kubelet's recorder writes it: whole seconds in its fields, nanoseconds in its name.
inline EventPointer KubeletEvent(std::string_view reason, std::string_view message, WallTime at,
                                 std::string_view container = "main", std::string_view pod = "pod") {
  kube::EventView event;
  event.meta.name = fmt::format("{}.{:x}", pod, at.time_since_epoch().count());
  event.involved_object.kind = "Pod";
  event.involved_object.name = pod;
  if (!container.empty()) event.involved_object.field_path = fmt::format("spec.containers{{{}}}", container);
  event.reason = reason;
  event.message = message;
  event.first_time = event.last_time = SecondOf(at);
  event.count = 1;
  return std::make_shared<const kube::EventView>(event);
}

inline EventPointer ScheduledEvent(WallTime at) {
  kube::EventView event;
  event.meta.name = "pod.x";
  event.reason = "Scheduled";
  event.event_time = at;
  return std::make_shared<const kube::EventView>(event);
}

// A pod with one container "main".
class PodBuilder {
 public:
  explicit PodBuilder(std::string_view name, WallTime created = AtMs(0)) {
    pod_.meta.name = name;
    pod_.meta.ns = "team";
    pod_.meta.uid = fmt::format("uid-{}", name);
    pod_.meta.creation_time = SecondOf(created);
    pod_.spec.containers.push_back({"main", "image", ""});
    pod_.status.phase = "Pending";
  }
  PodBuilder& On(std::string_view node, WallTime at) {
    pod_.spec.node_name = node;
    pod_.status.conditions.push_back({"PodScheduled", "True", "", "", SecondOf(at)});
    return *this;
  }
  PodBuilder& Unschedulable(std::string_view message) {
    pod_.status.conditions.push_back({"PodScheduled", "False", "Unschedulable", message, kube::kNoTime});
    return *this;
  }
  PodBuilder& Waiting(std::string_view reason, std::string_view message) {
    kube::ContainerStatus status;
    status.name = "main";
    status.state.waiting = kube::ContainerWaiting{reason, message};
    pod_.status.containers = {status};
    return *this;
  }
  PodBuilder& Started(WallTime at) {
    kube::ContainerStatus status;
    status.name = "main";
    status.state.running = kube::ContainerRunning{SecondOf(at)};
    pod_.status.containers = {status};
    pod_.status.phase = "Running";
    return *this;
  }
  PodBuilder& Ended(int exit_code, WallTime started, WallTime finished, std::string_view reason = "Error") {
    kube::ContainerStatus status;
    status.name = "main";
    status.state.terminated = kube::ContainerTerminated{
        exit_code, 0, exit_code == 0 ? "Completed" : reason, "", SecondOf(started), SecondOf(finished)};
    pod_.status.containers = {status};
    pod_.status.phase = exit_code == 0 ? "Succeeded" : "Failed";
    return *this;
  }
  PodBuilder& Annotate(std::string_view key, std::string_view value) {
    pod_.meta.annotations.Set(key, value);
    return *this;
  }
  kube::PodView& view() { return pod_; }
  std::shared_ptr<const kube::PodView> Build() const { return std::make_shared<const kube::PodView>(pod_); }

 private:
  kube::PodView pod_;
};

}  // namespace paceline::operator_
