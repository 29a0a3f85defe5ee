#include "operator/straggler/incident_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/names.h"
#include "operator/resources.h"
#include "operator/straggler/findings.h"
#include "operator/straggler/straggler_names.h"

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

constexpr size_t kIncidentHashChars = 6;

bool HasAction(const api::Incident& incident, const api::IncidentAction& wanted) {
  const auto& actions = incident.status.actions;
  return std::any_of(actions.begin(), actions.end(), [&](const api::IncidentAction& action) {
    return action.action == wanted.action && action.node == wanted.node;
  });
}

}  // namespace

IncidentBook::IncidentBook(const api::StragglerPolicy& policy, const kube::Store<kube::ObjectView>& incidents,
                           kube::Client& client, WallTime now, Deadline deadline)
    : policy_(policy), client_(client), now_(now), deadline_(deadline) {
  for (const auto& view : incidents.List()) {
    if (view->meta.annotations.Get(kPolicyOfIncident) != policy.metadata.name) continue;
    const auto body = view->Body();
    if (!body.ok()) continue;
    Result<api::Incident> incident = api::FromJson<api::Incident>(*body);
    if (!incident.ok()) continue;
    taken_.insert(KeyOf(*incident));
    const std::string node = incident->spec.trigger.node;
    if (incident->status.state != api::IncidentState::kResolved) open_.emplace(node, *std::move(incident));
  }
}

std::string IncidentBook::KeyOf(const api::Incident& incident) {
  return incident.metadata.ns + "/" + incident.metadata.name;
}

const api::Incident* IncidentBook::OpenOf(const std::string& node) const {
  const auto found = open_.find(node);
  return found == open_.end() ? nullptr : &found->second;
}

std::vector<std::string> IncidentBook::OpenNodes() const {
  std::vector<std::string> nodes;
  for (const auto& [node, incident] : open_) nodes.push_back(node);
  return nodes;
}

Result<const api::Incident*> IncidentBook::Open(const api::TrainingRun& run, const std::string& node,
                                                const api::IncidentStatus& status) {
  if (open_.count(node) == 0) {
    ASSIGN_OR_RETURN(api::Incident made, Create(run, node));
    if (made.status.state == api::IncidentState::kResolved) {
      return UnavailableError("incident " + KeyOf(made) + " is resolved, and the cache does not know it yet");
    }
    taken_.insert(KeyOf(made));
    open_.emplace(node, std::move(made));
  }
  api::Incident& incident = open_.at(node);
  if (!incident.status.verdict) {
    incident.status = status;
    RETURN_IF_ERROR(WriteStatus(incident));
  }
  return &incident;
}

Result<api::Incident> IncidentBook::Create(const api::TrainingRun& run, const std::string& node) {
  api::Incident incident;
  incident.metadata.ns = run.metadata.ns;
  // Names follow from what is there, so that a pass that is repeated makes no second one.
  int number = 0;
  do {
    incident.metadata.name =
        fmt::format("{}-{}", run.metadata.name,
                    ShortHash(fmt::format("{} {} {}", policy_.metadata.name, node, number++), kIncidentHashChars));
  } while (taken_.count(KeyOf(incident)) != 0);
  incident.metadata.labels.emplace(api::kRunLabel, run.metadata.name);
  incident.metadata.labels.emplace(kPolicyOfIncident, DnsLabel(policy_.metadata.name, kMaxDnsLabel));
  incident.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
  incident.metadata.annotations.emplace(kPolicyOfIncident, policy_.metadata.name);
  incident.metadata.owner_references.push_back({std::string(api::kApiVersion), std::string(api::kTrainingRunKind.kind),
                                                run.metadata.name, run.metadata.uid, true, false});
  incident.spec = {run.spec.job,
                   run.metadata.name,
                   {api::TriggerKind::kSlowdown, node, now_, "slow in the windows of policy " + policy_.metadata.name}};
  Json object = api::ToJson(incident);
  object.erase("status");
  Result<Json> made = client_.Create(kIncidents, object, {.field_manager = std::string(kStragglerManager)}, deadline_);
  if (made.status().code() == StatusCode::kAlreadyExists) {
    made = client_.Get(kIncidents, {run.metadata.ns, incident.metadata.name}, deadline_);  // the cache is behind
  }
  if (!made.ok()) return made.status();
  return api::FromJson<api::Incident>(*made);
}

Status IncidentBook::Resolve(const std::string& node) {
  const auto found = open_.find(node);
  if (found == open_.end()) return Status();
  const std::string key = KeyOf(found->second);
  open_.erase(found);
  // Actions may have been noted since the cache saw it.
  ASSIGN_OR_RETURN(std::optional<api::Incident> incident, Fetch(key));
  if (!incident || incident->status.state == api::IncidentState::kResolved) return Status();
  incident->status.state = api::IncidentState::kResolved;
  incident->status.resolved_at = now_;
  return WriteStatus(*incident);
}

