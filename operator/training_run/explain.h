// Why a worker does not start, or why it ended badly, in a word for machines and a sentence for people: the one place
// that knows Kubernetes' reasons and what a user can do about them. Pure; callers: run status, TrainingJob status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {

struct Explanation {
  std::string reason;   // CamelCase: "Unschedulable", "ImagePullBackOff", "OOMKilled", ...
  std::string message;  // names the pod, the container and what the system said

  friend bool operator==(const Explanation&, const Explanation&) = default;
};

// What holds the worker up before its containers run; empty when nothing is known to.
std::optional<Explanation> WhyNotStarted(const kube::PodView& pod, const std::vector<EventPointer>& events);

// Why the pod failed; empty unless it has (or one of its containers ended with an error).
std::optional<Explanation> WhyFailed(const kube::PodView& pod);

}  // namespace paceline::operator_
