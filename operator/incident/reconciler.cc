#include "operator/incident/reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/root_cause.h"
#include "analysis/slow_link.h"
#include "lib/api/codec.h"
#include "lib/api/incident_advice.h"
#include "lib/api/training_run.h"
#include "lib/kube/apply.h"
#include "operator/incident/incident_metrics.h"
#include "operator/messages.h"
#include "operator/names.h"
#include "operator/resources.h"
#include "operator/straggler/straggler_names.h"
#include "operator/training_run/run_status.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxNamedIncidents = 16;  // in the run's status
constexpr size_t kNameHashChars = 6;

// The pod behind a process: on its node, of this run, with the process's host name, to which kubelet cuts the pod's
// name.
std::string PodOf(const IncidentEnvironment& env, const kube::ObjectKey& run, const analysis::Culprit& culprit) {
  std::string only;
  size_t pods = 0;
  for (const auto& pod : env.pods.ListBy("node", culprit.node)) {
    if (pod->meta.ns != run.ns || pod->meta.labels.Get(api::kRunLabel) != run.name) continue;
    const std::string name = pod->meta.name.str();
    if (name == culprit.host || name.rfind(culprit.host + "-", 0) == 0) return name;
    only = name;
    ++pods;
  }
  return pods == 1 ? only : std::string();
}

std::string Join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

const api::Advice& AdviceOf(const api::Incident& incident) {
  return incident.spec.trigger.kind == api::TriggerKind::kSlowdown ? kTrainingSlow : kTrainingStalled;
}

// What a person reads in `kubectl describe`: what, who, and where to look on.
std::string EventText(const api::Incident& incident) {
  const api::Verdict& verdict = *incident.status.verdict;
  std::string who;
  if (!verdict.pods.empty()) who += "; pod " + Join(verdict.pods);
  if (!verdict.nodes.empty()) who += "; node " + Join(verdict.nodes);
  // What to do depends on the cause, not on how it was noticed.
  api::Advice advice = AdviceOf(incident);
  advice.action = api::VerdictAdvice(CategoryOf(incident)).action;
  return api::Say(advice, fmt::format("{}{} (confidence {:.0f} %). See: kubectl describe incident {}", verdict.cause,
                                      who, verdict.confidence * 100, incident.metadata.name));
}

}  // namespace

// One look at one run.
class IncidentReconciler::Pass {
 public:
  Pass(IncidentReconciler& owner, const kube::ObjectKey& key, Deadline deadline, std::stop_token stop)
      : owner_(owner),
        env_(owner.env_),
        options_(owner.options_),
        key_(key),
        deadline_(deadline),
        stop_(std::move(stop)),
        reports_(env_.reports.TracesOf(key)) {}

  Result<kube::Action> Run() {
    RETURN_IF_ERROR(LoadRun());
    LoadIncidents();
    RETURN_IF_ERROR(NameInRun());
    const std::optional<api::IncidentTrigger> trigger = FirstTrigger(reports_);
    const bool is_over = !run_ || IsOver(run_->status);
    const Memory memory = owner_.Remember(key_, trigger.has_value() && !is_over);
    if (is_over || !trigger) return Close(is_over, memory);
    api::Incident* open = Open();
    if (open != nullptr && open->status.verdict) return kube::Action::Done();  // until the alerts change
    return LookInto(*trigger, open, env_.clock.Now() - *memory.alarmed);
  }

 private:
  Status LoadRun() {
    const auto view = env_.runs.Get(key_);
    if (view == nullptr || view->meta.IsBeingDeleted()) return Status();
    ASSIGN_OR_RETURN(const Json body, view->Body());
    ASSIGN_OR_RETURN(run_, api::FromJson<api::TrainingRun>(body));
    return Status();
  }

  void LoadIncidents() {
    for (const auto& view : env_.incidents.ListBy(api::kRunLabel, key_.name)) {
      if (view->meta.ns != key_.ns) continue;
      const auto body = view->Body();
      if (!body.ok()) continue;
      Result<api::Incident> incident = api::FromJson<api::Incident>(*body);
      if (!incident.ok()) continue;
      names_.emplace(incident->spec.trigger.at, incident->metadata.name);
      // Those of straggler policies have a controller of their own.
      if (!view->meta.annotations.Contains(kPolicyOfIncident)) incidents_.push_back(*std::move(incident));
    }
    std::sort(incidents_.begin(), incidents_.end(),
              [](const api::Incident& a, const api::Incident& b) { return a.spec.trigger.at < b.spec.trigger.at; });
  }

