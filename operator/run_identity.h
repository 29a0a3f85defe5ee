// Which run a pod belongs to, as it is written on the pod: labels for selectors, environment for the code inside. The
// TrainingJob controller writes it into its pod templates and the webhook onto the pods of all other kinds, the same
// way. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline::operator_ {

struct RunIdentity {
  std::string job_kind;  // "TrainingJob", "JobSet", ...
  std::string job_name;
  std::string job_uid;
  std::string gang;  // of several in one job; usually empty
  int64_t generation = 0;
  std::optional<int64_t> rank;

  // The name of the TrainingRun.
  std::string Run() const;
};

// paceline.dev/* labels. The job's name is left out when it is no legal label value.
std::map<std::string, std::string> IdentityLabels(const RunIdentity& identity);

// EnvVar objects PACELINE_RUN, _JOB, _JOB_KIND, _JOB_UID, _GENERATION, _NAMESPACE, _POD, _POD_UID, _NODE; the last four
// by the downward API.
std::vector<nlohmann::json> IdentityEnv(const RunIdentity& identity);

// Adds to `env` (an array, made when null) what is not there by name. Returns how many were added.
int AppendMissingEnv(nlohmann::json& env, const std::vector<nlohmann::json>& additions);

// {"name": ..., "value": ...} and {"name": ..., "valueFrom": {"fieldRef": ...}}.
nlohmann::json EnvValue(std::string_view name, std::string_view value);
nlohmann::json EnvField(std::string_view name, std::string_view field_path);

}  // namespace paceline::operator_
