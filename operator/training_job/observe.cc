#include "operator/training_job/observe.h"

#include <algorithm>
#include <charconv>

#include "lib/api/names.h"

namespace paceline::operator_ {
namespace {

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<int64_t> GenerationOf(const kube::ObjectMeta& meta) {
  return ParseNumber(meta.labels.Get(api::kGenerationLabel));
}

std::optional<WallTime> EndOf(const kube::PodView& pod) {
  std::optional<WallTime> end;
  for (const kube::ContainerStatus& status : pod.status.containers) {
    if (!status.state.terminated || status.state.terminated->finished_at == kube::kNoTime) continue;
    if (!end || status.state.terminated->finished_at < *end) end = status.state.terminated->finished_at;
  }
  return end;
}

}  // namespace

std::optional<ObservedJob> ObserveJob(const kube::JobView& job) {
  const auto generation = GenerationOf(job.meta);
  if (!generation) return std::nullopt;
  ObservedJob seen;
  seen.generation = *generation;
  seen.restarts = ParseNumber(job.meta.annotations.Get(kRestartsAnnotation)).value_or(0);
  seen.name = job.meta.name.str();
  seen.uid = job.meta.uid.str();
  seen.created = job.meta.creation_time;
  seen.is_being_deleted = job.meta.IsBeingDeleted();
  seen.is_complete = kube::IsConditionTrue(job.status.conditions, "Complete");
  if (job.status.completion_time != kube::kNoTime) seen.end_time = job.status.completion_time;
  // FailureTarget comes first, Failed when the pods have ended.
  for (const std::string_view type : {"FailureTarget", "Failed"}) {
    const kube::Condition* condition = kube::FindCondition(job.status.conditions, type);
    if (condition == nullptr || condition->status != "True") continue;
    seen.is_failed = true;
    seen.end_time = condition->last_transition_time;
    seen.failure_message = condition->message.str();
  }
  return seen;
}

std::optional<ObservedWorker> ObserveWorker(const kube::PodView& pod) {
  const auto generation = GenerationOf(pod.meta);
  if (!generation) return std::nullopt;
  ObservedWorker worker;
  worker.generation = *generation;
  worker.is_succeeded = pod.status.phase == "Succeeded";
  worker.is_failed = pod.status.phase == "Failed";
  const auto runs = [](const kube::ContainerStatus& status) { return status.state.running.has_value(); };
  worker.is_running = !worker.is_over() && !pod.status.containers.empty() &&
                      std::all_of(pod.status.containers.begin(), pod.status.containers.end(), runs);
  worker.is_ready = kube::IsConditionTrue(pod.status.conditions, "Ready");
  if (pod.meta.IsBeingDeleted()) worker.deletion_time = pod.meta.deletion_time;
  return worker;
}

std::optional<Explanation> FirstFailure(const std::vector<std::shared_ptr<const kube::PodView>>& pods,
                                        int64_t generation) {
  std::optional<Explanation> first;
  std::optional<WallTime> first_end;
  for (const auto& pod : pods) {
    if (pod->status.phase != "Failed" || GenerationOf(pod->meta) != generation) continue;
    auto why = WhyFailed(*pod);
    if (!why) continue;
    const auto end = EndOf(*pod);
    if (!first || (end && (!first_end || *end < *first_end))) {
      first = std::move(why);
      first_end = end;
    }
  }
  return first;
}

}  // namespace paceline::operator_
