#include "operator/straggler/straggler_reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/incident/incident_metrics.h"
#include "operator/messages.h"
#include "operator/resources.h"
#include "operator/straggler/findings.h"
#include "operator/straggler/incident_book.h"
#include "operator/straggler/job_restart.h"
#include "operator/straggler/node_change.h"
#include "operator/straggler/node_mark.h"
#include "operator/straggler/probe_fleet.h"
#include "operator/straggler/straggler_names.h"
#include "operator/training_run/run_status.h"

namespace paceline::operator_ {
namespace {

using analysis::NodeState;
using api::StragglerAction;
using Json = nlohmann::json;

// Label values of the states that a run finds nodes in (in the order of NodeState), and of what was done.
constexpr const char* kNodeStates[] = {"unknown", "healthy", "suspect", "slow", "out", "vetoed"};

constexpr const char* kRestartAction = "RestartJob";
constexpr const char* kAdviceAction = "AdviseRestart";
constexpr const char* kProbeAction = "Probe";
constexpr api::ProbeVerdict kProbeVerdicts[] = {api::ProbeVerdict::kPending, api::ProbeVerdict::kUnknown,
                                                api::ProbeVerdict::kPassed, api::ProbeVerdict::kFailed};

std::string_view ActionText(const PolicyStep& step) {
  if (step.kind == StepKind::kRelease) return "Release";
  if (step.kind == StepKind::kClear) return "Clear";
  return step.action == StragglerAction::kCordon ? "Cordon" : "Taint";
}

void KeepFirst(const Status& status, Status& first) {
  if (first.ok()) first = status;
}

// What is known of one node in one run.
struct RunVerdict {
  std::shared_ptr<const api::TrainingRun> run;  // one for all nodes: it lists its workers
  analysis::NodeVerdict verdict;
};

}  // namespace

StragglerReconciler::StragglerReconciler(const StragglerEnvironment& environment)
    : env_(environment),
      nodes_gauge_(env_.metrics.GaugeFamily(
          {"paceline_straggler_nodes",
           "Nodes of a StragglerPolicy: what its runs say of them, and how many are out or put back by a person.",
           {"policy", "state"}})),
      refusals_gauge_(env_.metrics.GaugeFamily({"paceline_straggler_refused_nodes",
                                                "Slow nodes that a StragglerPolicy leaves alone now, by the reason.",
                                                {"policy", "reason"}})),
      breaker_gauge_(env_.metrics.GaugeFamily(
          {"paceline_straggler_breaker_tripped",
           "1 while a StragglerPolicy does nothing because too many nodes were blamed at a time.",
           {"policy"}})),
      probes_gauge_(env_.metrics.GaugeFamily(
          {"paceline_straggler_probed_nodes",
           "Nodes that a StragglerPolicy has out, by what their probe says, compared with like nodes.",
           {"policy", "verdict"}})),
      incidents_(IncidentsTotal(env_.metrics)),
      actions_(env_.metrics.CounterFamily({"paceline_straggler_actions_total",
                                           "What StragglerPolicies did to nodes.",
                                           {"policy", "action", "result"}})) {}

// One look at one policy.
class StragglerReconciler::Pass {
 public:
  Pass(StragglerReconciler& owner, api::StragglerPolicy policy, Deadline deadline)
      : owner_(owner),
        env_(owner.env_),
        policy_(std::move(policy)),
        name_(policy_.metadata.name),
        version_(policy_.metadata.resource_version),
        deadline_(deadline),
        now_(env_.clock.WallNow()),
        book_(policy_, env_.incidents, env_.client, now_, deadline),
        fleet_({env_.reports, env_.nodes, env_.pods}, policy_.spec.probe, now_) {}

