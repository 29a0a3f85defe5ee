#include "operator/straggler/job_restart.h"

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/api/restart.h"
#include "operator/resources.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

}  // namespace

Result<RestartAnswer> AskForRestart(kube::Client& client, const api::TrainingRun& run, std::string_view reason,
                                    Deadline deadline) {
  const api::JobReference& reference = run.spec.job;
  if (reference.kind != api::kTrainingJobKind.kind || reference.api_version != api::kApiVersion) {
    return RestartAnswer::kAdvise;
  }
  const kube::ObjectKey key{run.metadata.ns, reference.name};
  const Result<Json> object = client.Get(kTrainingJobs, key, deadline);
  if (object.status().code() == StatusCode::kNotFound) return RestartAnswer::kPassed;
  if (!object.ok()) return object.status();
  ASSIGN_OR_RETURN(const api::TrainingJob job, api::FromJson<api::TrainingJob>(*object));
  const bool is_at_this_start = job.metadata.uid == reference.uid && !job.metadata.deletion_timestamp &&
                                job.status.run_generation == run.spec.generation;
  if (!is_at_this_start) return RestartAnswer::kPassed;
  if (api::RequestedRestart(job, run.spec.generation)) return RestartAnswer::kAsked;
  const Json patch = api::RestartPatch(job, reason);
  const Result<Json> written = client.Patch(kTrainingJobs, key, kube::PatchType::kMerge, patch, {}, deadline);
  if (written.status().code() == StatusCode::kNotFound) return RestartAnswer::kPassed;
  return written.ok() ? Result<RestartAnswer>(RestartAnswer::kAsked) : written.status();
}

}  // namespace paceline::operator_
