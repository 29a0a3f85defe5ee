#include "operator/training_run/reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/jobs/job_facts.h"
#include "operator/kube_text.h"
#include "operator/messages.h"
#include "operator/resources.h"
#include "operator/run_identity.h"
#include "operator/training_run/run_images.h"
#include "operator/training_run/run_status.h"
#include "operator/training_run/start.h"

namespace paceline::operator_ {
namespace {

using api::TrainingRun;
using Json = nlohmann::json;

constexpr Duration kPhaseCheckPeriod = std::chrono::seconds(10);  // while a timeout may change the phase

// The part of the status that this controller owns; other fields are applied by those who know them.
Json OwnStatus(const TrainingRun& run) {
  Json status = api::ToJson(run).value("status", Json::object());
  for (const char* foreign : {"slowdown", "slowdownError", "incidents"}) status.erase(foreign);
  if (run.status.bytes) {
    // What nobody reports is not known, and no zero.
    Json& bytes = status["bytes"];
    if (api::FindCondition(run.status.conditions, kCheckpointsMountedCondition) == nullptr) {
      for (const char* unknown : {"checkpointRead", "checkpointWritten"}) bytes.erase(unknown);
    }
    if (run.status.images.empty()) {
      for (const char* unknown : {"imageFromRegistry", "imageFromPeers", "imageFromCache"}) bytes.erase(unknown);
    }
  }
  return status;
}

// One pass over one job.
class RunPass {
 public:
  RunPass(const TrainingRunEnvironment& env, const TrainingRunOptions& options, RunMetrics& metrics, JobKey key,
          JobObject view, Json job, Deadline deadline)
      : env_(env),
        options_(options),
        metrics_(metrics),
        key_(std::move(key)),
        view_(std::move(view)),
        job_(std::move(job)),
        deadline_(deadline),
        now_(env.clock.WallNow()) {}

  Result<kube::Action> Run() {
    std::vector<PodPointer> pods = PodsOf(env_.catalog, env_.pods, key_, job_);
    if (!ReadSettings(pods)) return kube::Action::Done();
    Result<std::map<StartKey, JobStart>> starts = GroupStarts(job_, pods);
    if (!starts.ok()) return starts.status();
    LoadRuns();
    is_suspended_ = IsSuspended(*key_.kind, job_);
    AddStartsOfRuns(*starts);
    const TrainingRun* previous = nullptr;
    for (auto& [start_key, start] : *starts) {
      const auto next = starts->upper_bound(start_key);
      const bool is_latest = (next == starts->end() || next->first.gang != start_key.gang) && !is_suspended_;
      ASSIGN_OR_RETURN(previous, HandleStart(start_key, start, is_latest, previous));
    }
    ShowRuns();
    RETURN_IF_ERROR(TrimHistory());
    return look_again_ ? kube::Action::RequeueAfter(*look_again_) : kube::Action::Done();
  }

 private:
  // False when the job does not ask for Paceline.
  bool ReadSettings(const std::vector<PodPointer>& pods) {
    if (key_.kind->group == api::kGroup) return true;  // TrainingJob: its own controller checks the settings
    const kube::StringMap none;
    const api::AnnotatedSettings settings = api::ParseAnnotations(
        ToTextMap(view_->meta.annotations), ToTextMap(pods.empty() ? none : pods.front()->meta.annotations));
    settings_errors_ = settings.errors;
    const bool enabled_is_bad =
        std::any_of(settings_errors_.begin(), settings_errors_.end(),
                    [](const api::FieldError& error) { return error.path == api::kEnabledAnnotation; });
    return settings.is_enabled || enabled_is_bad;
  }

  void LoadRuns() {
    for (const auto& view : env_.runs.ListBy(kRunOwnerIndex, view_->meta.uid)) {
      const auto body = view->Body();
      if (!body.ok()) continue;
      Result<TrainingRun> run = api::FromJson<TrainingRun>(*body);
      if (run.ok() && run->spec.job.uid == view_->meta.uid)
        runs_.emplace(StartKey{run->spec.gang, run->spec.generation}, std::move(*run));
    }
  }

  // Runs that are open and whose pods and generation have passed by have to be closed.
  void AddStartsOfRuns(std::map<StartKey, JobStart>& starts) const {
    for (const auto& [start_key, run] : runs_) {
      if (IsOver(run.status)) continue;
      JobStart& start = starts[start_key];
      if (start.identity.kind != nullptr) continue;
      start.identity.kind = key_.kind;
      start.identity.gang = start_key.gang;
      start.identity.generation = start_key.generation;
    }
  }

