// What the time before the first step cost: how long workers held their nodes and GPUs until training began. Pure;
// caller: run_status.cc.
//
// A worker holds its node from the moment it is scheduled. Waiting in a queue costs nobody a GPU and is not counted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/api/training_run.h"
#include "lib/kube/views.h"
#include "operator/training_run/stages.h"

namespace paceline::operator_ {

struct WorkerHolding {
  const std::vector<StageSpan>* spans = nullptr;  // borrowed, never null
  std::optional<int64_t> gpus;                    // empty: not known
};

// `open_until` is now while the startup goes on. Empty when it is over and a worker's first step was not seen: that
// worker counts until its last known instant only, since what came after may have been training.
api::StartupCost ComputeStartupCost(const std::vector<WorkerHolding>& workers, api::StartKind kind,
                                    std::optional<WallTime> open_until);

// HotRestart when every node of this start is among those of the start before; both lists sorted. A start without nodes
// yet, or without one before, is Full.
api::StartKind KindOfStart(const std::vector<std::string>& nodes, const std::vector<std::string>& nodes_before);

// GPUs of a pod as the webhook wrote them down; empty when it did not.
std::optional<int64_t> GpusOf(const kube::PodView& pod);

}  // namespace paceline::operator_
