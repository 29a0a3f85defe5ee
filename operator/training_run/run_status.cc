#include "operator/training_run/run_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/api/codec.h"
#include "operator/messages.h"
#include "operator/training_run/dependency_use.h"
#include "operator/training_run/explain.h"
#include "operator/training_run/run_images.h"
#include "operator/training_run/stage_summary.h"
#include "operator/training_run/startup_cost.h"

namespace paceline::operator_ {
namespace {

using api::ConditionStatus;
using api::RunPhase;

// One worker with everything that was worked out for it.
struct Worker {
  const WorkerInput* input;  // null: the pod is gone, known from the status alone
  WorkerSpans times;

  bool HasFirstStep() const { return StartupTime(times.spans).has_value(); }
};

const api::WorkerTimes* FindReported(const api::TrainingRunStatus& status, std::string_view pod) {
  const auto found = std::find_if(status.workers.begin(), status.workers.end(),
                                  [&](const api::WorkerTimes& times) { return times.pod == pod; });
  return found == status.workers.end() ? nullptr : &*found;
}

std::vector<StageSpan> SpansOf(const api::WorkerTimes& reported, const api::TrainingRunStatus& status) {
  std::vector<StageSpan> spans;
  for (const api::WorkerStage& stage : reported.stages) {
    if (!stage.start) continue;
    StageSpan span{stage.name, *stage.start, stage.end, StageSource::kEvent, {}};
    for (const api::Stage& summary : status.stages) {
      if (summary.name == stage.name && summary.source) span.source = *summary.source;
    }
    spans.push_back(std::move(span));
  }
  return spans;
}

std::vector<Worker> BuildWorkers(const RunInput& input) {
  std::vector<Worker> workers;
  std::set<int64_t> ranks;
  for (const WorkerInput& in : input.workers) {
    const api::WorkerTimes* reported = FindReported(input.before, in.pod->meta.name);
    Worker worker{&in,
                  {in.rank.value_or(-1), in.pod->meta.name.str(), in.pod->spec.node_name.str(),
                   ComputeStages(MomentsOf(in, input.start, reported))}};
    if (in.rank) ranks.insert(*in.rank);
    workers.push_back(std::move(worker));
  }
  // Pods that are gone keep their times, unless another pod has taken their place.
  for (const api::WorkerTimes& reported : input.before.workers) {
    const bool is_here = std::any_of(workers.begin(), workers.end(),
                                     [&](const Worker& worker) { return worker.times.pod == reported.pod; });
    if (is_here || ranks.count(reported.rank) > 0) continue;
    workers.push_back({nullptr, {reported.rank, reported.pod, reported.node, SpansOf(reported, input.before)}});
  }
  std::sort(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
    return std::tie(a.times.rank, a.times.pod) < std::tie(b.times.rank, b.times.pod);
  });
  return workers;
}

// Places of the workers that are kept one by one. When there are too many these are the first ranks, and whatever their
// rank those that everybody waited for: the slowest of each stage, and the last to take its first step.
std::set<size_t> KeptPlaces(const std::vector<Worker>& workers, const std::vector<api::Stage>& stages) {
  std::set<size_t> kept;
  std::optional<size_t> last;
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerSpans& times = workers[i].times;
    const bool is_slowest =
        std::any_of(stages.begin(), stages.end(), [&](const api::Stage& s) { return s.slowest_pod == times.pod; });
    if (is_slowest) kept.insert(i);
    if (!workers[i].HasFirstStep()) continue;
    if (!last || *times.spans.back().end > *workers[*last].times.spans.back().end) last = i;
  }
  if (last) kept.insert(*last);
  for (size_t i = 0; i < workers.size() && kept.size() < api::kMaxWorkerTimes; ++i) kept.insert(i);
  return kept;
}

