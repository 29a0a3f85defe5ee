#include "operator/training_run/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "operator/messages.h"

namespace paceline::operator_ {
namespace {

// Waiting reasons that are part of every start.
constexpr std::array<std::string_view, 2> kOrdinaryWaits = {"ContainerCreating", "PodInitializing"};

Explanation Held(std::string_view reason, const std::string& what) {
  return {std::string(reason), api::Say(PodHeldAdvice(reason), what)};
}

Explanation Failed(std::string_view reason, const std::string& what) {
  return {std::string(reason), api::Say(FailureAdvice(reason), what)};
}

std::optional<Explanation> ContainerWait(std::string_view pod, const std::vector<kube::ContainerStatus>& statuses) {
  for (const kube::ContainerStatus& status : statuses) {
    if (!status.state.waiting) continue;
    const std::string_view reason = status.state.waiting->reason;
    if (reason.empty() || std::find(kOrdinaryWaits.begin(), kOrdinaryWaits.end(), reason) != kOrdinaryWaits.end())
      continue;
    return Held(reason, fmt::format("pod {}, container {}: {}: {}", pod, status.name.view(), reason,
                                    status.state.waiting->message.view()));
  }
  return std::nullopt;
}

// The latest warning about volumes or the sandbox: kubelet tells these only by events.
std::optional<Explanation> LatestWarning(const kube::PodView& pod, const std::vector<EventPointer>& events) {
  constexpr std::array<std::string_view, 4> kReasons = {"FailedMount", "FailedAttachVolume", "FailedMapVolume",
                                                        "FailedCreatePodSandBox"};
  const kube::EventView* latest = nullptr;
  for (const EventPointer& event : events) {
    if (std::find(kReasons.begin(), kReasons.end(), event->reason.view()) == kReasons.end()) continue;
    if (latest == nullptr || event->When() > latest->When()) latest = event.get();
  }
  if (latest == nullptr) return std::nullopt;
  return Held(latest->reason,
              fmt::format("pod {}: {}: {}", pod.meta.name.view(), latest->reason.view(), latest->message.view()));
}

std::optional<Explanation> ContainerFailure(std::string_view pod, const kube::ContainerStatus& status) {
  const auto& ended = status.state.terminated ? status.state.terminated : status.last_state.terminated;
  if (!ended || (ended->exit_code == 0 && ended->signal == 0)) return std::nullopt;
  const std::string_view reason = ended->reason == "OOMKilled" ? "OOMKilled" : "ContainerFailed";
  std::string how = ended->signal != 0 ? fmt::format("ended by signal {}", ended->signal)
                                       : fmt::format("ended with exit code {}", ended->exit_code);
  // The shell's and the kernel's ways to say "killed by a signal".
  if (ended->signal == 0 && ended->exit_code > 128 && ended->exit_code < 128 + 65) {
    how += fmt::format(" (signal {})", ended->exit_code - 128);
  }
  if (reason == "OOMKilled") how = "was killed for using more memory than its limit";
  std::string text = fmt::format("pod {}, container {} {}", pod, status.name.view(), how);
  if (!ended->message.empty()) text += fmt::format(": {}", ended->message.view());
  return Failed(reason, text);
}

}  // namespace

std::optional<Explanation> WhyNotStarted(const kube::PodView& pod, const std::vector<EventPointer>& events) {
  if (IsFinished(pod) || HasStarted(pod)) return std::nullopt;
  const std::string_view name = pod.meta.name;
  const kube::Condition* scheduled = kube::FindCondition(pod.status.conditions, "PodScheduled");
  if (pod.spec.node_name.empty()) {
    if (scheduled == nullptr || scheduled->status == "True" || scheduled->reason.empty()) return std::nullopt;
    return Held(scheduled->reason, fmt::format("pod {}: {}", name, scheduled->message.view()));
  }
  if (auto wait = ContainerWait(name, pod.status.init_containers)) return wait;
  if (auto wait = ContainerWait(name, pod.status.containers)) return wait;
  return LatestWarning(pod, events);
}

std::optional<Explanation> WhyFailed(const kube::PodView& pod) {
  const std::string_view name = pod.meta.name;
  // The container that was killed tells more than its neighbours that ended because of it.
  std::optional<Explanation> failure;
  for (const auto* statuses : {&pod.status.init_containers, &pod.status.containers}) {
    for (const kube::ContainerStatus& status : *statuses) {
      auto candidate = ContainerFailure(name, status);
      if (candidate && (!failure || candidate->reason == "OOMKilled")) failure = std::move(candidate);
    }
  }
  if (pod.status.phase != "Failed") return failure;
  const kube::Condition* disrupted = kube::FindCondition(pod.status.conditions, "DisruptionTarget");
  if (disrupted != nullptr && disrupted->status == "True") {
    return Failed(disrupted->reason, fmt::format("pod {} was removed from node {}: {}", name, pod.spec.node_name.view(),
                                                 disrupted->message.view()));
  }
  if (!pod.status.reason.empty()) {
    return Failed(pod.status.reason,
                  fmt::format("pod {}: {}: {}", name, pod.status.reason.view(), pod.status.message.view()));
  }
  if (failure) return failure;
  return Failed("PodFailed", fmt::format("pod {} failed", name));
}

}  // namespace paceline::operator_
