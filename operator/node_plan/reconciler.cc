#include "operator/node_plan/reconciler.h"

#include <map>
#include <nlohmann/json.hpp>

#include "lib/api/annotations.h"
#include "lib/api/codec.h"
#include "lib/api/node_plan.h"
#include "lib/api/training_job.h"
#include "lib/kube/apply.h"
#include "operator/kube_text.h"
#include "operator/names.h"
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

std::vector<api::PlannedJob> JobsOn(const NodePlanEnvironment& env, std::string_view node) {
  std::map<std::pair<std::string, std::string>, api::PlannedJob> jobs;  // by namespace and run, for a steady order
  for (const auto& pod : env.pods.ListBy("node", node)) {
    if (IsFinished(*pod)) continue;
    for (const JobKey& key : env.catalog.JobsOf(*pod)) {
      const JobObject job = env.catalog.Find(key);
      if (job == nullptr) continue;
      const std::string run = RunOf(env, *pod, job->meta.uid);
      if (run.empty() || jobs.count({key.ns, run}) > 0) continue;  // not one of ours, or not yet
      jobs[{key.ns, run}] = {key.ns, key.name, job->meta.uid.str(), run, WantsTracing(*key.kind, *job)};
    }
  }
  std::vector<api::PlannedJob> list;
  for (auto& [order, job] : jobs) list.push_back(std::move(job));
  return list;
}

}  // namespace

Result<kube::Action> NodePlanReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  const auto node = env_.nodes.Get("", key.name);
  if (node == nullptr) return kube::Action::Done();
  const std::string node_name = node->meta.name.str();
  api::NodePlan plan;
  plan.metadata.name = NodePlanName(node_name);
  plan.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
  plan.metadata.owner_references.push_back({"v1", "Node", node_name, node->meta.uid.str(), false, false});
  if (const auto existing = env_.plans.Get("", plan.metadata.name)) {
    ASSIGN_OR_RETURN(const Json body, existing->Body());
    const Result<api::NodePlan> before = api::FromJson<api::NodePlan>(body);
    plan.spec = before.ok() ? before->spec : api::NodePlanSpec{};
    plan.spec.jobs = JobsOn(env_, node_name);
    const bool has_owner = !existing->meta.owners.empty() && existing->meta.owners.front().uid == node->meta.uid;
    if (before.ok() && has_owner && existing->meta.labels.Contains(kManagedByLabel)) {
      api::NodePlan same = *before;
      same.spec.jobs = plan.spec.jobs;
      if (api::ToJson(same) == api::ToJson(*before)) return kube::Action::Done();
    }
  } else {
    plan.spec.jobs = JobsOn(env_, node_name);
  }
  Json object = api::ToJson(plan);
  object.erase("status");
  // Probes are asked for by others (operator/straggler, pacectl), each of which changes this field alone.
  object["spec"].erase("probe");
  // Said even when empty, so that the last job goes: what an apply leaves out, it gives up, and the spec would be null.
  if (!object["spec"].contains("jobs")) object["spec"]["jobs"] = Json::array();
  const Result<Json> written = kube::Apply(env_.client, kNodePlans, object, std::string(kNodePlanManager), deadline);
  if (!written.ok()) return written.status();
  return kube::Action::Done();
}

}  // namespace paceline::operator_