// After the summaries, of which it takes the slowest.
void AddWorkerTimes(const std::vector<Worker>& workers, const api::TrainingRunStatus& before,
                    api::TrainingRunStatus& status) {
  for (const size_t place : KeptPlaces(workers, status.stages)) {
    const Worker& worker = workers[place];
    api::WorkerTimes times{worker.times.rank, worker.times.pod, worker.times.node, {}, std::nullopt};
    if (times.rank < 0) times.rank = static_cast<int64_t>(place);  // the kind has no ranks: any order will do
    if (worker.input != nullptr) times.dependencies = DependenciesOf(*worker.input);
    const api::WorkerTimes* reported = FindReported(before, times.pod);
    if (!times.dependencies && reported != nullptr) times.dependencies = reported->dependencies;
    for (const StageSpan& span : worker.times.spans) times.stages.push_back({span.stage, span.begin, span.end});
    status.workers.push_back(std::move(times));
  }
  // Those beyond the list are known from the last status alone once their pods are gone.
  const auto known_before = static_cast<int64_t>(before.workers.size()) + before.workers_omitted;
  status.workers_omitted =
      std::max(static_cast<int64_t>(workers.size()), known_before) - static_cast<int64_t>(status.workers.size());
}

// A summary over fewer workers than before says less, not more: pods beyond those kept one by one are gone.
void KeepFullerSummaries(const api::TrainingRunStatus& before, std::vector<api::Stage>& stages) {
  for (const api::Stage& old : before.stages) {
    const auto found =
        std::find_if(stages.begin(), stages.end(), [&](const api::Stage& s) { return s.name == old.name; });
    if (found == stages.end()) {
      stages.push_back(old);
    } else if (old.workers > found->workers) {
      *found = old;
    }
  }
  std::sort(stages.begin(), stages.end(), [](const api::Stage& a, const api::Stage& b) { return a.name < b.name; });
}

std::vector<std::string> NodesOf(const std::vector<Worker>& workers, const api::TrainingRunStatus& before) {
  std::set<std::string> nodes(before.nodes.begin(), before.nodes.end());
  for (const Worker& worker : workers) {
    if (!worker.times.node.empty()) nodes.insert(worker.times.node);
  }
  std::vector<std::string> list(nodes.begin(), nodes.end());
  if (list.size() > api::kMaxRunNodes) list.resize(api::kMaxRunNodes);
  return list;
}

// How many of a kind of fact there are among the workers.
struct Tally {
  int64_t present = 0, scheduled = 0, started = 0, finished = 0, failed = 0, first_steps = 0;
  bool has_markers = false;       // any worker wrote any
  bool can_have_markers = false;  // any worker could
  std::optional<WallTime> first_start, last_start, last_end;
};

void CountContainers(const kube::PodView& pod, Tally& tally) {
  for (const kube::ContainerStatus& status : pod.status.containers) {
    if (const auto start = FirstStart(status)) {
      tally.first_start = tally.first_start ? std::min(*tally.first_start, *start) : *start;
      tally.last_start = tally.last_start ? std::max(*tally.last_start, *start) : *start;
    }
    if (status.state.terminated && status.state.terminated->finished_at != kube::kNoTime) {
      const WallTime end = status.state.terminated->finished_at;
      tally.last_end = tally.last_end ? std::max(*tally.last_end, end) : end;
    }
  }
}

Tally Count(const std::vector<Worker>& workers) {
  Tally tally;
  for (const Worker& worker : workers) {
    tally.first_steps += worker.HasFirstStep() ? 1 : 0;
    if (worker.input == nullptr) continue;
    const kube::PodView& pod = *worker.input->pod;
    ++tally.present;
    tally.scheduled += pod.spec.node_name.empty() ? 0 : 1;
    tally.started += HasStarted(pod) ? 1 : 0;
    tally.finished += IsFinished(pod) ? 1 : 0;
    tally.failed += pod.status.phase == "Failed" ? 1 : 0;
    tally.has_markers |= !worker.input->markers.empty();
    tally.can_have_markers |= worker.input->marker_absence.empty();
    CountContainers(pod, tally);
  }
  return tally;
}