  // The incident that is not over, which may be one that an operator began and did not get to tell.
  api::Incident* Open() {
    for (api::Incident& incident : incidents_) {
      if (incident.status.state != api::IncidentState::kResolved) return &incident;
    }
    return nullptr;
  }

  Result<kube::Action> Close(bool is_over, const Memory& memory) {
    api::Incident* open = Open();
    if (open == nullptr) {
      owner_.Forget(key_);
      return kube::Action::Done();
    }
    const Duration quiet = memory.quiet ? env_.clock.Now() - *memory.quiet : Duration::zero();
    if (!is_over && quiet < options_.quiet_time) return kube::Action::RequeueAfter(options_.quiet_time - quiet);
    open->status.state = api::IncidentState::kResolved;
    open->status.resolved_at = env_.clock.WallNow();
    RETURN_IF_ERROR(WriteStatus(*open));
    env_.log.Info("incident resolved", {{"incident", open->metadata.name}, {"namespace", key_.ns}});
    owner_.Forget(key_);
    return kube::Action::Done();
  }

  std::vector<TracedNode> Nodes() const {
    std::set<std::string> names;
    for (const auto& [node, report] : reports_) names.insert(node);
    for (const std::string& node : run_->status.nodes) names.insert(node);
    std::vector<TracedNode> nodes;
    for (const std::string& name : names) nodes.push_back({name, env_.reports.AddressOf(name)});
    return nodes;
  }

  Result<kube::Action> LookInto(const api::IncidentTrigger& trigger, api::Incident* open, Duration lasted) {
    const TimePoint start = env_.clock.Now();
    const Deadline limit = Deadline::After(env_.clock, options_.pull_timeout).Min(deadline_);
    const analysis::Tables tables = env_.traces.TablesOf(key_, Nodes(), limit, stop_);
    if (stop_.stop_requested()) return CancelledError("asked to stop");
    owner_.unanswered_.With({}).Add(static_cast<double>(tables.missing.size()));
    const analysis::Verdict verdict = trigger.kind == api::TriggerKind::kSlowdown
                                          ? analysis::DiagnoseSlowdown(tables, owner_.AddLook(key_, tables))
                                          : analysis::Diagnose(tables);
    owner_.durations_.With({}).Observe(ToSeconds(env_.clock.Now() - start));
    const Judgement judgement = Judge(verdict, tables, trigger.kind, lasted, options_.judge);
    if (!judgement.is_incident) {
      env_.log.Debug("alert looked into", {{"run", key_.ToString()}, {"outcome", judgement.why_not}});
      return kube::Action::RequeueAfter(options_.look_period);
    }
    api::Incident made;
    if (open == nullptr) {
      ASSIGN_OR_RETURN(made, Create(trigger));
      open = &made;
    }
    open->status = StatusOf(verdict, [this](const analysis::Culprit& culprit) { return PodOf(env_, key_, culprit); });
    RETURN_IF_ERROR(WriteStatus(*open));
    names_.emplace(open->spec.trigger.at, open->metadata.name);
    RETURN_IF_ERROR(NameInRun());
    Tell(*open);
    return kube::Action::Done();
  }

  Result<api::Incident> Create(const api::IncidentTrigger& trigger) const {
    api::Incident incident;
    // The same alert gives the same name, whoever asks and how often.
    const int64_t at = trigger.at ? trigger.at->time_since_epoch().count() : 0;
    incident.metadata.name =
        fmt::format("{}-{}", key_.name, ShortHash(fmt::format("{} {}", trigger.node, at), kNameHashChars));
    incident.metadata.ns = key_.ns;
    incident.metadata.labels.emplace(api::kRunLabel, key_.name);
    incident.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
    incident.metadata.owner_references.push_back({std::string(api::kApiVersion),
                                                  std::string(api::kTrainingRunKind.kind), key_.name,
                                                  run_->metadata.uid, true, false});
    incident.spec = {run_->spec.job, key_.name, trigger};
    Json object = api::ToJson(incident);
    object.erase("status");
    Result<Json> made =
        env_.client.Create(kIncidents, object, {.field_manager = std::string(kIncidentManager)}, deadline_);
    if (made.status().code() == StatusCode::kAlreadyExists) {
      made = env_.client.Get(kIncidents, {key_.ns, incident.metadata.name}, deadline_);  // the cache is behind
    }
    if (!made.ok()) return made.status();
    return api::FromJson<api::Incident>(*made);
  }

