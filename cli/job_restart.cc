#include "cli/job_restart.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/api/restart.h"

namespace paceline::cli {
namespace {

// Why there is no start to end; empty when there is one.
std::string_view WhyNothingToEnd(const api::TrainingJob& job) {
  if (job.metadata.deletion_timestamp) return "it is being deleted";
  if (job.spec.suspend) return "it is suspended: set spec.suspend to false to start it";
  if (api::IsConditionTrue(job.status.conditions, api::kCompleteCondition)) return "it is complete: create it anew";
  if (api::IsConditionTrue(job.status.conditions, api::kFailedCondition)) return "it has failed: create it anew";
  if (!job.status.start_time) return "it has not started yet";
  return "";
}

}  // namespace

Result<api::TrainingJob> AskForRestart(Session& session, const std::string& name, const std::string& reason) {
  const kube::Resource resource = ResourceOf(api::kTrainingJobKind);
  const kube::ObjectKey key{session.ns(), name};
  const Result<nlohmann::json> object = session.client().Get(resource, key, session.deadline());
  if (object.status().code() == StatusCode::kNotFound) {
    return NotFoundError(
        fmt::format("no TrainingJob \"{}\" in namespace {}; pacectl job ls shows all. Jobs of other "
                    "kinds are restarted with the tools of their kind",
                    name, session.ns()));
  }
  if (!object.ok()) return object.status();
  ASSIGN_OR_RETURN(api::TrainingJob job, api::FromJson<api::TrainingJob>(*object));
  if (const std::string_view why = WhyNothingToEnd(job); !why.empty()) {
    return InvalidArgumentError(fmt::format("TrainingJob {} has no start to end: {}", name, why));
  }
  RETURN_IF_ERROR(
      session.client()
          .Patch(resource, key, kube::PatchType::kMerge, api::RestartPatch(job, reason), {}, session.deadline())
          .status());
  return job;
}

nlohmann::json RestartValue(const api::TrainingJob& job) {
  return {{"job", job.metadata.name},
          {"namespace", job.metadata.ns},
          {"start", job.status.run_generation},
          {"next", job.status.run_generation + 1}};
}

}  // namespace paceline::cli