// The end as the pods tell it; empty while they do not.
std::optional<RunPhase> EndByPods(const RunInput& input, const Tally& tally) {
  if (tally.present == 0 || tally.finished < tally.present) return std::nullopt;
  if (tally.failed > 0) return RunPhase::kFailed;
  if (tally.present < input.spec.workers.value_or(tally.present)) return std::nullopt;
  return RunPhase::kSucceeded;
}

RunPhase OpenPhase(const RunInput& input, const Tally& tally, size_t known_workers) {
  const auto wanted = static_cast<size_t>(std::max<int64_t>(input.spec.workers.value_or(1), 1));
  const RunPhase before = input.before.phase.value_or(RunPhase::kPending);
  if (known_workers >= wanted && tally.first_steps >= static_cast<int64_t>(known_workers)) return RunPhase::kRunning;
  const bool all_started = tally.present >= static_cast<int64_t>(wanted) && tally.started == tally.present;
  if (all_started && !tally.has_markers) {
    const bool waited = tally.last_start && input.now - *tally.last_start >= kMarkerPatience;
    if (!tally.can_have_markers || waited) return RunPhase::kRunning;
  }
  if (before == RunPhase::kRunning) return RunPhase::kRunning;  // one worker of a running gang came back
  if (tally.scheduled > 0 || before == RunPhase::kStarting) return RunPhase::kStarting;
  return RunPhase::kPending;
}

RunPhase PhaseOf(const RunInput& input, const Tally& tally, size_t known_workers) {
  switch (input.end) {
    case JobEnd::kSucceeded: return RunPhase::kSucceeded;
    case JobEnd::kFailed: return RunPhase::kFailed;
    case JobEnd::kOpen: return OpenPhase(input, tally, known_workers);
    case JobEnd::kUnreported: return EndByPods(input, tally).value_or(OpenPhase(input, tally, known_workers));
    case JobEnd::kAbandoned: return EndByPods(input, tally).value_or(RunPhase::kUnknown);
  }
  return RunPhase::kUnknown;
}

std::string AndMore(std::string message, int64_t count) {
  if (count > 1) message += fmt::format(" (and {} more workers)", count - 1);
  return message;
}

api::Condition Progressing(const std::vector<Worker>& workers, RunPhase phase) {
  api::Condition condition;
  condition.type = kProgressingCondition;
  condition.status = ConditionStatus::kTrue;
  condition.reason = std::string(api::RunPhaseText(phase));
  if (phase == RunPhase::kSucceeded || phase == RunPhase::kFailed || phase == RunPhase::kUnknown) {
    condition.status = ConditionStatus::kFalse;
    return condition;
  }
  std::optional<Explanation> first;
  int64_t count = 0;
  for (const Worker& worker : workers) {
    if (worker.input == nullptr) continue;
    auto why = WhyNotStarted(*worker.input->pod, worker.input->events);
    if (!why) continue;
    ++count;
    if (!first) first = std::move(why);
  }
  if (first) {
    condition.status = ConditionStatus::kFalse;
    condition.reason = first->reason;
    condition.message = AndMore(first->message, count);
  }
  return condition;
}

api::Condition FirstStepSeen(const std::vector<Worker>& workers, RunPhase phase, const Tally& tally) {
  api::Condition condition;
  condition.type = kFirstStepCondition;
  const auto total = static_cast<int64_t>(workers.size());
  if (total > 0 && tally.first_steps == total) {
    condition.status = ConditionStatus::kTrue;
    condition.reason = "AllWorkers";
    return condition;
  }
  condition.status =
      phase == RunPhase::kPending || phase == RunPhase::kStarting ? ConditionStatus::kUnknown : ConditionStatus::kFalse;
  for (const Worker& worker : workers) {
    if (worker.input == nullptr || worker.HasFirstStep() || worker.input->marker_absence.empty()) continue;
    condition.reason = "NotVisible";
    condition.message = api::Say(kFirstStepNotVisible, fmt::format("first step not seen: pod {}: {}", worker.times.pod,
                                                                   worker.input->marker_absence));
    return condition;
  }
  if (condition.status == ConditionStatus::kUnknown) {
    condition.reason = "Waiting";
    return condition;
  }
  const api::Advice& advice = tally.first_steps > 0 ? kSomeMarkers : kNoMarker;
  condition.reason = advice.reason;
  condition.message =
      api::Say(advice, fmt::format("first step not seen: {} of {} workers told theirs", tally.first_steps, total));
  return condition;
}