  Result<kube::Action> Run() {
    const bool is_ending = policy_.metadata.deletion_timestamp.has_value();
    const Status done = is_ending ? End() : Look();
    if (is_ending && done.ok()) return kube::Action::Done();
    // What the server refuses for good, like a change of one node that an admission policy forbids, must not end the
    // looks at all others.
    if (!done.ok() && !kube::IsTerminal(done)) return done;
    if (!done.ok()) env_.log.Warn("policy not carried out in full, retrying", {{"policy", name_}, {"error", done}});
    return kube::Action::RequeueAfter(LookPeriod(policy_.spec.detection));
  }

 private:
  Status Look() {
    Find();
    Status first = KeepIncidents();
    // What cannot be told is not done.
    if (!first.ok()) TakeNobodyForSlow();
    ASSIGN_OR_RETURN(const PolicyPlan plan, Plan());
    RETURN_IF_ERROR(Hold(plan));
    RETURN_IF_ERROR(WriteStatus(plan.status));
    if (IsResetAsked()) RETURN_IF_ERROR(TakeResetAway());
    owner_.Show(name_, plan, findings_);
    for (const ProbeOrder& order : plan.probes) KeepFirst(Order(order), first);
    for (const api::ActedNode& acted : plan.status.acted_nodes) KeepFirst(NoteProbe(acted), first);
    for (const api::ActedNode& acted : Released(plan)) KeepFirst(NoteProbe(acted), first);
    for (const PolicyStep& step : plan.steps) KeepFirst(Take(step), first);
    for (const api::ActedNode& acted : plan.status.acted_nodes) KeepFirst(NoteApplied(acted), first);
    for (const Refusal& refusal : plan.refusals) KeepFirst(Note(refusal), first);
    for (const NodeRestart& restart : plan.restarts) KeepFirst(RestartJobs(restart), first);
    return first;
  }

  bool IsResetAsked() const {
    const auto found = policy_.metadata.annotations.find(std::string(kResetBreakerAnnotation));
    return found != policy_.metadata.annotations.end() && found->second == "true";
  }

  void TakeNobodyForSlow() {
    for (auto& [node, finding] : findings_) {
      if (finding.state == NodeState::kSlow) finding.state = NodeState::kSuspect;
    }
  }

  Result<PolicyPlan> Plan() const {
    PolicyInput input{policy_, {}, findings_, IsResetAsked(), now_};
    for (const auto& view : env_.nodes.List()) {
      PolicyNode node = ReadPolicyNode(*view, policy_.spec);
      node.probe = fleet_.ProbeOf(node.name);
      const bool is_marked = node.mark && node.mark->policy == name_;
      if (is_marked == IsActed(node.name)) {
        input.nodes.push_back(std::move(node));
        continue;
      }
      // A person's doing, a lost status, or a cache that is behind what we have just done: only the server knows.
      ASSIGN_OR_RETURN(std::optional<PolicyNode> fresh,
                       FetchPolicyNode(env_.client, node.name, policy_.spec, deadline_));
      if (!fresh) continue;
      fresh->probe = node.probe;
      input.nodes.push_back(*std::move(fresh));
    }
    return PlanPolicy(input);
  }

  // Sees to it that the policy does not go without what it has done being undone; before it does anything.
  Status Hold(const PolicyPlan& plan) {
    const auto& held = policy_.metadata.finalizers;
    const bool is_held = std::find(held.begin(), held.end(), kStragglerFinalizer) != held.end();
    if (is_held || plan.status.acted_nodes.empty()) return Status();
    ASSIGN_OR_RETURN(const Json object,
                     kube::AddFinalizer(env_.client, kStragglerPolicies, {"", name_}, kStragglerFinalizer, deadline_));
    ASSIGN_OR_RETURN(const api::StragglerPolicy held_policy, api::FromJson<api::StragglerPolicy>(object));
    if (held_policy.metadata.generation != policy_.metadata.generation) {
      return AbortedError("policy " + name_ + " says another thing by now");
    }
    version_ = held_policy.metadata.resource_version;
    return Status();
  }

