#include "operator/node_plan/reconciler.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/api/node_plan.h"
#include "lib/api/training_job.h"
#include "lib/kube/apply.h"
#include "operator/kube_text.h"
#include "operator/names.h"
#include "operator/node_plan/peer_groups.h"
#include "operator/resources.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

bool WantsTracing(const api::JobKind& kind, const kube::ObjectView& job) {
  if (kind.group != api::kGroup) return api::ParseAnnotations(ToTextMap(job.meta.annotations)).settings.tracing.enabled;
  const auto body = job.Body();
  if (!body.ok()) return false;
  const Result<api::TrainingJob> training_job = api::FromJson<api::TrainingJob>(*body);
  return training_job.ok() && training_job->spec.tracing.enabled;
}

// The run that the pod belongs to: named by its label when the webhook or a TrainingJob made it, else the newest of its
// job. Empty while the job has none.
std::string RunOf(const NodePlanEnvironment& env, const kube::PodView& pod, std::string_view job_uid) {
  if (const kube::SharedString* label = pod.meta.labels.Find(api::kRunLabel)) return label->str();
  std::shared_ptr<const kube::ObjectView> newest;
  for (const auto& run : env.runs.ListBy("owner", job_uid)) {
    if (newest == nullptr || run->meta.creation_time > newest->meta.creation_time) newest = run;
  }
  return newest == nullptr ? std::string() : newest->meta.name.str();
}

// What of the plan follows from the pods of the node.
struct Wanted {
  std::vector<api::PlannedJob> jobs;
  std::vector<api::PlanPeer> peers;
};

PeerCandidate CandidateOf(const NodePlanEnvironment& env, const std::string& node) {
  PeerCandidate candidate{node, env.reports.PeerAddressOf(node), ""};
  if (const auto view = env.nodes.Get("", node)) {
    candidate.place = std::string(view->meta.labels.Get("topology.kubernetes.io/region")) + "/" +
                      std::string(view->meta.labels.Get("topology.kubernetes.io/zone"));
  }
  return candidate;
}

// The nodes on which the job has pods, or will have: those that are placed count before they run.
Status AddPeers(const NodePlanEnvironment& env, const std::string& node, const JobKey& key, const kube::ObjectView& job,
                std::vector<api::PlanPeer>* peers) {
  ASSIGN_OR_RETURN(const Json body, env.catalog.Body(*key.kind, job));
  std::set<std::string> nodes;
  for (const auto& pod : PodsOf(env.catalog, env.pods, key, body)) {
    if (!pod->spec.node_name.empty() && !IsFinished(*pod)) nodes.insert(pod->spec.node_name.str());
  }
  std::vector<PeerCandidate> candidates;
  for (const std::string& name : nodes) candidates.push_back(CandidateOf(env, name));
  for (api::PlanPeer& peer : PeersAmong(node, std::move(candidates))) {
    const bool is_there = std::any_of(peers->begin(), peers->end(),
                                      [&peer](const api::PlanPeer& known) { return known.node == peer.node; });
    if (!is_there && peers->size() < api::kMaxPlanPeers) peers->push_back(std::move(peer));
  }
  return Status();
}

Wanted WantedOn(const NodePlanEnvironment& env, const std::string& node) {
  std::map<std::pair<std::string, std::string>, api::PlannedJob> jobs;  // by namespace and run, for a steady order
  const bool has_peers = !env.reports.PeerAddressOf(node).empty();
  Wanted wanted;
  std::map<kube::ObjectKey, std::pair<JobKey, JobObject>> sharing;
  for (const auto& pod : env.pods.ListBy("node", node)) {
    if (IsFinished(*pod)) continue;
    for (const JobKey& key : env.catalog.JobsOf(*pod)) {
      const JobObject job = env.catalog.Find(key);
      if (job == nullptr) continue;
      const std::string run = RunOf(env, *pod, job->meta.uid);
      if (run.empty() || jobs.count({key.ns, run}) > 0) continue;  // not one of ours, or not yet
      jobs[{key.ns, run}] = {key.ns, key.name, job->meta.uid.str(), run, WantsTracing(*key.kind, *job)};
      if (has_peers) sharing.emplace(key.ToObjectKey(), std::pair(key, job));
    }
  }
  for (auto& [order, job] : jobs) wanted.jobs.push_back(std::move(job));
  for (const auto& [order, job] : sharing) {
    AddPeers(env, node, job.first, *job.second, &wanted.peers).IgnoreError();  // a job that cannot be read has no pods
  }
  return wanted;
}

