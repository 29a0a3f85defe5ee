#include "agent/csi/deps_fate.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::agent {
namespace {

using api::DependencyState;
using api::InstallCause;

std::optional<InstallCause> CauseNamed(std::string_view text) {
  for (const InstallCause cause : kInstallCauses) {
    if (api::InstallCauseText(cause) == text) return cause;
  }
  return std::nullopt;
}

std::optional<WallTime> TimeAt(const Json& json, std::string_view path) {
  const Result<WallTime> time = ParseRfc3339(JsonStringOr(json, path, "").value_or(""));
  return time.ok() ? std::optional(*time) : std::nullopt;
}

std::string TimeText(const std::optional<WallTime>& time) { return time ? FormatRfc3339Micro(*time) : std::string(); }

}  // namespace

SnapshotFacts FactsOf(const deps::FoundSnapshot& snapshot) {
  SnapshotFacts facts;
  facts.digest = snapshot.descriptor.digest.ToString();
  facts.size_bytes = static_cast<int64_t>(snapshot.record.bytes);
  facts.stored_bytes = static_cast<int64_t>(snapshot.record.stored_bytes);
  // As everybody else finds them in the store.
  facts.recorded_at = std::chrono::floor<std::chrono::seconds>(snapshot.record.created);
  facts.expires_at = std::chrono::floor<std::chrono::seconds>(snapshot.record.expires);
  return facts;
}

std::string RenderDepsFate(const DepsFate& fate) {
  const SnapshotFacts& snapshot = fate.snapshot;
  Json json = {{"key", fate.key},
               {"image", fate.image},
               {"cause", fate.cause ? api::InstallCauseText(*fate.cause) : ""},
               {"reason", fate.reason},
               {"mayBeHeld", fate.may_be_held},
               {"isOver", fate.is_over},
               {"outcome", fate.outcome},
               {"at", TimeText(fate.at)},
               {"serviceAccount", fate.service_account},
               {"quarantined", fate.quarantined},
               {"quarantinedAt", TimeText(fate.quarantined_at)},
               {"snapshot",
                {{"digest", snapshot.digest},
                 {"sizeBytes", snapshot.size_bytes},
                 {"storedBytes", snapshot.stored_bytes},
                 {"recordedAt", TimeText(snapshot.recorded_at)},
                 {"expiresAt", TimeText(snapshot.expires_at)}}}};
  if (fate.seconds) json["seconds"] = *fate.seconds;
  return DumpJson(json);
}

Result<DepsFate> ParseDepsFate(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  DepsFate fate;
  ASSIGN_OR_RETURN(fate.key, JsonStringOr(json, "key", ""));
  ASSIGN_OR_RETURN(fate.image, JsonString(json, "image"));
  ASSIGN_OR_RETURN(const std::string cause, JsonStringOr(json, "cause", ""));
  fate.cause = CauseNamed(cause);
  ASSIGN_OR_RETURN(fate.reason, JsonStringOr(json, "reason", ""));
  ASSIGN_OR_RETURN(fate.may_be_held, JsonBoolOr(json, "mayBeHeld", false));
  ASSIGN_OR_RETURN(fate.is_over, JsonBoolOr(json, "isOver", false));
  ASSIGN_OR_RETURN(fate.outcome, JsonStringOr(json, "outcome", ""));
  fate.at = TimeAt(json, "at");
  ASSIGN_OR_RETURN(fate.service_account, JsonStringOr(json, "serviceAccount", ""));
  ASSIGN_OR_RETURN(fate.quarantined, JsonStringOr(json, "quarantined", ""));
  fate.quarantined_at = TimeAt(json, "quarantinedAt");
  if (FindJson(json, "seconds") != nullptr) {
    ASSIGN_OR_RETURN(fate.seconds, JsonDouble(json, "seconds"));
  }
  ASSIGN_OR_RETURN(fate.snapshot.digest, JsonStringOr(json, "snapshot.digest", ""));
  ASSIGN_OR_RETURN(fate.snapshot.size_bytes, JsonIntOr(json, "snapshot.sizeBytes", 0));
  ASSIGN_OR_RETURN(fate.snapshot.stored_bytes, JsonIntOr(json, "snapshot.storedBytes", 0));
  fate.snapshot.recorded_at = TimeAt(json, "snapshot.recordedAt");
  fate.snapshot.expires_at = TimeAt(json, "snapshot.expiresAt");
  return fate;
}

api::PodDependencies DependenciesOf(const DepsFate& fate, bool is_recording) {
  api::PodDependencies out;
  out.key = fate.key;
  const bool is_recorded = fate.is_over && fate.outcome.empty() && !fate.snapshot.digest.empty();
  out.state = !fate.image.empty() ? DependencyState::kRestored
              : is_recorded       ? DependencyState::kRecorded
              : fate.is_over      ? DependencyState::kNotRecorded
              : is_recording      ? DependencyState::kRecording
                                  : DependencyState::kInstalling;
  if (fate.image.empty()) out.cause = fate.cause;
  out.reason = fate.reason.substr(0, api::kMaxDependencyReasonBytes);
  out.not_recorded = fate.outcome.substr(0, api::kMaxDependencyReasonBytes);
  out.at = fate.at;
  out.seconds = fate.seconds;
  out.digest = fate.snapshot.digest;
  out.size_bytes = fate.snapshot.size_bytes;
  out.stored_bytes = fate.snapshot.stored_bytes;
  out.recorded_at = fate.snapshot.recorded_at;
  out.expires_at = fate.snapshot.expires_at;
  out.service_account = fate.service_account;
  out.quarantined = fate.quarantined.substr(0, api::kMaxDependencyReasonBytes);
  out.quarantined_at = fate.quarantined_at;
  return out;
}

}  // namespace paceline::agent