  // What the runs under the policy say of their nodes.
  void Find() {
    const analysis::StragglerOptions options = OptionsOf(policy_.spec.detection);
    const WallTime since = policy_.status.evidence_since.value_or(WallTime{});
    for (const kube::ObjectKey& key : env_.paces.Runs()) {
      std::optional<api::TrainingRun> found = FindTrainingRun(env_.runs, key);
      const std::shared_ptr<const RunPaces> paces = env_.paces.Get(key);
      if (!found || paces == nullptr || IsOver(found->status)) continue;
      const auto run = std::make_shared<const api::TrainingRun>(*std::move(found));
      if (PolicyNameOf(env_.catalog, *run) != name_) continue;
      const analysis::ShareTable shares =
          analysis::SharesOf(paces->ranks, paces->expected_ranks, now_, since, options.windows);
      for (auto& [node, verdict] : analysis::FindStragglers(paces->ranks, shares, options)) {
        verdicts_[node].push_back({run, std::move(verdict)});
      }
    }
    for (const auto& [node, runs] : verdicts_) {
      std::vector<analysis::NodeVerdict> verdicts;
      for (const RunVerdict& run : runs) verdicts.push_back(run.verdict);
      const CombinedVerdict combined = Combine(verdicts, policy_.spec.detection.minimum_communicators);
      combined_[node] = combined;
      findings_[node] = {combined.state, verdicts[combined.worst].slowdown, {}, ApprovalState::kNotNeeded};
    }
  }

  // One open incident for each slow node under the policy; none for a node that is healthy, nor of a run that is over
  // or whose job names another policy by now. Returns the first error, having done the rest.
  Status KeepIncidents() {
    Status first;
    for (const std::string& node : book_.OpenNodes()) KeepFirst(CloseIfOver(node), first);
    for (auto& [node, finding] : findings_) {
      if (finding.state != NodeState::kSlow || !IsSelected(node)) continue;
      const api::Incident* incident = book_.OpenOf(node);
      if (incident == nullptr || !incident->status.verdict) {
        const Result<const api::Incident*> opened = OpenIncident(node);
        KeepFirst(opened.status(), first);
        if (!opened.ok()) continue;
        incident = *opened;
      }
      finding.incident = IncidentBook::KeyOf(*incident);
      finding.approval = book_.ApprovalOf(*incident);
    }
    return first;
  }

  Status CloseIfOver(const std::string& node) {
    const api::Incident& incident = *book_.OpenOf(node);
    const auto run = FindTrainingRun(env_.runs, {incident.metadata.ns, incident.spec.run});
    const bool is_over = !run || IsOver(run->status) || PolicyNameOf(env_.catalog, *run).value_or(name_) != name_;
    const auto finding = findings_.find(node);
    const bool is_healthy = finding != findings_.end() && finding->second.state == NodeState::kHealthy;
    const bool is_expired = !IsActed(node) && book_.ApprovalOf(incident) == ApprovalState::kExpired;
    if (!is_over && !is_healthy && !is_expired) return Status();
    if (is_expired) {
      // The next look asks anew: what was answered too late must not be taken for an answer.
      if (finding != findings_.end()) finding->second.state = NodeState::kSuspect;
      RETURN_IF_ERROR(NoteExpired(incident));
    }
    return book_.Resolve(node);
  }

  bool IsActed(const std::string& node) const {
    const auto& acted = policy_.status.acted_nodes;
    return std::any_of(acted.begin(), acted.end(), [&](const api::ActedNode& entry) { return entry.node == node; });
  }
  bool IsSelected(const std::string& node) const {
    const auto view = env_.nodes.Get("", node);
    return view != nullptr && ReadPolicyNode(*view, policy_.spec).is_selected;
  }

  Status NoteExpired(const api::Incident& incident) {
    return book_.Note(IncidentBook::KeyOf(incident),
                      {"Refused", incident.spec.trigger.node, now_, "ApprovalExpired: nobody has approved it in time"});
  }

