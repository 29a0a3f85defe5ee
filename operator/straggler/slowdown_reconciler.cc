#include "operator/straggler/slowdown_reconciler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "analysis/slowdown.h"
#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/resources.h"
#include "operator/straggler/run_policy.h"
#include "operator/straggler/straggler_names.h"
#include "operator/training_run/run_status.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr Duration kLeastInterval = std::chrono::seconds(4);
constexpr Duration kPullTimeout = std::chrono::seconds(5);
constexpr Duration kUntracedPeriod = std::chrono::seconds(10);  // of a run that nobody traces (yet)
constexpr Duration kQuietWrite = std::chrono::seconds(60);      // figures that are no news are written so often
constexpr Duration kPatience = std::chrono::seconds(60);        // with ranks whose windows are late
constexpr double kLeastNews = 0.01;

// By node: the latest window that every rank on it has told; one that stays behind is waited for a while. Each node by
// its own clock.
std::map<std::string, WallTime> ToldUntil(const RunPaces& known) {
  struct Range {
    int64_t earliest = INT64_MAX, latest = 0;
  };
  std::map<std::string, Range> nodes;
  for (const analysis::RankPace& rank : known.ranks) {
    if (rank.windows.empty()) continue;
    Range& range = nodes[rank.node];
    range.earliest = std::min(range.earliest, rank.windows.back().start);
    range.latest = std::max(range.latest, rank.windows.back().start);
  }
  std::map<std::string, WallTime> until;
  for (const auto& [node, range] : nodes) {
    until[node] =
        WallTime(std::chrono::seconds(std::max(range.earliest, range.latest - kPatience / std::chrono::seconds(1))));
  }
  return until;
}

// As many digits as mean anything: the error is never below 0.005.
double Rounded(double ratio) { return std::round(ratio * 10'000) / 10'000; }

}  // namespace

SlowdownReconciler::SlowdownReconciler(const SlowdownEnvironment& environment)
    : env_(environment),
      pacer_(env_.clock, kLeastInterval),
      slowdown_gauge_(env_.metrics.GaugeFamily(
          {"paceline_run_slowdown_ratio",
           "Time of a step over what it would be without slow ranks; absent while it is not known.",
           {"namespace", "run"}})),
      error_gauge_(env_.metrics.GaugeFamily({"paceline_run_slowdown_error_ratio",
                                             "Half width of the uncertainty of paceline_run_slowdown_ratio.",
                                             {"namespace", "run"}})),
      worker_gauge_(env_.metrics.GaugeFamily({"paceline_run_slow_worker_ratio",
                                              "Slowdown of a run if this rank alone were late, of its 8 slowest ranks; "
                                              "absent for a rank that costs less than what is uncertain.",
                                              {"namespace", "run", "rank", "node"}})),
      unanswered_(env_.metrics.CounterFamily(
          {"paceline_pace_unanswered_total", "Agents that gave no paces when they were asked for them.", {}})) {
  unanswered_.With({}).Add(0);
}

void SlowdownReconciler::Forget(const kube::ObjectKey& key) {
  env_.paces.Forget(key);
  pacer_.Forget(key);
  slowdown_gauge_.Remove({key.ns, key.name});
  error_gauge_.Remove({key.ns, key.name});
  ShowWorkers(key, {});
  MutexLock lock(mutex_);
  written_.erase(key);
}

Status SlowdownReconciler::Pull(const kube::ObjectKey& key, const api::TrainingRun& run, Deadline deadline,
                                std::stop_token stop) {
  std::set<std::string> names(run.status.nodes.begin(), run.status.nodes.end());
  int64_t processes = 0;
  for (const auto& [node, report] : env_.reports.TracesOf(key)) {
    names.insert(node);
    processes += report.processes;
  }
  std::map<std::string, WallTime> since;
  if (const auto known = env_.paces.Get(key)) since = ToldUntil(*known);
  std::vector<PaceQuestion> questions;
  for (const std::string& name : names) {
    questions.push_back({{name, env_.reports.AddressOf(name)}, since[name]});  // of what is not known everything
  }
  const Deadline limit = Deadline::After(env_.clock, kPullTimeout).Min(deadline);
  const PaceAnswers answers = env_.traces.PacesOf(key, questions, limit, stop);
  if (stop.stop_requested()) return CancelledError("asked to stop");
  unanswered_.With({}).Add(static_cast<double>(answers.missing.size()));
  const int64_t expected = std::max(processes, run.spec.world_size.value_or(0));
  env_.paces.Merge(key, answers.ranks, static_cast<size_t>(std::max<int64_t>(expected, 0)));
  return Status();
}

bool IsNews(const api::TrainingRunStatus& before, const analysis::Slowdown& after) {
  if (before.slowdown.has_value() != after.slowdown.has_value()) return true;
  if (!after.slowdown) return false;
  return std::abs(*before.slowdown - *after.slowdown) > std::max(after.error.value_or(0), kLeastNews) / 2;
}

