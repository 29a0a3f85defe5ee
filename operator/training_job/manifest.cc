#include "operator/training_job/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "operator/checkpoint_volumes.h"
#include "operator/names.h"
#include "operator/resources.h"
#include "operator/run_identity.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kIndexField = "metadata.annotations['batch.kubernetes.io/job-completion-index']";

RunIdentity IdentityOf(const api::TrainingJob& job, int64_t generation) {
  RunIdentity identity;
  identity.job_kind = std::string(api::kTrainingJobKind.kind);
  identity.job_name = job.metadata.name;
  identity.job_uid = job.metadata.uid;
  identity.generation = generation;
  return identity;
}

Json OwnerReferences(const api::TrainingJob& job) {
  return Json::array({{{"apiVersion", api::kApiVersion},
                       {"kind", api::kTrainingJobKind.kind},
                       {"name", job.metadata.name},
                       {"uid", job.metadata.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

Json ObjectLabels(const api::TrainingJob& job, int64_t generation) {
  Json labels = IdentityLabels(IdentityOf(job, generation));
  labels[std::string(kManagedByLabel)] = kManagedByValue;
  return labels;
}

std::vector<Json> RendezvousEnv(const api::TrainingJob& job, int64_t generation) {
  const api::TrainingJobSpec& spec = job.spec;
  const std::string job_name = JobName(job.metadata.name, generation);
  // Not fully qualified: the first search domain of the pod ends it, whatever the cluster's domain is called.
  const std::string address = WorkerHostName(job_name, 0) + "." + ServiceName(job.metadata.name);
  const std::string port = std::to_string(spec.rendezvous.port);
  const std::string nodes = std::to_string(spec.workers);
  const std::string procs = std::to_string(spec.procs_per_worker);
  std::vector<Json> env = {EnvValue("MASTER_ADDR", address),
                           EnvValue("MASTER_PORT", port),
                           EnvValue("WORLD_SIZE", std::to_string(spec.workers * spec.procs_per_worker)),
                           EnvValue("NNODES", nodes),
                           EnvValue("NPROC_PER_NODE", procs),
                           EnvField("NODE_RANK", kIndexField)};
  if (spec.procs_per_worker == 1) {
    env.push_back(EnvField("RANK", kIndexField));
    env.push_back(EnvValue("LOCAL_RANK", "0"));
    env.push_back(EnvValue("LOCAL_WORLD_SIZE", "1"));
  }
  if (spec.rendezvous.backend == api::RendezvousBackend::kC10d) {
    env.push_back(EnvValue("PET_RDZV_BACKEND", "c10d"));
    env.push_back(EnvValue("PET_RDZV_ENDPOINT", address + ":" + port));
    env.push_back(EnvValue("PET_RDZV_ID", job_name));
    env.push_back(EnvValue("PET_NNODES", nodes));
    env.push_back(EnvValue("PET_NPROC_PER_NODE", procs));
    env.push_back(EnvField("PET_NODE_RANK", kIndexField));
  }
  return env;
}

void AddEnv(Json& pod_spec, const char* containers, const std::vector<Json>& env) {
  const auto found = pod_spec.find(containers);
  if (found == pod_spec.end() || !found->is_array()) return;
  for (Json& container : *found) {
    if (container.is_object()) AppendMissingEnv(container["env"], env);
  }
}

// The user's own entries come first and win: a name, or a path of a container, is never used twice.
void AppendMissing(Json& list, const std::vector<Json>& entries, const char* key) {
  if (!list.is_array()) list = Json::array();
  for (const Json& entry : entries) {
    const bool is_taken = std::any_of(list.begin(), list.end(), [&](const Json& present) {
      return present.is_object() && present.contains(key) && present[key] == entry[key];
    });
    if (!is_taken) list.push_back(entry);
  }
}

// In the template and not by the webhook: a worker that starts without them would write its checkpoints to nowhere.
void AddCheckpoints(Json& pod_spec, const std::vector<api::Checkpoint>& checkpoints) {
  if (checkpoints.empty()) return;
  AppendMissing(pod_spec["volumes"], CheckpointVolumes(checkpoints), "name");
  const std::vector<Json> mounts = CheckpointMounts(checkpoints);
  for (const char* list : {"initContainers", "containers"}) {
    const auto found = pod_spec.find(list);
    if (found == pod_spec.end() || !found->is_array()) continue;
    for (Json& container : *found) {
      if (container.is_object()) AppendMissing(container["volumeMounts"], mounts, "mountPath");
    }
  }
}

Json PodTemplate(const api::TrainingJob& job, int64_t generation) {
  Json pod = job.spec.pod_template == nullptr ? Json::object() : *job.spec.pod_template;
  Json& labels = pod["metadata"]["labels"];
  for (const auto& [key, value] : IdentityLabels(IdentityOf(job, generation))) labels[key] = value;
  Json& spec = pod["spec"];
  spec["restartPolicy"] = "Never";
  spec["subdomain"] = ServiceName(job.metadata.name);
  std::vector<Json> env = RendezvousEnv(job, generation);
  for (Json& entry : IdentityEnv(IdentityOf(job, generation))) env.push_back(std::move(entry));
  AddEnv(spec, "initContainers", env);
  AddEnv(spec, "containers", env);
  AddCheckpoints(spec, job.spec.checkpoints);
  return pod;
}

}  // namespace

Json ServiceManifest(const api::TrainingJob& job) {
  Json labels = {{kManagedByLabel, kManagedByValue}, {api::kJobUidLabel, job.metadata.uid}};
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata",
       {{"name", ServiceName(job.metadata.name)},
        {"namespace", job.metadata.ns},
        {"labels", std::move(labels)},
        {"ownerReferences", OwnerReferences(job)}}},
      {"spec",
       {{"clusterIP", "None"},
        {"publishNotReadyAddresses", true},
        {"selector", {{api::kJobUidLabel, job.metadata.uid}}},
        {"ports", Json::array({{{"name", "rendezvous"}, {"port", job.spec.rendezvous.port}, {"protocol", "TCP"}}})}}}};
}

Json JobManifest(const api::TrainingJob& job, const StartSpec& start) {
  Json annotations = {{kRestartsAnnotation, std::to_string(start.restarts)}};
  if (start.requested_at) annotations[std::string(kRequestedAtAnnotation)] = FormatRfc3339Micro(*start.requested_at);
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata",
           {{"name", JobName(job.metadata.name, start.generation)},
            {"namespace", job.metadata.ns},
            {"labels", ObjectLabels(job, start.generation)},
            {"annotations", std::move(annotations)},
            {"ownerReferences", OwnerReferences(job)}}},
          {"spec",
           {{"completionMode", "Indexed"},
            {"completions", job.spec.workers},
            {"parallelism", job.spec.workers},
            // One failure ends the gang: the others would wait in a collective for ever and hold their GPUs.
            {"backoffLimit", 0},
            // A pod that is being removed is not replaced beside the others: the gang starts again as a whole.
            {"podReplacementPolicy", "Failed"},
            {"template", PodTemplate(job, start.generation)}}}};
}

}  // namespace paceline::operator_