  std::vector<std::string> PodsOf(const api::TrainingRun& run, const std::string& node) const {
    std::vector<std::string> pods;
    for (const auto& pod : env_.pods.ListBy("node", node)) {
      const bool is_of_run =
          pod->meta.ns == run.metadata.ns && pod->meta.labels.Get(api::kRunLabel) == run.metadata.name;
      if (is_of_run) pods.push_back(pod->meta.name.str());
    }
    return pods;
  }

  Result<const api::Incident*> OpenIncident(const std::string& node) {
    const CombinedVerdict& combined = combined_.at(node);
    const RunVerdict& worst = verdicts_.at(node)[combined.worst];
    const api::TrainingRun& run = *worst.run;
    const api::IncidentStatus status = StragglerStatus(node, worst.verdict, combined, PodsOf(run, node), policy_.spec);
    ASSIGN_OR_RETURN(const api::Incident* incident, book_.Open(run, node, status));
    Tell(run, node,
         api::Say(kSlowNode, fmt::format("{}. See: kubectl describe incident -n {} {}", incident->status.verdict->cause,
                                         incident->metadata.ns, incident->metadata.name)));
    owner_.incidents_.With({CategoryOf(*incident)}).Add();
    env_.log.Warn("slow node", {{"node", node},
                                {"policy", name_},
                                {"run", run.metadata.ns + "/" + run.metadata.name},
                                {"slowdown", worst.verdict.slowdown},
                                {"windows_over", worst.verdict.windows_over}});
    return incident;
  }

  // An event on the job, about the node, and one on the node, about the job.
  void Tell(const api::TrainingRun& run, const std::string& node, const std::string& note) const {
    const api::JobReference& job = run.spec.job;
    const kube::ObjectReference of_job{job.api_version, job.kind, run.metadata.ns, job.name, job.uid, ""};
    const std::string reason(kSlowNode.reason);
    env_.recorder.Record({of_job, NodeReference(node), kube::EventType::kWarning, reason, "Detect", note});
    env_.recorder.Record({NodeReference(node), of_job, kube::EventType::kWarning, reason, "Detect", note});
  }
  kube::ObjectReference NodeReference(const std::string& node) const {
    const auto view = env_.nodes.Get("", node);
    return {"v1", "Node", "", node, view == nullptr ? "" : view->meta.uid.str(), ""};
  }

  Status WriteStatus(const api::StragglerPolicyStatus& status) {
    api::StragglerPolicy after = policy_;
    after.status = status;
    const Json before = api::ToJson(policy_).value("status", Json::object());
    const Json wanted = api::ToJson(after).value("status", Json::object());
    if (before == wanted) return Status();
    // Only if nobody has changed the policy since it was read: what it says now may be another thing.
    const Json object = {{"metadata", {{"name", name_}, {"uid", policy_.metadata.uid}, {"resourceVersion", version_}}},
                         {"status", wanted}};
    const Result<Json> written =
        kube::Apply(env_.client, kStragglerPolicies, object, std::string(kStragglerManager), deadline_, "status");
    return written.status();
  }

  Status TakeResetAway() {
    const Json patch = {{"metadata", {{"annotations", {{std::string(kResetBreakerAnnotation), nullptr}}}}}};
    env_.log.Info("breaker reset", {{"policy", name_}});
    return env_.client.Patch(kStragglerPolicies, {"", name_}, kube::PatchType::kMerge, patch, {}, deadline_).status();
  }

  // Ok, too, when there is nothing left to do.
  Status Take(const PolicyStep& step) {
    const Result<bool> changed = ChangeNode(env_.client, policy_, step, now_, deadline_);
    const char* result = changed.ok() ? "done" : "failed";
    if (changed.ok() && !*changed) return Status();
    owner_.actions_.With({name_, std::string(ActionText(step)), result}).Add();
    if (!changed.ok()) return changed.status();
    env_.log.Warn("node changed", {{"node", step.node},
                                   {"policy", name_},
                                   {"action", ActionText(step)},
                                   {"reason", step.reason},
                                   {"incident", step.incident}});
    TellStep(step);
    return book_.Note(step.incident,
                      {std::string(ActionText(step)), step.node, now_, fmt::format("{}: done", step.reason)});
  }

