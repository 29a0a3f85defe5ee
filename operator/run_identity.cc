#include "operator/run_identity.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "operator/names.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

bool IsAlphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool IsLabelValue(std::string_view text) {
  if (text.empty() || text.size() > kMaxDnsLabel || !IsAlphanumeric(text.front()) || !IsAlphanumeric(text.back()))
    return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

std::string RunIdentity::Run() const {
  return RunName(job_name, gang.empty() ? job_uid : job_uid + "/" + gang, generation);
}

std::map<std::string, std::string> IdentityLabels(const RunIdentity& identity) {
  std::map<std::string, std::string> labels;
  labels[std::string(api::kJobKindLabel)] = identity.job_kind;
  if (IsLabelValue(identity.job_name)) labels[std::string(api::kJobNameLabel)] = identity.job_name;
  labels[std::string(api::kJobUidLabel)] = identity.job_uid;
  labels[std::string(api::kGenerationLabel)] = std::to_string(identity.generation);
  labels[std::string(api::kRunLabel)] = identity.Run();
  if (identity.rank) labels[std::string(api::kRankLabel)] = std::to_string(*identity.rank);
  return labels;
}

Json EnvValue(std::string_view name, std::string_view value) { return {{"name", name}, {"value", value}}; }

Json EnvField(std::string_view name, std::string_view field_path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", field_path}}}}}};
}

std::vector<Json> IdentityEnv(const RunIdentity& identity) {
  return {EnvValue("PACELINE_RUN", identity.Run()),
          EnvValue("PACELINE_JOB", identity.job_name),
          EnvValue("PACELINE_JOB_KIND", identity.job_kind),
          EnvValue("PACELINE_JOB_UID", identity.job_uid),
          EnvValue("PACELINE_GENERATION", std::to_string(identity.generation)),
          EnvField("PACELINE_NAMESPACE", "metadata.namespace"),
          EnvField("PACELINE_POD", "metadata.name"),
          EnvField("PACELINE_POD_UID", "metadata.uid"),
          EnvField("PACELINE_NODE", "spec.nodeName")};
}

int AppendMissingEnv(Json& env, const std::vector<Json>& additions) {
  if (env.is_null()) env = Json::array();
  if (!env.is_array()) return 0;
  int added = 0;
  for (const Json& addition : additions) {
    const bool is_there = std::any_of(env.begin(), env.end(), [&](const Json& entry) {
      return entry.is_object() && entry.value("name", Json()) == addition["name"];
    });
    if (is_there) continue;
    env.push_back(addition);
    ++added;
  }
  return added;
}

}  // namespace paceline::operator_