std::vector<analysis::WorkerSlowdown> ToldWorkers(const analysis::Slowdown& slowdown) {
  std::vector<analysis::WorkerSlowdown> told;
  for (const analysis::WorkerSlowdown& worker : slowdown.workers) {
    if (told.size() == kToldWorkers || worker.slowdown - 1 <= slowdown.error.value_or(0)) break;
    told.push_back(worker);
  }
  return told;
}

Status SlowdownReconciler::Write(const api::TrainingRun& run, const analysis::Slowdown& slowdown, Deadline deadline) {
  const kube::ObjectKey key{run.metadata.ns, run.metadata.name};
  const TimePoint now = env_.clock.Now();
  {
    MutexLock lock(mutex_);
    const auto last = written_.find(key);
    const bool is_due = last != written_.end() && slowdown.slowdown && now - last->second >= kQuietWrite;
    if (!is_due && !IsNews(run.status, slowdown)) return Status();
    written_[key] = now;
  }
  // What is not known is left out, and an apply that leaves a field out takes it away.
  Json status = Json::object();
  if (slowdown.slowdown) {
    status = {{"slowdown", Rounded(*slowdown.slowdown)}, {"slowdownError", Rounded(slowdown.error.value_or(0))}};
  }
  const Json object = {{"metadata", {{"name", key.name}, {"namespace", key.ns}, {"uid", run.metadata.uid}}},
                       {"status", std::move(status)}};
  const Result<Json> written =
      kube::Apply(env_.client, kTrainingRuns, object, std::string(kSlowdownManager), deadline, "status");
  return written.status().code() == StatusCode::kNotFound ? Status() : written.status();
}

void SlowdownReconciler::Show(const kube::ObjectKey& key, const analysis::Slowdown& slowdown) {
  const LabelValues labels = {key.ns, key.name};
  if (slowdown.slowdown) {
    slowdown_gauge_.With(labels).Set(*slowdown.slowdown);
    error_gauge_.With(labels).Set(slowdown.error.value_or(0));
  } else {
    slowdown_gauge_.Remove(labels);
    error_gauge_.Remove(labels);
  }
  std::map<LabelValues, double> slow;
  for (const analysis::WorkerSlowdown& worker : ToldWorkers(slowdown)) {
    slow[{key.ns, key.name, std::to_string(worker.world_rank), worker.node}] = worker.slowdown;
  }
  ShowWorkers(key, slow);
}

void SlowdownReconciler::ShowWorkers(const kube::ObjectKey& key, const std::map<LabelValues, double>& slow) {
  std::vector<LabelValues> before, after;
  for (const auto& [labels, ratio] : slow) after.push_back(labels);
  {
    MutexLock lock(mutex_);
    const auto shown = shown_workers_.find(key);
    if (shown != shown_workers_.end()) before = std::move(shown->second);
    if (after.empty()) {
      shown_workers_.erase(key);
    } else {
      shown_workers_[key] = after;
    }
  }
  for (const LabelValues& labels : before) {
    if (slow.count(labels) == 0) worker_gauge_.Remove(labels);
  }
  for (const auto& [labels, ratio] : slow) worker_gauge_.With(labels).Set(ratio);
}

Result<kube::Action> SlowdownReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline,
                                                   std::stop_token stop) {
  const std::optional<api::TrainingRun> run = FindTrainingRun(env_.runs, key);
  if (!run || IsOver(run->status)) {
    Forget(key);
    return kube::Action::Done();
  }
  // A run that was traced is looked at on: what is no longer known must not stand there as if it were.
  const bool was_traced = env_.paces.Get(key) != nullptr || run->status.slowdown.has_value();
  if (!was_traced && env_.reports.TracesOf(key).empty()) return kube::Action::RequeueAfter(kUntracedPeriod);
  if (const Duration wait = pacer_.WaitBefore(key); wait > Duration::zero()) return kube::Action::RequeueAfter(wait);
  RETURN_IF_ERROR(Pull(key, *run, deadline, std::move(stop)));
  const std::optional<api::StragglerPolicy> policy =
      FindPolicy(env_.policies, PolicyNameOf(env_.catalog, *run).value_or(""));
  const api::Detection detection = policy ? policy->spec.detection : api::Detection{};
  const analysis::SlowdownOptions options = OptionsOf(detection).windows;
  const std::shared_ptr<const RunPaces> paces = env_.paces.Get(key);
  const analysis::ShareTable shares =
      analysis::SharesOf(paces->ranks, paces->expected_ranks, env_.clock.WallNow(), {}, options);
  const analysis::Slowdown slowdown = analysis::SlowdownOf(paces->ranks, shares, options);
  env_.log.Debug("slowdown",
                 {{"run", key.ToString()}, {"known", slowdown.slowdown.has_value()}, {"why_not", slowdown.why_not}});
  Show(key, slowdown);
  const Status written = Write(*run, slowdown, deadline);
  // What the server refuses for good must not end the looks.
  if (!written.ok() && !kube::IsTerminal(written)) return written;
  if (!written.ok()) env_.log.Warn("slowdown not written, retrying", {{"run", key.ToString()}, {"error", written}});
  return kube::Action::RequeueAfter(LookPeriod(detection));
}

}  // namespace paceline::operator_