  void TellStep(const PolicyStep& step) const {
    std::string what;
    const api::Advice* advice = nullptr;
    switch (step.kind) {
      case StepKind::kAct:
        advice = &kStragglerTakenOut;
        what = fmt::format("{} because policy {} blames it for a slow job; incident {}",
                           step.action == StragglerAction::kCordon ? "tainted and cordoned" : "tainted", name_,
                           step.incident);
        break;
      case StepKind::kRelease:
        advice = &kStragglerPutBack;
        what = fmt::format("put back by policy {}: {}", name_, step.reason);
        break;
      case StepKind::kClear:
        advice = &kStragglerVetoed;
        what = fmt::format("a person has put it back: policy {} leaves it alone for a while", name_);
        break;
    }
    env_.recorder.Record({NodeReference(step.node), std::nullopt,
                          step.kind == StepKind::kAct ? kube::EventType::kWarning : kube::EventType::kNormal,
                          std::string(advice->reason), std::string(ActionText(step)), api::Say(*advice, what)});
  }

  Status Order(const ProbeOrder& order) {
    return AskForProbe(env_.client, order, policy_.spec.probe.checks, fleet_.PeersOf(order.node), deadline_);
  }

  // Nodes that come back because their probe has passed: that, too, is told.
  static std::vector<api::ActedNode> Released(const PolicyPlan& plan) {
    std::vector<api::ActedNode> released;
    for (const PolicyStep& step : plan.steps) {
      if (step.kind != StepKind::kRelease || step.reason != "ProbePassed") continue;
      api::ActedNode& acted = released.emplace_back();
      acted.node = step.node;
      acted.incident = step.incident;
      acted.probe = api::ProbeVerdict::kPassed;
    }
    return released;
  }

  // What a probe says is noted with the Incident, with its numbers, and told as an event when it is new there.
  Status NoteProbe(const api::ActedNode& acted) {
    const ProbeFinding* finding = fleet_.FindingOf(acted.node);
    const bool is_told = acted.probe && *acted.probe != api::ProbeVerdict::kPending;
    if (!is_told || finding == nullptr || finding->verdict != *acted.probe) return Status();
    const std::string verdict(api::ProbeVerdictText(*acted.probe));
    const std::string key = fmt::format("{} {} {} ", name_, acted.node, acted.incident);
    if (owner_.noted_probes_.count(key + verdict) > 0) return Status();
    const std::string sentence = ProbeSentence(*finding);
    ASSIGN_OR_RETURN(const bool is_new,
                     book_.NoteProbe(acted.incident, {kProbeAction, acted.node, now_, verdict + ": " + sentence},
                                     ProbeEvidence(*finding)));
    // Of each node the latest only.
    std::erase_if(owner_.noted_probes_, [&](const std::string& noted) { return noted.starts_with(key); });
    owner_.noted_probes_.insert(key + verdict);
    if (is_new) TellProbe(acted.node, *acted.probe, sentence);
    return Status();
  }

  void TellProbe(const std::string& node, api::ProbeVerdict verdict, const std::string& sentence) const {
    const api::Advice* advice = &kProbeUnknown;
    if (verdict == api::ProbeVerdict::kPassed) advice = &kProbePassed;
    if (verdict == api::ProbeVerdict::kFailed) advice = &kProbeFailed;
    env_.log.Warn(
        "probe of a node that is out",
        {{"node", node}, {"policy", name_}, {"verdict", api::ProbeVerdictText(verdict)}, {"figures", sentence}});
    env_.recorder.Record({NodeReference(node), std::nullopt,
                          verdict == api::ProbeVerdict::kFailed ? kube::EventType::kWarning : kube::EventType::kNormal,
                          std::string(advice->reason), kProbeAction, api::Say(*advice, sentence)});
  }

