#include "operator/jobs/job_facts.h"

#include <array>
#include <nlohmann/json.hpp>

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

// Null when it is not there or the pointer is empty.
const Json* At(const Json& object, std::string_view pointer) {
  if (pointer.empty()) return nullptr;
  const Json::json_pointer path{std::string(pointer)};
  return object.contains(path) ? &object.at(path) : nullptr;
}

std::string TextAt(const Json& object, std::string_view pointer) {
  const Json* value = At(object, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<WallTime> TimeAt(const Json& object, std::string_view pointer) {
  const Result<WallTime> time = ParseRfc3339(TextAt(object, pointer));
  return time.ok() ? std::optional(*time) : std::nullopt;
}

const Json* FindCondition(const Json& job, std::string_view type) {
  const Json* conditions = At(job, "/status/conditions");
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  for (const Json& condition : *conditions) {
    if (TextAt(condition, "/type") == type) return &condition;
  }
  return nullptr;
}

JobEndFacts FromCondition(const Json& condition, ReportedEnd end) {
  return {end, TextAt(condition, "/reason"), TextAt(condition, "/message"), TimeAt(condition, "/lastTransitionTime")};
}

ReportedEnd EndOfPhase(std::string_view phase) {
  if (phase == "Completed" || phase == "SUCCEEDED") return ReportedEnd::kSucceeded;
  for (const std::string_view failed : {"Failed", "Aborted", "Terminated", "FAILED", "STOPPED"}) {
    if (phase == failed) return ReportedEnd::kFailed;
  }
  return ReportedEnd::kOpen;
}

}  // namespace

JobEndFacts ReadJobEnd(const api::JobKind& kind, const Json& job) {
  if (kind.kind == "LeaderWorkerSet") return {ReportedEnd::kUnreported, "", "", std::nullopt};
  for (const std::string_view type : {"Complete", "Completed", "Succeeded"}) {
    const Json* condition = FindCondition(job, type);
    if (condition != nullptr && TextAt(*condition, "/status") == "True")
      return FromCondition(*condition, ReportedEnd::kSucceeded);
  }
  if (const Json* failed = FindCondition(job, "Failed"); failed != nullptr && TextAt(*failed, "/status") == "True") {
    return FromCondition(*failed, ReportedEnd::kFailed);
  }
  for (const std::string_view pointer : {"/status/state/phase", "/status/jobStatus"}) {
    const std::string phase = TextAt(job, pointer);
    const ReportedEnd end = EndOfPhase(phase);
    if (end != ReportedEnd::kOpen) {
      return {end, phase, TextAt(job, "/status/message"), TimeAt(job, "/status/state/lastTransitionTime")};
    }
  }
  return {};
}

std::optional<WallTime> ResumedAt(const Json& job) {
  const Json* condition = FindCondition(job, "Suspended");
  if (condition == nullptr || TextAt(*condition, "/status") != "False") return std::nullopt;
  return TimeAt(*condition, "/lastTransitionTime");
}

bool IsSuspended(const api::JobKind& kind, const Json& job) {
  const Json* suspend = At(job, kind.suspend_pointer);
  return suspend != nullptr && suspend->is_boolean() && suspend->get<bool>();
}

}  // namespace paceline::operator_
