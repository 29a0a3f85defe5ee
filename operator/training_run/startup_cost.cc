#include "operator/training_run/startup_cost.h"

#include <algorithm>
#include <charconv>

#include "operator/webhook/injection.h"

namespace paceline::operator_ {
namespace {

// From getting a node to the first step; zero for a worker without a node.
Duration TimeHeld(const std::vector<StageSpan>& spans, std::optional<WallTime> open_until) {
  const auto first = std::find_if(spans.begin(), spans.end(),
                                  [](const StageSpan& span) { return span.stage > StageName::kScheduling; });
  if (first == spans.end()) return Duration::zero();
  const StageSpan& last = spans.back();
  const WallTime until = last.end.value_or(open_until.value_or(last.begin));
  return std::max<Duration>(until - first->begin, Duration::zero());
}

}  // namespace

api::StartupCost ComputeStartupCost(const std::vector<WorkerHolding>& workers, api::StartKind kind,
                                    std::optional<WallTime> open_until) {
  api::StartupCost cost;
  cost.kind = kind;
  int64_t gpus = 0;
  double gpu_seconds = 0;
  bool knows_gpus = !workers.empty();
  for (const WorkerHolding& worker : workers) {
    const double held = ToSeconds(TimeHeld(*worker.spans, open_until));
    cost.worker_seconds += held;
    knows_gpus = knows_gpus && worker.gpus.has_value();
    gpus += worker.gpus.value_or(0);
    gpu_seconds += held * static_cast<double>(worker.gpus.value_or(0));
  }
  if (knows_gpus) {
    cost.gpus = gpus;
    cost.gpu_seconds = gpu_seconds;
  }
  return cost;
}

api::StartKind KindOfStart(const std::vector<std::string>& nodes, const std::vector<std::string>& nodes_before) {
  const bool is_hot =
      !nodes.empty() && std::includes(nodes_before.begin(), nodes_before.end(), nodes.begin(), nodes.end());
  return is_hot ? api::StartKind::kHotRestart : api::StartKind::kFull;
}

std::optional<int64_t> GpusOf(const kube::PodView& pod) {
  const std::string_view text = pod.meta.annotations.Get(kGpusAnnotation);
  int64_t gpus = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gpus);
  if (error != std::errc() || end != text.data() + text.size() || gpus < 0) return std::nullopt;
  return gpus;
}

}  // namespace paceline::operator_