  // Was done, and perhaps not noted by whoever was killed over it.
  Status NoteApplied(const api::ActedNode& acted) {
    if (!acted.is_applied) return Status();
    return book_.NoteOnce({std::string(ActionText({StepKind::kAct, acted.node, acted.action, {}, {}})), acted.node,
                           acted.since, "Slow: done"});
  }

  Status RestartJobs(const NodeRestart& restart) {
    Status first;
    for (const RunVerdict& found : verdicts_.at(restart.node)) {
      const std::optional<WallTime> began = found.run->metadata.creation_timestamp;
      const bool was_there = began && *began < restart.out_since;
      if (found.verdict.state == NodeState::kSlow && was_there) KeepFirst(RestartJob(restart, *found.run), first);
    }
    return first;
  }

  Status RestartJob(const NodeRestart& restart, const api::TrainingRun& run) {
    const api::JobReference& job = run.spec.job;
    const std::string start =
        fmt::format("{} {}/{}, start {}", job.kind, run.metadata.ns, job.name, run.spec.generation);
    const std::string why = fmt::format("policy {} has taken node {} out, which the job waits for; incident {}", name_,
                                        restart.node, restart.incident);
    ASSIGN_OR_RETURN(const RestartAnswer answer, AskForRestart(env_.client, run, why, deadline_));
    if (answer == RestartAnswer::kPassed) return Status();
    const bool is_asked = answer == RestartAnswer::kAsked;
    const api::IncidentAction action{
        is_asked ? kRestartAction : kAdviceAction, restart.node, now_,
        start + (is_asked ? ": asked to begin anew" : ": its user is advised to restart it")};
    ASSIGN_OR_RETURN(const bool is_noted, book_.HasNoted(restart.incident, action));
    if (is_noted) return Status();
    env_.log.Warn(is_asked ? "job asked to restart" : "restart of a job advised",
                  {{"policy", name_}, {"node", restart.node}, {"job", start}, {"incident", restart.incident}});
    owner_.actions_.With({name_, action.action, "done"}).Add();
    if (is_asked) return book_.Note(restart.incident, action);
    const std::string advice = api::Say(kRestartAdvised, start + ": " + why);
    const std::string reason(kRestartAdvised.reason);
    env_.recorder.Record({{job.api_version, job.kind, run.metadata.ns, job.name, job.uid, ""},
                          NodeReference(restart.node),
                          kube::EventType::kWarning,
                          reason,
                          "Restart",
                          advice});
    return book_.Note(
        restart.incident, action,
        api::Condition{.type = reason, .status = api::ConditionStatus::kTrue, .reason = reason, .message = advice});
  }

  Status Note(const Refusal& refusal) {
    if (refusal.incident.empty()) return Status();
    return book_.Note(refusal.incident,
                      {"Refused", refusal.node, now_, fmt::format("{}: {}", refusal.reason, refusal.message)});
  }

  // The policy goes: what it did is undone first. Nodes are taken from its status as well, since the cache may not know
  // yet what has just been done.
  Status End() {
    std::map<std::string, std::string> incidents;  // by node
    for (const api::ActedNode& acted : policy_.status.acted_nodes) incidents[acted.node] = acted.incident;
    for (const auto& view : env_.nodes.List()) {
      const std::optional<NodeMark> mark = ParseMark(view->meta.annotations.Get(kStragglerKey));
      if (mark && mark->policy == name_) incidents[view->meta.name.str()] = mark->incident;
    }
    Status first;
    for (const auto& [node, incident] : incidents) {
      KeepFirst(Take({StepKind::kRelease, node, policy_.spec.action, incident, "PolicyDeleted"}), first);
    }
    for (const std::string& node : book_.OpenNodes()) KeepFirst(book_.Resolve(node), first);
    RETURN_IF_ERROR(first);
    RETURN_IF_ERROR(
        kube::RemoveFinalizer(env_.client, kStragglerPolicies, {"", name_}, kStragglerFinalizer, deadline_));
    owner_.Forget(name_);
    return Status();
  }