bool IsSamePeers(const std::vector<api::PlanPeer>& a, const std::vector<api::PlanPeer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const api::PlanPeer& x, const api::PlanPeer& y) {
    return x.node == y.node && x.address == y.address;
  });
}

}  // namespace

Duration NodePlanReconciler::UntilPeersMayChange(const std::string& node) const {
  const TimePoint now = env_.clock.Now();
  MutexLock lock(mutex_);
  const auto written = peers_written_.find(node);
  if (written == peers_written_.end()) return Duration::zero();
  return std::max<Duration>(written->second + kPeersWriteInterval - now, Duration::zero());
}

Result<kube::Action> NodePlanReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  const auto node = env_.nodes.Get("", key.name);
  if (node == nullptr) {
    MutexLock lock(mutex_);
    peers_written_.erase(key.name);
    return kube::Action::Done();
  }
  const std::string node_name = node->meta.name.str();
  api::NodePlan plan;
  plan.metadata.name = NodePlanName(node_name);
  plan.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
  plan.metadata.owner_references.push_back({"v1", "Node", node_name, node->meta.uid.str(), false, false});
  Wanted wanted = WantedOn(env_, node_name);
  bool is_other_peers = !wanted.peers.empty();
  if (const auto existing = env_.plans.Get("", plan.metadata.name)) {
    ASSIGN_OR_RETURN(const Json body, existing->Body());
    const Result<api::NodePlan> before = api::FromJson<api::NodePlan>(body);
    plan.spec = before.ok() ? before->spec : api::NodePlanSpec{};
    plan.spec.jobs = wanted.jobs;
    plan.spec.peers = wanted.peers;
    const bool has_owner = !existing->meta.owners.empty() && existing->meta.owners.front().uid == node->meta.uid;
    if (before.ok() && has_owner && existing->meta.labels.Contains(kManagedByLabel)) {
      is_other_peers = !IsSamePeers(before->spec.peers, wanted.peers);
      api::NodePlan same = *before;
      same.spec.jobs = plan.spec.jobs;
      const bool is_same = api::ToJson(same) == api::ToJson(*before);
      if (is_same && !is_other_peers) return kube::Action::Done();
      const Duration wait = UntilPeersMayChange(node_name);
      if (is_same && wait > Duration::zero()) return kube::Action::RequeueAfter(wait);
    }
  } else {
    plan.spec.jobs = std::move(wanted.jobs);
    plan.spec.peers = std::move(wanted.peers);
  }
  Json object = api::ToJson(plan);
  object.erase("status");
  // Probes are asked for by others (operator/straggler, pacectl), each of which changes this field alone.
  object["spec"].erase("probe");
  // Said even when empty, so that the last one goes: what an apply leaves out, it gives up, and the spec would be null.
  for (const char* list : {"jobs", "peers"}) {
    if (!object["spec"].contains(list)) object["spec"][list] = Json::array();
  }
  const Result<Json> written = kube::Apply(env_.client, kNodePlans, object, std::string(kNodePlanManager), deadline);
  if (!written.ok()) return written.status();
  if (is_other_peers) {
    const TimePoint now = env_.clock.Now();
    MutexLock lock(mutex_);
    peers_written_[node_name] = now;
  }
  return kube::Action::Done();
}

}  // namespace paceline::operator_