  // Returns the run of this start, or `previous` when there is none.
  Result<const TrainingRun*> HandleStart(const StartKey& start_key, const JobStart& start, bool is_latest,
                                         const TrainingRun* previous) {
    const kube::JobView* child = nullptr;
    const auto children = env_.child_jobs.ListBy(api::kJobUidLabel, view_->meta.uid);
    for (const auto& candidate : children) {
      if (candidate->meta.labels.Get(api::kGenerationLabel) == std::to_string(start_key.generation))
        child = candidate.get();
    }
    const StartEnd end = EndOfStart(*key_.kind, job_, child, is_latest);
    auto found = runs_.find(start_key);
    if (found == runs_.end()) {
      // Nothing to tell about a start that is over and left no pods, or that waits for the job to be resumed.
      if (start.pods.empty() && (end.end != JobEnd::kOpen || is_suspended_)) return previous;
      ASSIGN_OR_RETURN(TrainingRun made, CreateRun(start));
      found = runs_.emplace(start_key, std::move(made)).first;
    }
    TrainingRun& run = found->second;
    if (IsOver(run.status) && run.status.finished_at && now_ - *run.status.finished_at > options_.settle_time)
      return &run;

    RunInput input;
    input.spec = run.spec;
    input.before = run.status;
    input.generation = run.metadata.generation;
    const bool is_same_gang = previous != nullptr && previous->spec.gang == start_key.gang;
    input.start = StartMoment(job_, view_->meta, env_.observed.JobCreated(view_->meta.uid), start, child,
                              is_same_gang ? &previous->status : nullptr);
    if (is_same_gang) input.nodes_before = previous->status.nodes;
    if (run.status.queued_at) input.start = PreferEarlierReport(input.start, run.status.queued_at);
    for (const StartPod& pod : start.pods) input.workers.push_back(ReadWorker(pod));
    input.end = end.end;
    input.end_reason = end.reason;
    input.end_message = end.message;
    input.end_time = end.time;
    input.settings_errors = settings_errors_;
    input.now = now_;
    RETURN_IF_ERROR(WriteStatus(run, ComputeRunStatus(input)));
    return &run;
  }

  WorkerInput ReadWorker(const StartPod& start_pod) const {
    const kube::PodView& pod = *start_pod.pod;
    WorkerInput worker;
    worker.pod = start_pod.pod;
    worker.rank = start_pod.rank;
    worker.events = env_.events.ListBy(kEventPodIndex, pod.meta.uid);
    worker.observed = env_.observed.OfPod(pod.meta.uid);
    if (!pod.spec.node_name.empty()) {
      worker.markers = env_.reports.MarkersOf(pod.spec.node_name, pod.meta.uid);
      worker.mounts = env_.reports.MountsOf(pod.spec.node_name, pod.meta.uid);
      worker.images = env_.reports.ImagesOf(pod.spec.node_name);
      worker.dependencies = env_.reports.DependenciesOf(pod.spec.node_name, pod.meta.uid);
    }
    worker.marker_absence = WhyNoMarkers(pod);
    return worker;
  }

  std::string WhyNoMarkers(const kube::PodView& pod) const {
    if (pod.meta.annotations.Get(api::kInjectedAnnotation).find("stage") == std::string_view::npos) {
      return "it has no stage volume: the webhook did not add one when the pod was made";
    }
    if (pod.spec.node_name.empty()) return {};
    const auto silence = env_.reports.Silence(pod.spec.node_name);
    if (!silence) return fmt::format("no agent reports from node {}", pod.spec.node_name.view());
    if (*silence > options_.agent_silence_limit)
      return fmt::format("the agent of node {} is silent", pod.spec.node_name.view());
    return {};
  }

