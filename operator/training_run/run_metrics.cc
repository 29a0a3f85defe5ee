#include "operator/training_run/run_metrics.h"

#include <utility>

#include "operator/training_run/run_status.h"

namespace paceline::operator_ {
namespace {

constexpr Duration kShowEnded = std::chrono::hours(1);

// 0.5 s to 9 h: a container that was there already, and a night in a queue.
std::vector<double> StartupBuckets() { return ExponentialBuckets(0.5, 2, 17); }

constexpr api::StartKind kStartKinds[] = {api::StartKind::kFull, api::StartKind::kHotRestart};

const std::vector<std::string> kRunLabels = {"namespace", "job", "run"};

MetricOptions ForRuns(const char* name, const char* help, std::vector<std::string> more = {}) {
  MetricOptions options{name, help, kRunLabels, 5000};
  options.label_names.insert(options.label_names.end(), more.begin(), more.end());
  return options;
}

LabelValues LabelsOf(const api::TrainingRun& run, std::vector<std::string> more = {}) {
  LabelValues labels = {run.metadata.ns, run.spec.job.name, run.metadata.name};
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

std::string StartOf(const api::TrainingRunStatus& status) {
  return std::string(api::StartKindText(status.startup ? status.startup->kind : api::StartKind::kFull));
}

bool HasLeftStartup(const api::TrainingRunStatus& status) { return HasStepped(status) || IsOver(status); }

}  // namespace

RunMetrics::RunMetrics(MetricsRegistry& metrics, const Clock& clock)
    : clock_(clock),
      runs_(metrics.GaugeFamily({"paceline_runs", "TrainingRuns that exist, by phase.", {"namespace", "phase"}})),
      info_(metrics.GaugeFamily(ForRuns("paceline_run_info",
                                        "Always 1; the labels tell the job's kind, which start of it this is, whether "
                                        "it is a full start or a hot restart, and its phase.",
                                        {"kind", "generation", "start", "phase"}))),
      workers_(metrics.GaugeFamily(ForRuns("paceline_run_workers", "Workers of a run."))),
      gpus_(metrics.GaugeFamily(ForRuns("paceline_run_gpus", "GPUs of all workers of a run."))),
      startup_(metrics.GaugeFamily(
          ForRuns("paceline_run_startup_seconds",
                  "From asking for a start to the first step of all workers; to now while there is none."))),
      stages_(metrics.GaugeFamily(ForRuns("paceline_run_stage_seconds",
                                          "Time of a startup stage over the workers of a run: min, p50 or max.",
                                          {"stage", "stat"}))),
      slowest_(metrics.GaugeFamily(ForRuns("paceline_run_stage_slowest_seconds",
                                           "Time of the slowest worker in a startup stage, with its node.",
                                           {"stage", "node"}))),
      worker_seconds_(metrics.GaugeFamily(
          ForRuns("paceline_run_startup_worker_seconds",
                  "Worker time from getting a node to the first step, over all workers of a run."))),
      gpu_seconds_(metrics.GaugeFamily(
          ForRuns("paceline_run_startup_gpu_seconds",
                  "GPU time held from getting a node to the first step, over all workers of a run. Absent where pods "
                  "do not tell their GPUs."))),
      checkpoint_bytes_(
          metrics.GaugeFamily(ForRuns("paceline_run_checkpoint_bytes",
                                      "Checkpoint bytes that a run's mounts moved: read or written.", {"direction"}))),
      startups_(metrics.HistogramFamily(
          {"paceline_startup_seconds", "Time of startups that ended in a first step of all workers.", {"start"}},
          StartupBuckets())),
      worker_stages_(
          metrics.HistogramFamily({"paceline_startup_worker_stage_seconds",
                                   "Time of each worker in each stage of startups that ended (of a run those "
                                   "in status.workers, at most 256).",
                                   {"stage", "start"}},
                                  StartupBuckets())),
      worker_seconds_total_(metrics.CounterFamily({"paceline_startup_worker_seconds_total",
                                                   "Worker time that ended startups took, by how they ended: Stepped "
                                                   "or Ended (without a first step that anybody saw).",
                                                   {"namespace", "start", "outcome"}})),
      gpu_seconds_total_(metrics.CounterFamily({"paceline_startup_gpu_seconds_total",
                                                "GPU time that ended startups held before the first step.",
                                                {"namespace", "start", "outcome"}})) {
  // From zero on, so that a first start shows as an increase: sums over a day would lack it.
  for (const api::StartKind kind : kStartKinds) {
    const std::string start(api::StartKindText(kind));
    startups_.With({start});
    for (int i = 0; i <= static_cast<int>(api::StageName::kFirstStep); ++i) {
      worker_stages_.With({std::string(api::StageNameText(static_cast<api::StageName>(i))), start});
    }
  }
}

void RunMetrics::BeginTotals(const std::string& ns) {
  for (const api::StartKind kind : kStartKinds) {
    for (const char* outcome : {"Stepped", "Ended"}) {
      const LabelValues labels = {ns, std::string(api::StartKindText(kind)), outcome};
      worker_seconds_total_.With(labels);
      gpu_seconds_total_.With(labels);
    }
  }
}

RunMetrics::Series RunMetrics::SeriesOf(const api::TrainingRun& run) const {
  const api::TrainingRunStatus& status = run.status;
  Series series;
  const auto set = [&](Gauges& family, const std::optional<double>& value, std::vector<std::string> more = {}) {
    if (value) series[{&family, LabelsOf(run, std::move(more))}] = *value;
  };
  const std::string phase(api::RunPhaseText(status.phase.value_or(api::RunPhase::kPending)));
  set(info_, 1, {run.spec.job.kind, std::to_string(run.spec.generation), StartOf(status), phase});
  if (run.spec.workers) set(workers_, static_cast<double>(*run.spec.workers));
  set(startup_, status.wall_seconds);
  for (const api::Stage& stage : status.stages) {
    const std::string name(api::StageNameText(stage.name));
    set(stages_, stage.min_seconds, {name, "min"});
    set(stages_, stage.p50_seconds, {name, "p50"});
    set(stages_, stage.max_seconds, {name, "max"});
    set(slowest_, stage.max_seconds, {name, stage.slowest_node});
  }
  if (status.startup) {
    set(worker_seconds_, status.startup->worker_seconds);
    set(gpu_seconds_, status.startup->gpu_seconds);
    if (status.startup->gpus) set(gpus_, static_cast<double>(*status.startup->gpus));
  }
  if (status.bytes) {
    set(checkpoint_bytes_, static_cast<double>(status.bytes->checkpoint_read), {"read"});
    set(checkpoint_bytes_, static_cast<double>(status.bytes->checkpoint_written), {"written"});
  }
  return series;
}

void RunMetrics::Show(const api::TrainingRun& run) {
  const api::TrainingRunStatus& status = run.status;
  const std::string phase(api::RunPhaseText(status.phase.value_or(api::RunPhase::kPending)));
  const bool is_old = status.finished_at && clock_.WallNow() - *status.finished_at > kShowEnded;
  const Series series = is_old ? Series() : SeriesOf(run);
  BeginTotals(run.metadata.ns);
  MutexLock lock(mutex_);
  ShownJob& job = jobs_[run.spec.job.uid];
  job.kind = run.spec.job.kind;
  job.key = {run.metadata.ns, run.spec.job.name};
  ShownRun& shown = job.runs[run.metadata.name];
  for (const auto& [family, labels] : shown.series) {
    if (series.count({family, labels}) == 0) family->Remove(labels);
  }
  shown.series.clear();
  for (const auto& [key, value] : series) {
    key.first->With(key.second).Set(value);
    shown.series.push_back(key);
  }
  if (shown.phase == phase) return;
  if (!shown.phase.empty()) runs_.With({job.key.ns, shown.phase}).Add(-1);
  runs_.With({job.key.ns, phase}).Add(1);
  shown.phase = phase;
}

void RunMetrics::Count(const api::TrainingRun& run, const api::TrainingRunStatus& before) {
  const api::TrainingRunStatus& after = run.status;
  if (HasLeftStartup(before) || !HasLeftStartup(after)) return;
  {
    MutexLock lock(mutex_);
    if (std::exchange(jobs_[run.spec.job.uid].runs[run.metadata.name].is_counted, true)) return;
  }
  const std::string start = StartOf(after);
  const char* outcome = HasStepped(after) ? "Stepped" : "Ended";
  if (after.startup) {
    const LabelValues labels = {run.metadata.ns, start, outcome};
    worker_seconds_total_.With(labels).Add(after.startup->worker_seconds);
    if (after.startup->gpu_seconds) gpu_seconds_total_.With(labels).Add(*after.startup->gpu_seconds);
  }
  if (!HasStepped(after) || !after.wall_seconds) return;
  startups_.With({start}).Observe(*after.wall_seconds);
  for (const api::WorkerTimes& worker : after.workers) {
    for (const api::WorkerStage& stage : worker.stages) {
      if (!stage.start || !stage.end) continue;
      worker_stages_.With({std::string(api::StageNameText(stage.name)), start})
          .Observe(ToSeconds(*stage.end - *stage.start));
    }
  }
}

void RunMetrics::Keep(const std::string& job_uid, const std::set<std::string>& runs) {
  MutexLock lock(mutex_);
  const auto job = jobs_.find(job_uid);
  if (job == jobs_.end()) return;
  for (auto run = job->second.runs.begin(); run != job->second.runs.end();) {
    const bool is_gone = runs.count(run->first) == 0;
    if (is_gone) Remove(job->second, run->second);
    run = is_gone ? job->second.runs.erase(run) : std::next(run);
  }
}

void RunMetrics::ForgetJob(std::string_view kind, const kube::ObjectKey& key) {
  MutexLock lock(mutex_);
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const bool is_gone = job->second.kind == kind && job->second.key == key;
    if (is_gone) {
      for (const auto& [name, run] : job->second.runs) Remove(job->second, run);
    }
    job = is_gone ? jobs_.erase(job) : std::next(job);
  }
}

void RunMetrics::Remove(const ShownJob& job, const ShownRun& run) {
  for (const auto& [family, labels] : run.series) family->Remove(labels);
  if (!run.phase.empty()) runs_.With({job.key.ns, run.phase}).Add(-1);
}

}  // namespace paceline::operator_