  StragglerReconciler& owner_;
  const StragglerEnvironment& env_;
  const api::StragglerPolicy policy_;
  const std::string name_;
  std::string version_;  // of the policy that the pass knows
  const Deadline deadline_;
  const WallTime now_;
  IncidentBook book_;
  const ProbeFleet fleet_;
  std::map<std::string, std::vector<RunVerdict>> verdicts_;  // by node
  std::map<std::string, CombinedVerdict> combined_;
  std::map<std::string, NodeFinding> findings_;
};

void StragglerReconciler::Show(const std::string& policy, const PolicyPlan& plan,
                               const std::map<std::string, NodeFinding>& findings) {
  std::map<std::string, double> states, reasons;
  for (const char* state : kNodeStates) states[state] = 0;
  for (const std::string_view reason : kRefusalReasons) reasons[std::string(reason)] = 0;
  for (const auto& [node, finding] : findings) states[kNodeStates[static_cast<size_t>(finding.state)]] += 1;
  states["out"] = static_cast<double>(plan.status.acted_nodes.size());
  states["vetoed"] = static_cast<double>(plan.status.vetoes.size());
  for (const Refusal& refusal : plan.refusals) reasons[refusal.reason] += 1;
  for (const api::ProbeVerdict verdict : kProbeVerdicts) {
    const auto& acted = plan.status.acted_nodes;
    const auto count =
        std::count_if(acted.begin(), acted.end(), [&](const api::ActedNode& node) { return node.probe == verdict; });
    probes_gauge_.With({policy, std::string(api::ProbeVerdictText(verdict))}).Set(static_cast<double>(count));
  }
  for (const auto& [state, count] : states) nodes_gauge_.With({policy, state}).Set(count);
  for (const auto& [reason, count] : reasons) refusals_gauge_.With({policy, reason}).Set(count);
  // From zero on, so that a first action shows as an increase.
  for (const char* action : {"Taint", "Cordon", "Release", "Clear"}) {
    for (const char* result : {"done", "failed"}) actions_.With({policy, action, result});
  }
  for (const char* action : {kRestartAction, kAdviceAction}) actions_.With({policy, action, "done"});
  breaker_gauge_.With({policy}).Set(api::IsConditionTrue(plan.status.conditions, kBreakerCondition) ? 1 : 0);
}

void StragglerReconciler::Forget(const std::string& policy) {
  for (const char* state : kNodeStates) nodes_gauge_.Remove({policy, state});
  for (const std::string_view reason : kRefusalReasons) refusals_gauge_.Remove({policy, std::string(reason)});
  for (const api::ProbeVerdict verdict : kProbeVerdicts) {
    probes_gauge_.Remove({policy, std::string(api::ProbeVerdictText(verdict))});
  }
  std::erase_if(noted_probes_, [&](const std::string& noted) { return noted.starts_with(policy + " "); });
  breaker_gauge_.Remove({policy});
}

Result<kube::Action> StragglerReconciler::EndOfGone(const std::string& policy, Deadline deadline) {
  api::StragglerPolicy gone;
  gone.metadata.name = policy;
  IncidentBook book(gone, env_.incidents, env_.client, env_.clock.WallNow(), deadline);
  for (const std::string& node : book.OpenNodes()) RETURN_IF_ERROR(book.Resolve(node));
  Forget(policy);
  return kube::Action::Done();
}

Result<kube::Action> StragglerReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  // Not from the cache, which may lack what the pass before has written: the rate hangs on it.
  const Result<Json> object = env_.client.Get(kStragglerPolicies, key, deadline);
  if (object.status().code() == StatusCode::kNotFound) return EndOfGone(key.name, deadline);
  if (!object.ok()) return object.status();
  ASSIGN_OR_RETURN(api::StragglerPolicy policy, api::FromJson<api::StragglerPolicy>(*object));
  return Pass(*this, std::move(policy), deadline).Run();
}

}  // namespace paceline::operator_