  Result<TrainingRun> CreateRun(const JobStart& start) const {
    RunIdentity identity;
    identity.job_kind = std::string(key_.kind->kind);
    identity.job_name = key_.name;
    identity.job_uid = view_->meta.uid.str();
    identity.gang = start.identity.gang;
    identity.generation = start.identity.generation;

    TrainingRun run;
    run.metadata.name = identity.Run();
    run.metadata.ns = key_.ns;
    run.metadata.labels = IdentityLabels(identity);
    run.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
    run.spec.job = {job_.value("apiVersion", ""), job_.value("kind", ""), key_.name, identity.job_uid};
    run.spec.gang = identity.gang;
    run.spec.generation = identity.generation;
    run.spec.workers = start.identity.workers;
    run.spec.world_size = start.identity.world_size;
    // Not blockOwnerDeletion: that needs rights on the finalizers of every job kind.
    run.metadata.owner_references.push_back(
        {run.spec.job.api_version, run.spec.job.kind, key_.name, identity.job_uid, true, false});
    Json object = api::ToJson(run);
    object.erase("status");
    Result<Json> made =
        env_.client.Create(kTrainingRuns, object, {.field_manager = std::string(kTrainingRunManager)}, deadline_);
    if (made.status().code() == StatusCode::kAlreadyExists) {
      made = env_.client.Get(kTrainingRuns, {key_.ns, run.metadata.name}, deadline_);  // the cache is behind
    }
    if (!made.ok()) return made.status();
    ASSIGN_OR_RETURN(TrainingRun stored, api::FromJson<TrainingRun>(*made));
    if (stored.spec.job.uid != identity.job_uid) {
      return InvalidArgumentError(fmt::format("TrainingRun {} belongs to another job: remove it", run.metadata.name));
    }
    return stored;
  }

  Status WriteStatus(TrainingRun& run, api::TrainingRunStatus status) {
    if (!IsOver(status)) {
      // Two timeouts change what the status says without any change in the cluster.
      look_again_ = kPhaseCheckPeriod;
      if (status.phase == api::RunPhase::kRunning) look_again_.reset();
    }
    if (IsSameForReaders(run.status, status)) {
      run.status = std::move(status);  // for the metrics, which show how long it waits
      return Status();
    }
    const api::TrainingRunStatus before = run.status;
    const bool has_new_errors = IsInvalid(status) && !IsInvalid(run.status);
    const bool has_lost_mount = HasLostMount(status) && !HasLostMount(run.status);
    const bool has_failed = status.phase == api::RunPhase::kFailed && run.status.phase != api::RunPhase::kFailed;
    run.status = std::move(status);
    const Json object = {{"metadata", {{"name", run.metadata.name}, {"namespace", key_.ns}, {"uid", run.metadata.uid}}},
                         {"status", OwnStatus(run)}};
    const Result<Json> written =
        kube::Apply(env_.client, kTrainingRuns, object, std::string(kTrainingRunManager), deadline_, "status");
    if (written.status().code() == StatusCode::kNotFound) return Status();  // deleted with its job
    if (!written.ok()) return written.status();
    metrics_.Count(run, before);
    if (has_new_errors) {
      Warn(std::string(kInvalidAnnotation.reason), "Validate",
           api::Say(kInvalidAnnotation, api::JoinErrors(settings_errors_)));
    }
    if (has_lost_mount) {
      Warn(std::string(kCheckpointMountLost.reason), "Mount",
           api::FindCondition(run.status.conditions, kCheckpointsMountedCondition)->message);
    }
    TellFallbacks(NewFallbacks(before, run.status));
    const api::Condition* failed = api::FindCondition(run.status.conditions, api::kFailedCondition);
    if (has_failed && failed != nullptr && key_.kind->group != api::kGroup)
      Warn(failed->reason, "Run", failed->message);
    return Status();
  }

  // One event for each cause, however many nodes.
  void TellFallbacks(const std::vector<api::Fallback>& fallbacks) const {
    std::map<std::string, std::vector<std::string>> nodes;  // by reason
    for (const api::Fallback& fallback : fallbacks) nodes[fallback.reason].push_back(fallback.node);
    for (const auto& [reason, where] : nodes) {
      const bool is_unconverted = reason.find(": NotConverted: ") != std::string::npos;
      const api::Advice& advice = is_unconverted ? kImageNotConverted : kImagePulledWhole;
      std::string what = fmt::format("image {} (node {}", reason, where.front());
      what += where.size() > 1 ? fmt::format(" and {} more)", where.size() - 1) : ")";
      env_.recorder.Record({kube::ReferenceTo(job_), std::nullopt,
                            is_unconverted ? kube::EventType::kNormal : kube::EventType::kWarning,
                            std::string(advice.reason), "PullImage", api::Say(advice, what)});
    }
  }