api::Condition StageTimesKnown(const std::vector<Worker>& workers) {
  api::Condition condition;
  condition.type = kTimesCompleteCondition;
  condition.status = ConditionStatus::kTrue;
  condition.reason = "AllReported";
  int64_t count = 0;
  std::string first;
  for (const Worker& worker : workers) {
    for (const StageSpan& span : worker.times.spans) {
      if (span.contains.empty()) continue;
      if (count++ > 0) continue;
      first = fmt::format("pod {}: {} is not known, its time is in {}", worker.times.pod,
                          api::StageNameText(span.contains.front()), api::StageNameText(span.stage));
    }
  }
  if (count > 0) {
    condition.status = ConditionStatus::kFalse;
    condition.reason = kNotReported.reason;
    condition.message = api::Say(kNotReported, AndMore(first, count));
  }
  return condition;
}

// Empty for a run without checkpoint volumes, and when its pods are gone: then what was said last stays.
std::optional<api::Condition> CheckpointsMounted(const std::vector<Worker>& workers) {
  api::Condition condition;
  condition.type = kCheckpointsMountedCondition;
  condition.status = ConditionStatus::kTrue;
  condition.reason = "Mounted";
  const api::Advice* advice = nullptr;
  bool has_mounts = false;
  int64_t count = 0;
  for (const Worker& worker : workers) {
    if (worker.input == nullptr) continue;
    for (const api::PodMount& mount : worker.input->mounts) {
      has_mounts = true;
      // A holder that is away says nothing about the mount, which goes on without it.
      const bool is_well = mount.restarts == 0 && (mount.state == "Mounted" || mount.state == "Unknown");
      if (is_well || count++ > 0) continue;
      condition.status = ConditionStatus::kFalse;
      advice = mount.state == "Mounted" ? &kMountRestarted : &kMountLost;
      condition.reason = advice->reason;
      condition.message = fmt::format("pod {} on node {}: volume {}: {}", worker.times.pod, worker.times.node,
                                      mount.volume, mount.message);
    }
  }
  if (!has_mounts) return std::nullopt;
  if (advice != nullptr) condition.message = api::Say(*advice, AndMore(condition.message, count));
  return condition;
}

void AddBytes(const std::vector<Worker>& workers, const api::TrainingRunStatus& before,
              api::TrainingRunStatus& status) {
  api::RunBytes seen;
  bool has_mounts = false;
  for (const Worker& worker : workers) {
    if (worker.input == nullptr) continue;
    for (const api::PodMount& mount : worker.input->mounts) {
      has_mounts = true;
      seen.checkpoint_read += mount.read_bytes;
      seen.checkpoint_written += mount.written_bytes;
    }
  }
  if (!has_mounts) return;
  // Pods that are gone are in the earlier figures.
  api::RunBytes bytes = before.bytes.value_or(api::RunBytes{});
  bytes.checkpoint_read = std::max(bytes.checkpoint_read, seen.checkpoint_read);
  bytes.checkpoint_written = std::max(bytes.checkpoint_written, seen.checkpoint_written);
  status.bytes = bytes;
}