  Status WriteStatus(const api::Incident& incident) const {
    const Json object = {
        {"metadata", {{"name", incident.metadata.name}, {"namespace", key_.ns}, {"uid", incident.metadata.uid}}},
        {"status", api::ToJson(incident).at("status")}};
    const Result<Json> written =
        kube::Apply(env_.client, kIncidents, object, std::string(kIncidentManager), deadline_, "status");
    return written.status().code() == StatusCode::kNotFound ? Status() : written.status();
  }

  // The newest incidents of the run, in its status.
  Status NameInRun() const {
    std::vector<std::string> names;
    for (const auto& [at, name] : names_) names.push_back(name);
    if (names.size() > kMaxNamedIncidents) names.erase(names.begin(), names.end() - kMaxNamedIncidents);
    if (!run_) return Status();
    // None is taken away for it: the cache may not have the newest yet.
    const std::set<std::string> told(run_->status.incidents.begin(), run_->status.incidents.end());
    if (std::all_of(names.begin(), names.end(), [&](const auto& name) { return told.count(name) != 0; }))
      return Status();
    const Json object = {{"metadata", {{"name", key_.name}, {"namespace", key_.ns}, {"uid", run_->metadata.uid}}},
                         {"status", {{"incidents", names}}}};
    const Result<Json> written =
        kube::Apply(env_.client, kTrainingRuns, object, std::string(kIncidentManager), deadline_, "status");
    return written.status().code() == StatusCode::kNotFound ? Status() : written.status();
  }

  void Tell(const api::Incident& incident) const {
    const api::Verdict& verdict = *incident.status.verdict;
    const std::string category = CategoryOf(incident);
    owner_.incidents_.With({category}).Add();
    const api::JobReference& job = run_->spec.job;
    env_.recorder.Record({{job.api_version, job.kind, key_.ns, job.name, job.uid, ""},
                          std::nullopt,
                          kube::EventType::kWarning,
                          std::string(AdviceOf(incident).reason),
                          "Diagnose",
                          EventText(incident)});
    env_.log.Warn("incident", {{"incident", incident.metadata.name},
                               {"namespace", key_.ns},
                               {"category", category},
                               {"cause", verdict.cause},
                               {"nodes", Join(verdict.nodes)}});
  }

  IncidentReconciler& owner_;
  const IncidentEnvironment& env_;
  const IncidentOptions& options_;
  const kube::ObjectKey key_;
  const Deadline deadline_;
  const std::stop_token stop_;
  const std::map<std::string, TraceReport> reports_;
  std::optional<api::TrainingRun> run_;
  std::vector<api::Incident> incidents_;                             // of the run and this controller, oldest first
  std::set<std::pair<std::optional<WallTime>, std::string>> names_;  // of all, by time
};

IncidentReconciler::IncidentReconciler(const IncidentEnvironment& environment, const IncidentOptions& options)
    : env_(environment),
      options_(options),
      incidents_(IncidentsTotal(env_.metrics)),
      durations_(env_.metrics.HistogramFamily({"paceline_incident_diagnosis_duration_seconds",
                                               "From asking the agents of a run for their tables to the verdict.",
                                               {}},
                                              ExponentialBuckets(0.01, 2, 10))),
      unanswered_(env_.metrics.CounterFamily({"paceline_trace_unanswered_total",
                                              "Agents that gave no tables when they were asked for a diagnosis.",
                                              {}})) {
  unanswered_.With({});  // from zero on, as all counters
}

IncidentReconciler::Memory IncidentReconciler::Remember(const kube::ObjectKey& key, bool has_alerts) {
  const TimePoint now = env_.clock.Now();
  MutexLock lock(mutex_);
  Memory& memory = memories_[key];
  if (has_alerts) {
    if (!memory.alarmed) memory.alarmed = now;
    memory.quiet.reset();
  } else {
    memory.alarmed.reset();
    memory.gaps = {};
    if (!memory.quiet) memory.quiet = now;
  }
  return memory;
}

analysis::LinkGaps IncidentReconciler::AddLook(const kube::ObjectKey& key, const analysis::Tables& tables) {
  MutexLock lock(mutex_);
  Memory& memory = memories_[key];
  memory.gaps.Add(tables);
  return memory.gaps;
}

void IncidentReconciler::Forget(const kube::ObjectKey& key) {
  MutexLock lock(mutex_);
  memories_.erase(key);
}

Result<kube::Action> IncidentReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline,
                                                   std::stop_token stop) {
  return Pass(*this, key, deadline, std::move(stop)).Run();
}

}  // namespace paceline::operator_
