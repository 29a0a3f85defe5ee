#include "agent/plan/node_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/codec.h"

namespace paceline::agent {
namespace {

using api::ConditionStatus;

std::optional<bool> AsBool(const FeatureFact& fact) {
  if (fact.support == Support::kUnknown) return std::nullopt;
  return fact.support == Support::kYes;
}

api::NodeFacts ToApi(const NodeFacts& facts) {
  api::NodeFacts out;
  out.kernel = facts.kernel_release;
  out.os_image = facts.os_image;
  out.architecture = facts.architecture;
  out.erofs = AsBool(facts.erofs);
  out.erofs_file_backed = AsBool(facts.file_backed_erofs);
  out.fuse = AsBool(facts.fuse);
  if (facts.containerd_version != "unknown") out.containerd = facts.containerd_version;
  if (facts.gpu.driver_version != "none") out.nvidia_driver = facts.gpu.driver_version;
  out.gpus = static_cast<int64_t>(facts.gpu.devices.size());
  return out;
}

api::PodMount ToApi(const MountReport& mount) {
  const MountFigures& figures = mount.figures;
  api::PodMount out;
  out.volume = mount.volume;
  out.state = figures.state;
  out.message = figures.message.substr(0, api::kMaxMountMessageBytes);
  out.restarts = figures.restarts;
  out.read_bytes = figures.read_bytes;
  out.written_bytes = figures.written_bytes;
  out.first_read_at = figures.first_read_at;
  // Until the reading is over its end is not known.
  if (mount.has_read_start) out.last_read_at = figures.last_read_at;
  return out;
}

std::vector<api::PodReport> ToApi(const std::vector<PodReport>& reports) {
  std::vector<api::PodReport> out;
  // The newest are the ones that somebody waits for.
  const size_t first = reports.size() > api::kMaxPodReports ? reports.size() - api::kMaxPodReports : 0;
  for (size_t i = first; i < reports.size(); ++i) {
    api::PodReport& pod = out.emplace_back();
    pod.uid = reports[i].pod.uid;
    pod.ns = reports[i].pod.ns;
    pod.name = reports[i].pod.name;
    pod.volume_published_at = reports[i].volume_published_at;
    for (const MountReport& mount : reports[i].mounts) {
      if (pod.mounts.size() < api::kMaxPodMounts) pod.mounts.push_back(ToApi(mount));
    }
    for (const StageLine& line : reports[i].stages) {
      if (pod.stages.size() < api::kMaxPodStages) pod.stages.push_back({line.name, line.at});
    }
  }
  return out;
}

api::Condition DriverCondition(DriverState driver) {
  switch (driver) {
    case DriverState::kNotServed:
      return {.status = ConditionStatus::kFalse, .reason = "NotServed", .message = "the agent serves no volumes here"};
    case DriverState::kUnregistered:
      return {.status = ConditionStatus::kFalse,
              .reason = "NotRegistered",
              .message = "kubelet has not taken the driver; see its log for csi.paceline.dev"};
    case DriverState::kRegistered:
      return {.status = ConditionStatus::kTrue, .reason = "Registered", .message = "kubelet takes our volumes"};
  }
  return {};
}

api::Condition ImagesCondition(const api::NodePlanSpec& spec) {
  if (spec.images.empty()) {
    return {.status = ConditionStatus::kTrue, .reason = "NothingPlanned", .message = "no image is planned"};
  }
  return {.status = ConditionStatus::kFalse,
          .reason = "NotSupported",
          .message = "this agent cannot warm images; pods pull them as usual"};
}

api::Condition TracingConditionOf(const api::NodePlanSpec& spec) {
  const bool is_traced =
      std::any_of(spec.jobs.begin(), spec.jobs.end(), [](const api::PlannedJob& job) { return job.traced; });
  if (!is_traced) return {.status = ConditionStatus::kTrue, .reason = "NothingPlanned", .message = "no job is traced"};
  return {.status = ConditionStatus::kFalse,
          .reason = "NotSupported",
          .message = "this agent cannot collect traces; jobs run untraced"};
}

}  // namespace

api::NodePlanStatus BuildStatus(const api::NodePlan& plan, const NodeState& state, WallTime now) {
  api::NodePlanStatus status;
  status.agent_version = state.agent_version;
  status.observed_generation = plan.metadata.generation;
  status.heartbeat = now;
  status.facts = ToApi(state.facts);
  for (const api::PlannedImage& image : plan.spec.images) {
    api::PlannedImageStatus& entry = status.images.emplace_back();
    entry.reference = image.reference;
    entry.state = api::ImageState::kFailed;
    entry.message = fmt::format("agent {} cannot warm images", state.agent_version);
  }
  status.pods = ToApi(state.pods);

  status.conditions = plan.status.conditions;
  const auto set = [&](std::string_view type, api::Condition condition) {
    condition.type = type;
    condition.observed_generation = plan.metadata.generation;
    api::SetCondition(status.conditions, std::move(condition), now);
  };
  set(kDriverRegisteredCondition, DriverCondition(state.driver));
  set(kImagesWarmCondition, ImagesCondition(plan.spec));
  set(kTracingCondition, TracingConditionOf(plan.spec));
  return status;
}

bool IsSameReport(const api::NodePlanStatus& a, const api::NodePlanStatus& b) {
  // As JSON, that is as a reader sees them: absent and empty are the same there.
  const auto without_heartbeat = [](const api::NodePlanStatus& status) {
    api::NodePlan plan;
    plan.status = status;
    plan.status.heartbeat.reset();
    return api::ToJson(plan)["status"];
  };
  return without_heartbeat(a) == without_heartbeat(b);
}

}  // namespace paceline::agent