// Why the run failed: the first worker that tells, else the job.
Explanation FailureOf(const std::vector<Worker>& workers, const RunInput& input) {
  std::optional<Explanation> best;
  std::optional<WallTime> best_end;
  for (const Worker& worker : workers) {
    if (worker.input == nullptr) continue;
    const kube::PodView& pod = *worker.input->pod;
    auto why = WhyFailed(pod);
    if (!why) continue;
    Tally tally;
    CountContainers(pod, tally);
    // The others were ended because of the one that ended first.
    if (!best || (tally.last_end && best_end && *tally.last_end < *best_end)) {
      best = std::move(why);
      best_end = tally.last_end;
    }
  }
  if (best) return *best;
  const std::string reason = input.end_reason.empty() ? "JobFailed" : input.end_reason;
  return {reason, api::Say(FailureAdvice(reason), input.end_message.empty() ? "the job failed" : input.end_message)};
}

void AddEnd(const std::vector<Worker>& workers, const RunInput& input, RunPhase phase, api::TrainingRunStatus& status) {
  if (phase == RunPhase::kSucceeded) {
    api::SetCondition(
        status.conditions,
        {std::string(api::kCompleteCondition), ConditionStatus::kTrue, input.generation, {}, "Succeeded", ""},
        input.now);
  } else if (phase == RunPhase::kFailed) {
    const api::Condition* known = api::FindCondition(input.before.conditions, api::kFailedCondition);
    Explanation why = FailureOf(workers, input);
    // When the pods are gone the explanation of before is the better one.
    const bool has_pods =
        std::any_of(workers.begin(), workers.end(), [](const Worker& w) { return w.input != nullptr; });
    if (known != nullptr && !has_pods) why = {known->reason, known->message};
    api::SetCondition(
        status.conditions,
        {std::string(api::kFailedCondition), ConditionStatus::kTrue, input.generation, {}, why.reason, why.message},
        input.now);
  }
}

void AddTimes(const std::vector<Worker>& workers, const RunInput& input, const Tally& tally,
              api::TrainingRunStatus& status) {
  status.queued_at = input.before.queued_at.value_or(std::chrono::floor<std::chrono::milliseconds>(input.start.best));
  status.started_at = tally.first_start ? tally.first_start : input.before.started_at;
  for (const Worker& worker : workers) {
    if (!worker.HasFirstStep()) continue;
    const WallTime step = *worker.times.spans.back().end;
    status.first_step_at = status.first_step_at ? std::max(*status.first_step_at, step) : step;
  }
  // Pods beyond those kept one by one are gone, and the last first step may have been one of theirs.
  const auto known_before = static_cast<int64_t>(input.before.workers.size()) + input.before.workers_omitted;
  const bool knows_less = static_cast<int64_t>(workers.size()) < known_before;
  if (!status.first_step_at || (knows_less && input.before.first_step_at > status.first_step_at)) {
    status.first_step_at = input.before.first_step_at;
  }
  if (IsOver(status)) {
    status.finished_at = input.before.finished_at ? input.before.finished_at
                         : input.end_time         ? input.end_time
                         : tally.last_end         ? tally.last_end
                                                  : std::optional(input.now);
  }
  const auto workers_known = static_cast<int64_t>(workers.size());
  const bool all_stepped = status.first_step_at && tally.first_steps >= workers_known;
  const WallTime until = all_stepped ? *status.first_step_at : status.finished_at.value_or(input.now);
  status.wall_seconds = ToSeconds(std::max(until - *status.queued_at, Duration::zero()));
}

// Of the workers whose pods are there.
std::vector<const WorkerInput*> PodsIn(const std::vector<Worker>& workers) {
  std::vector<const WorkerInput*> inputs;
  for (const Worker& worker : workers) {
    if (worker.input != nullptr) inputs.push_back(worker.input);
  }
  return inputs;
}

// Pods that are gone tell nothing more; what was known of them stays.
void AddSnapshot(const std::vector<Worker>& workers, api::TrainingRunStatus& status) {
  const std::vector<const WorkerInput*> inputs = PodsIn(workers);
  if (inputs.size() < workers.size()) return;
  if (std::optional<api::SnapshotUse> use = SnapshotUseOf(inputs)) status.snapshot = *std::move(use);
}

