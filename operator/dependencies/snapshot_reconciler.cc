#include "operator/dependencies/snapshot_reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/kube/apply.h"
#include "operator/messages.h"

namespace paceline::operator_ {
namespace {

using api::DependencySnapshot;
using api::SnapshotState;
using Json = nlohmann::json;

Json StatusJson(const api::DependencySnapshotStatus& status) {
  DependencySnapshot snapshot;
  snapshot.status = status;
  return api::ToJson(snapshot).value("status", Json::object());
}

// "pod train-0 on node n1, run train-a1b2-0"
std::string RecorderText(const api::DependencySnapshotStatus& status) {
  std::string text = fmt::format("pod {} on node {}", status.recorded_by_pod, status.recorded_by_node);
  if (!status.recorded_by_service_account.empty()) {
    text += ", service account " + status.recorded_by_service_account;
  }
  if (!status.recorded_by_run.empty()) text += ", run " + status.recorded_by_run;
  return text;
}

}  // namespace

std::vector<SnapshotReport> SnapshotReconciler::Reports(const kube::ObjectKey& key) const {
  std::vector<SnapshotReport> reports;
  for (DependencyReport& told : env_.reports.ReportsOf(key)) {
    SnapshotReport& report = reports.emplace_back();
    const auto pod = env_.pods.Get(told.pod);
    if (pod != nullptr && pod->meta.uid == told.pod_uid) report.run = std::string(pod->meta.labels.Get(api::kRunLabel));
    const std::optional<Duration> silence = env_.reports.Silence(told.node);
    report.is_silent = !silence || *silence > options_.agent_silence_limit;
    report.told = std::move(told);
  }
  return reports;
}

Result<DependencySnapshot> SnapshotReconciler::FindOrMake(const kube::ObjectKey& key,
                                                          const std::vector<SnapshotReport>& reports,
                                                          Deadline deadline) const {
  if (const auto view = env_.snapshots.Get(key)) {
    ASSIGN_OR_RETURN(const Json body, view->Body());
    return api::FromJson<DependencySnapshot>(body);
  }
  if (reports.empty()) return NotFoundError("nobody reports of it");
  const Result<Json> there = env_.client.Get(kDependencySnapshots, key, deadline);  // the cache may be behind
  if (there.ok()) return api::FromJson<DependencySnapshot>(*there);
  if (there.status().code() != StatusCode::kNotFound) return there.status();
  return Make(key, reports, deadline);
}

// What the key was made of stands in the pods that ask for it.
Result<DependencySnapshot> SnapshotReconciler::Make(const kube::ObjectKey& key,
                                                    const std::vector<SnapshotReport>& reports,
                                                    Deadline deadline) const {
  for (const SnapshotReport& report : reports) {
    const Result<Json> pod = env_.client.Get(kube::kPods, report.told.pod, deadline);
    if (pod.status().code() == StatusCode::kNotFound) continue;
    if (!pod.ok()) return pod.status();
    if (pod->value("/metadata/uid"_json_pointer, "") != report.told.pod_uid) continue;
    Result<api::DependencySnapshotSpec> spec = SnapshotSpecOf(*pod, report.told.dependencies.key);
    if (!spec.ok()) continue;
    DependencySnapshot snapshot;
    snapshot.metadata.name = key.name;
    snapshot.metadata.ns = key.ns;
    snapshot.metadata.labels.emplace(kManagedByLabel, kManagedByValue);
    snapshot.spec = *std::move(spec);
    Json object = api::ToJson(snapshot);
    object.erase("status");
    const Result<Json> made =
        env_.client.Create(kDependencySnapshots, object, {.field_manager = std::string(kSnapshotManager)}, deadline);
    if (!made.ok()) return made.status();
    return api::FromJson<DependencySnapshot>(*made);
  }
  return NotFoundError("no pod of it is there that says what it is of");
}

Status SnapshotReconciler::Write(const DependencySnapshot& snapshot, const api::DependencySnapshotStatus& before,
                                 Deadline deadline) const {
  const Json status = StatusJson(snapshot.status);
  if (status == StatusJson(before)) return Status();
  const api::ObjectMeta& meta = snapshot.metadata;
  const Json object = {{"metadata", {{"name", meta.name}, {"namespace", meta.ns}, {"uid", meta.uid}}},
                       {"status", status}};
  const Result<Json> written =
      kube::Apply(env_.client, kDependencySnapshots, object, std::string(kSnapshotManager), deadline, "status");
  if (written.status().code() == StatusCode::kNotFound) return Status();  // somebody has just removed it
  if (!written.ok()) return written.status();
  Tell(snapshot, before);
  return Status();
}

void SnapshotReconciler::Tell(const DependencySnapshot& snapshot, const api::DependencySnapshotStatus& before) const {
  const api::DependencySnapshotStatus& now = snapshot.status;
  const kube::ObjectReference self{std::string(api::kApiVersion), std::string(api::kDependencySnapshotKind.kind),
                                   snapshot.metadata.ns,          snapshot.metadata.name,
                                   snapshot.metadata.uid,         ""};
  // A restore may be heard of before the recording.
  const bool is_news = now.digest != before.digest || before.recorded_by_node.empty();
  if (is_news && !now.digest.empty() && !now.recorded_by_node.empty()) {
    env_.recorder.Record(
        {self, std::nullopt, kube::EventType::kNormal, std::string(kSnapshotRecorded.reason), "Record",
         api::Say(kSnapshotRecorded, fmt::format("{} bytes recorded by {}: {} (key {})", now.size_bytes,
                                                 RecorderText(now), now.digest, snapshot.spec.key))});
    // Who has brought this code here: for whoever keeps logs.
    env_.log.Info("dependencies recorded", {{"namespace", snapshot.metadata.ns},
                                            {"run", now.recorded_by_run},
                                            {"pod", now.recorded_by_pod},
                                            {"service_account", now.recorded_by_service_account},
                                            {"node", now.recorded_by_node},
                                            {"key", snapshot.spec.key},
                                            {"digest", now.digest},
                                            {"bytes", now.size_bytes},
                                            {"stored_bytes", now.stored_bytes}});
  }
  if (now.state == before.state) return;
  env_.log.Info("dependency snapshot", {{"snapshot", snapshot.metadata.name},
                                        {"namespace", snapshot.metadata.ns},
                                        {"state", api::SnapshotStateText(*now.state)}});
  if (now.state != SnapshotState::kFailed && now.state != SnapshotState::kQuarantined) return;
  const api::Condition* ready = api::FindCondition(now.conditions, kSnapshotReadyCondition);
  if (ready == nullptr) return;
  env_.recorder.Record({self, std::nullopt, kube::EventType::kWarning, ready->reason, "Record", ready->message});
}

Result<kube::Action> SnapshotReconciler::Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token) {
  const Duration wait = pacer_.WaitBefore(key);
  if (wait > Duration::zero()) return kube::Action::RequeueAfter(wait);
  const std::vector<SnapshotReport> reports = Reports(key);
  Result<DependencySnapshot> found = FindOrMake(key, reports, deadline);
  if (found.status().code() == StatusCode::kNotFound) {
    pacer_.Forget(key);
    return kube::Action::Done();
  }
  if (!found.ok()) return found.status();
  DependencySnapshot& snapshot = *found;
  if (snapshot.metadata.deletion_timestamp) return kube::Action::Done();
  if (!reports.empty() && reports.front().told.dependencies.key != snapshot.spec.key) {
    return InvalidArgumentError(fmt::format("DependencySnapshot {} is of another key: remove it", key.ToString()));
  }
  SnapshotInput input{snapshot.status, snapshot.metadata.generation, reports, env_.clock.WallNow()};
  snapshot.status = ComputeSnapshotStatus(input);
  const std::optional<WallTime> removal =
      reports.empty() ? RemovalTime(snapshot.status, options_.keep_ended) : std::nullopt;
  if (removal && *removal <= input.now) {
    const Status removed =
        env_.client.Delete(kDependencySnapshots, key, {.uid_precondition = snapshot.metadata.uid}, deadline);
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
    pacer_.Forget(key);
    return kube::Action::Done();
  }
  RETURN_IF_ERROR(Write(snapshot, input.before, deadline));
  std::optional<WallTime> next = removal;
  if (snapshot.status.state == SnapshotState::kReady) next = snapshot.status.expires_at;
  // Its agent may fall silent, which changes nothing that is watched.
  if (snapshot.status.state == SnapshotState::kRecording) next = input.now + options_.agent_silence_limit;
  return next ? kube::Action::RequeueAfter(std::max<Duration>(*next - input.now, options_.min_interval))
              : kube::Action::Done();
}

}  // namespace paceline::operator_
