#include "lib/api/restart.h"

#include <nlohmann/json.hpp>

#include "lib/api/names.h"

namespace paceline::api {

std::optional<std::string> RequestedRestart(const TrainingJob& job, int64_t generation) {
  const auto wish = job.metadata.annotations.find(std::string(kRestartAnnotation));
  if (wish == job.metadata.annotations.end() || wish->second != std::to_string(generation)) return std::nullopt;
  const auto reason = job.metadata.annotations.find(std::string(kRestartReasonAnnotation));
  return reason == job.metadata.annotations.end() ? std::string() : reason->second;
}

nlohmann::json RestartPatch(const TrainingJob& job, std::string_view reason) {
  nlohmann::json annotations = {{std::string(kRestartAnnotation), std::to_string(job.status.run_generation)},
                                {std::string(kRestartReasonAnnotation), nullptr}};
  if (!reason.empty()) annotations[std::string(kRestartReasonAnnotation)] = std::string(reason);
  return {{"metadata", {{"uid", job.metadata.uid}, {"annotations", std::move(annotations)}}}};
}

}  // namespace paceline::api