void AddStartupCost(const std::vector<Worker>& workers, const RunInput& input, api::TrainingRunStatus& status) {
  const bool has_all_pods =
      std::all_of(workers.begin(), workers.end(), [](const Worker& w) { return w.input != nullptr; });
  // Pods that are gone no longer tell what they held; by then it was over.
  if (workers.empty() || (!has_all_pods && input.before.startup)) return;
  std::vector<WorkerHolding> holdings;
  for (const Worker& worker : workers) {
    holdings.push_back({&worker.times.spans, worker.input == nullptr ? std::nullopt : GpusOf(*worker.input->pod)});
  }
  const bool goes_on = status.phase == RunPhase::kPending || status.phase == RunPhase::kStarting;
  status.startup = ComputeStartupCost(holdings, KindOfStart(status.nodes, input.nodes_before),
                                      goes_on ? std::optional(input.now) : std::nullopt);
}

}  // namespace

bool HasStepped(const api::TrainingRunStatus& status) {
  return api::IsConditionTrue(status.conditions, kFirstStepCondition);
}

bool IsOver(const api::TrainingRunStatus& status) {
  return status.phase == RunPhase::kSucceeded || status.phase == RunPhase::kFailed ||
         status.phase == RunPhase::kUnknown;
}

api::TrainingRunStatus ComputeRunStatus(const RunInput& input) {
  const std::vector<Worker> workers = BuildWorkers(input);
  const Tally tally = Count(workers);
  api::TrainingRunStatus status = input.before;  // what others wrote (bytes, incidents) stays
  status.workers.clear();
  status.first_step_at.reset();

  status.phase = PhaseOf(input, tally, workers.size());
  status.nodes = NodesOf(workers, input.before);
  std::vector<WorkerSpans> spans;
  for (const Worker& worker : workers) spans.push_back(worker.times);
  status.stages = SummarizeStages(spans);
  KeepFullerSummaries(input.before, status.stages);
  AddWorkerTimes(workers, input.before, status);
  AddTimes(workers, input, tally, status);
  AddBytes(workers, input.before, status);
  AddImages(PodsIn(workers), input.before, status);
  AddSnapshot(workers, status);
  AddStartupCost(workers, input, status);

  const auto set = [&](api::Condition condition) {
    condition.observed_generation = input.generation;
    api::SetCondition(status.conditions, std::move(condition), input.now);
  };
  api::Condition valid{std::string(api::kConfigurationValidCondition), ConditionStatus::kTrue, 0, {}, "Valid", ""};
  if (!input.settings_errors.empty()) {
    valid.status = ConditionStatus::kFalse;
    valid.reason = "InvalidSettings";
    valid.message = api::Say(kInvalidAnnotation, api::JoinErrors(input.settings_errors));
  }
  set(std::move(valid));
  set(Progressing(workers, *status.phase));
  set(FirstStepSeen(workers, *status.phase, tally));
  set(StageTimesKnown(workers));
  if (std::optional<api::Condition> mounted = CheckpointsMounted(workers)) set(*std::move(mounted));
  AddEnd(workers, input, *status.phase, status);
  return status;
}

bool IsSameForReaders(const api::TrainingRunStatus& before, const api::TrainingRunStatus& after) {
  if (IsOver(before) != IsOver(after)) return false;
  api::TrainingRun a, b;
  a.status = before;
  b.status = after;
  // While the run waits these grow with every look.
  if (!IsOver(after)) a.status.wall_seconds = b.status.wall_seconds;
  if (!IsOver(after) && a.status.startup && b.status.startup) {
    a.status.startup->worker_seconds = b.status.startup->worker_seconds;
    a.status.startup->gpu_seconds = b.status.startup->gpu_seconds;
  }
  return api::ToJson(a) == api::ToJson(b);
}

}  // namespace paceline::operator_