  void ShowRuns() const {
    std::set<std::string> names;
    for (const auto& [start_key, run] : runs_) {
      metrics_.Show(run);
      names.insert(run.metadata.name);
    }
    metrics_.Keep(view_->meta.uid.str(), names);
  }

  static bool HasLostMount(const api::TrainingRunStatus& status) {
    const api::Condition* mounted = api::FindCondition(status.conditions, kCheckpointsMountedCondition);
    return mounted != nullptr && mounted->status == api::ConditionStatus::kFalse;
  }

  static bool IsInvalid(const api::TrainingRunStatus& status) {
    const api::Condition* valid = api::FindCondition(status.conditions, api::kConfigurationValidCondition);
    return valid != nullptr && valid->status == api::ConditionStatus::kFalse;
  }

  void Warn(const std::string& reason, const char* action, const std::string& note) const {
    env_.recorder.Record({kube::ReferenceTo(job_), std::nullopt, kube::EventType::kWarning, reason, action, note});
  }

  Status TrimHistory() const {
    int64_t limit = options_.history_limit;
    if (key_.kind->group == api::kGroup) {
      const auto spec = job_.find("spec");
      if (spec != job_.end() && spec->is_object()) limit = spec->value("runHistoryLimit", limit);
    }
    std::vector<const TrainingRun*> over;
    for (const auto& [start_key, run] : runs_) {
      if (IsOver(run.status)) over.push_back(&run);
    }
    std::sort(over.begin(), over.end(),
              [](const TrainingRun* a, const TrainingRun* b) { return a->spec.generation < b->spec.generation; });
    for (size_t i = 0; i + static_cast<size_t>(std::max<int64_t>(limit, 1)) < over.size(); ++i) {
      const Status removed = env_.client.Delete(kTrainingRuns, {key_.ns, over[i]->metadata.name},
                                                {.uid_precondition = over[i]->metadata.uid}, deadline_);
      if (!removed.ok() && removed.code() != StatusCode::kNotFound && removed.code() != StatusCode::kAborted)
        return removed;
    }
    return Status();
  }

  const TrainingRunEnvironment& env_;
  const TrainingRunOptions& options_;
  RunMetrics& metrics_;
  const JobKey key_;
  const JobObject view_;
  const Json job_;
  const Deadline deadline_;
  const WallTime now_;
  bool is_suspended_ = false;
  std::vector<api::FieldError> settings_errors_;
  std::map<StartKey, TrainingRun> runs_;
  std::optional<Duration> look_again_;
};

}  // namespace

std::vector<kube::CacheIndex<kube::PodView>> PodIndexes() {
  std::set<std::string_view> labels = {api::kJobUidLabel};
  for (const api::JobKind& kind : api::JobKinds()) labels.insert(kind.pod_label);
  std::vector<kube::CacheIndex<kube::PodView>> indexes = {kube::NodeNameIndex()};
  for (const std::string_view label : labels) indexes.push_back(kube::LabelIndex<kube::PodView>(std::string(label)));
  return indexes;
}

kube::CacheIndex<kube::EventView> EventPodIndex() {
  return {std::string(kEventPodIndex), [](const kube::EventView& event, std::vector<kube::SharedString>* keys) {
            if (event.involved_object.kind == "Pod") keys->push_back(event.involved_object.uid);
          }};
}

bool MayBeEnabled(const kube::ObjectMeta& meta) {
  const std::string_view value = meta.annotations.Get(api::kEnabledAnnotation);
  return !value.empty() && value != "false";
}

Result<kube::Action> TrainingRunReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  const auto job_key = JobKey::FromObjectKey(key);
  if (!job_key) return InvalidArgumentError("not a job: " + key.ToString());
  const JobObject view = env_.catalog.Find(*job_key);
  if (view == nullptr || !env_.catalog.IsTop(view->meta)) {
    pacer_.Forget(key);
    metrics_.ForgetJob(job_key->kind->kind, {job_key->ns, job_key->name});
    return kube::Action::Done();  // its runs go with it, by their owner reference
  }
  if (const Duration wait = pacer_.WaitBefore(key); wait > Duration::zero()) return kube::Action::RequeueAfter(wait);
  ASSIGN_OR_RETURN(Json job, env_.catalog.Body(*job_key->kind, *view));
  return RunPass(env_, options_, metrics_, *job_key, view, std::move(job), deadline).Run();
}

}  // namespace paceline::operator_