Result<std::optional<api::Incident>> IncidentBook::Fetch(const std::string& key) const {
  const size_t slash = key.find('/');
  if (slash == std::string::npos) return std::optional<api::Incident>();
  const Result<Json> object = client_.Get(kIncidents, {key.substr(0, slash), key.substr(slash + 1)}, deadline_);
  if (object.status().code() == StatusCode::kNotFound) return std::optional<api::Incident>();
  if (!object.ok()) return object.status();
  ASSIGN_OR_RETURN(api::Incident incident, api::FromJson<api::Incident>(*object));
  return std::optional(std::move(incident));
}

Result<bool> IncidentBook::HasNoted(const std::string& key, const api::IncidentAction& action) const {
  ASSIGN_OR_RETURN(const std::optional<api::Incident> incident, Fetch(key));
  if (!incident) return false;
  const auto& actions = incident->status.actions;
  return std::any_of(actions.begin(), actions.end(), [&](const api::IncidentAction& noted) {
    return noted.action == action.action && noted.node == action.node && noted.result == action.result;
  });
}

Status IncidentBook::Note(const std::string& key, const api::IncidentAction& action,
                          const std::optional<api::Condition>& condition) {
  const api::Incident* cached = OpenOf(action.node);
  if (cached != nullptr && KeyOf(*cached) == key) {
    api::IncidentStatus status = cached->status;
    if (!AddAction(status, action)) return Status();
  }
  ASSIGN_OR_RETURN(std::optional<api::Incident> incident, Fetch(key));
  if (!incident) return Status();
  bool has_changed = AddAction(incident->status, action);
  if (condition) has_changed |= api::SetCondition(incident->status.conditions, *condition, now_);
  return has_changed ? WriteStatus(*incident) : Status();
}

Result<bool> IncidentBook::NoteProbe(const std::string& key, const api::IncidentAction& action,
                                     const std::vector<api::EvidenceNumber>& evidence) {
  ASSIGN_OR_RETURN(std::optional<api::Incident> incident, Fetch(key));
  // An event tells it even then.
  if (!incident) return true;
  const auto verdict_of = [](const std::string& result) { return result.substr(0, result.find(':')); };
  std::vector<api::IncidentAction>& actions = incident->status.actions;
  const auto last = std::find_if(actions.rbegin(), actions.rend(), [&](const api::IncidentAction& noted) {
    return noted.action == action.action && noted.node == action.node;
  });
  if (last != actions.rend() && verdict_of(last->result) == verdict_of(action.result)) return false;
  AddAction(incident->status, action);
  std::vector<api::EvidenceNumber>& numbers = incident->status.evidence;
  std::erase_if(numbers, [&](const api::EvidenceNumber& number) {
    return std::any_of(evidence.begin(), evidence.end(),
                       [&](const api::EvidenceNumber& fresh) { return fresh.name == number.name; });
  });
  numbers.insert(numbers.end(), evidence.begin(), evidence.end());
  RETURN_IF_ERROR(WriteStatus(*incident));
  return true;
}

Status IncidentBook::NoteOnce(const api::IncidentAction& action) {
  const api::Incident* cached = OpenOf(action.node);
  if (cached == nullptr || HasAction(*cached, action)) return Status();
  ASSIGN_OR_RETURN(const std::optional<api::Incident> incident, Fetch(KeyOf(*cached)));
  return !incident || HasAction(*incident, action) ? Status() : Note(KeyOf(*incident), action);
}

ApprovalState IncidentBook::ApprovalOf(const api::Incident& incident) const {
  const api::StragglerPolicySpec& spec = policy_.spec;
  if (spec.approval == api::Approval::kAutomatic || spec.action == api::StragglerAction::kObserve) {
    return ApprovalState::kNotNeeded;
  }
  const std::optional<WallTime> asked = incident.spec.trigger.at;
  // Whoever answers late answers what was asked then.
  if (!asked || now_ - *asked > spec.approval_period) return ApprovalState::kExpired;
  const auto answer = incident.metadata.annotations.find(std::string(kApproveAnnotation));
  const bool is_given = answer != incident.metadata.annotations.end() && answer->second == "true";
  return is_given ? ApprovalState::kGiven : ApprovalState::kWaiting;
}

Status IncidentBook::WriteStatus(const api::Incident& incident) {
  const Json object = {
      {"metadata",
       {{"name", incident.metadata.name}, {"namespace", incident.metadata.ns}, {"uid", incident.metadata.uid}}},
      {"status", api::ToJson(incident).at("status")}};
  const Result<Json> written =
      kube::Apply(client_, kIncidents, object, std::string(kStragglerManager), deadline_, "status");
  return written.status().code() == StatusCode::kNotFound ? Status() : written.status();
}

}  // namespace paceline::operator_
