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

std::vector<api::PodReport> ToApi(const std::vector<PodReport>& reports,
                                  const std::map<std::string, TracedStages>& traced) {
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
    pod.dependencies = reports[i].dependencies;
    for (const StageLine& line : reports[i].stages) {
      if (pod.stages.size() < api::kMaxPodStages) pod.stages.push_back({line.name, line.at, false});
    }
    const auto stages = traced.find(pod.uid);
    if (stages == traced.end()) continue;
    const auto add = [&pod](const char* name, const std::optional<WallTime>& at) {
      if (at && pod.stages.size() < api::kMaxPodStages) pod.stages.push_back({name, at, true});
    };
    add("communicator_ready", stages->second.communicator_ready);
    add("first_step", stages->second.first_step);
  }
  return out;
}

api::TriggerKind ToApi(TraceTriggerKind kind) {
  switch (kind) {
    case TraceTriggerKind::kStall: return api::TriggerKind::kStall;
    case TraceTriggerKind::kSlowdown: return api::TriggerKind::kSlowdown;
    case TraceTriggerKind::kProcessLost: return api::TriggerKind::kProcessLost;
  }
  return api::TriggerKind::kStall;
}

std::vector<api::TracedRun> ToApi(const std::vector<RunState>& states) {
  std::vector<api::TracedRun> out;
  for (const RunState& state : states) {
    if (out.size() == api::kMaxTracedRuns) break;
    api::TracedRun& run = out.emplace_back();
    const size_t slash = state.run.find('/');
    if (slash != std::string::npos) run.ns = state.run.substr(0, slash);
    run.run = slash == std::string::npos ? state.run : state.run.substr(slash + 1);
    run.processes = static_cast<int64_t>(state.processes);
    for (const TraceTrigger& trigger : state.open) {
      if (run.alerts.size() == api::kMaxTraceAlerts) break;
      run.alerts.push_back(
          {ToApi(trigger.kind), trigger.at, trigger.world_rank, trigger.detail.substr(0, api::kMaxAlertDetailBytes)});
    }
  }
  return out;
}

constexpr std::string_view kDriver = "NodePlan, condition DriverRegistered";
constexpr std::string_view kImages = "NodePlan, condition ImagesWarm";
constexpr std::string_view kTraces = "NodePlan, condition Tracing";
constexpr api::Advice kNotServed{kDriver, "NotServed", "the agent of a node serves no volumes",
                                 "pods there get no run, trace or checkpoint volume",
                                 "run the agent without a plan file to have it serve kubelet"};
constexpr api::Advice kNotRegistered{kDriver, "NotRegistered", "kubelet of a node has not taken the CSI driver",
                                     "pods with our volumes wait in ContainerCreating there",
                                     "see kubelet's log for csi.paceline.dev"};
constexpr api::Advice kRegistered{kDriver, "Registered", "kubelet takes our volumes", "", ""};
constexpr api::Advice kNoImages{kImages, "NothingPlanned", "no image is planned for the node", "", ""};
constexpr api::Advice kNotSupported{kImages, "NotSupported", "the agent of a node cannot warm images",
                                    "pods pull them as usual, so starts there take longer", "upgrade the agent"};
constexpr api::Advice kNoTracedJob{kTraces, "NothingPlanned", "no job on the node is traced", "", ""};
constexpr api::Advice kCollecting{kTraces, "Collecting", "all traced jobs of the node write traces", "", ""};
constexpr api::Advice kNoTraces{kTraces, "NoTraces", "no process of a traced job writes traces yet",
                                "a stall of this job would not be noticed",
                                "its pods need the trace volume, NCCL 2.23 or later, and a first collective"};

api::Condition ConditionOf(const api::Advice& advice, ConditionStatus status, std::string_view what = {}) {
  return {.status = status,
          .reason = std::string(advice.reason),
          .message = api::Say(advice, what.empty() ? advice.happened : what)};
}

api::Condition DriverCondition(DriverState driver) {
  switch (driver) {
    case DriverState::kNotServed: return ConditionOf(kNotServed, ConditionStatus::kFalse);
    case DriverState::kUnregistered: return ConditionOf(kNotRegistered, ConditionStatus::kFalse);
    case DriverState::kRegistered: return ConditionOf(kRegistered, ConditionStatus::kTrue);
  }
  return {};
}

api::Condition ImagesCondition(const api::NodePlanSpec& spec) {
  if (spec.images.empty()) return ConditionOf(kNoImages, ConditionStatus::kTrue);
  return ConditionOf(kNotSupported, ConditionStatus::kFalse);
}

// A job whose processes write no traces is not wrong: it may not have come to its first collective yet.
api::Condition TracingConditionOf(const api::NodePlanSpec& spec, const std::vector<RunState>& traces) {
  std::string silent;
  size_t traced = 0;
  for (const api::PlannedJob& job : spec.jobs) {
    if (!job.traced) continue;
    ++traced;
    const std::string name = job.ns + "/" + job.run;
    const bool is_seen =
        std::any_of(traces.begin(), traces.end(), [&](const RunState& state) { return state.run == name; });
    if (!is_seen && silent.empty()) silent = name;
  }
  if (traced == 0) return ConditionOf(kNoTracedJob, ConditionStatus::kTrue);
  if (silent.empty()) return ConditionOf(kCollecting, ConditionStatus::kTrue);
  return ConditionOf(kNoTraces, ConditionStatus::kFalse, fmt::format("no process of {} writes traces yet", silent));
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
  status.image_reports = state.images;
  status.pods = ToApi(state.pods, state.traced_stages);
  status.agent_address = state.address;
  status.peer_address = state.peer_address;
  status.traces = ToApi(state.traces);
  status.probe = state.probe ? state.probe : plan.status.probe;

  status.conditions = plan.status.conditions;
  const auto set = [&](std::string_view type, api::Condition condition) {
    condition.type = type;
    condition.observed_generation = plan.metadata.generation;
    api::SetCondition(status.conditions, std::move(condition), now);
  };
  set(kDriverRegisteredCondition, DriverCondition(state.driver));
  set(kImagesWarmCondition, ImagesCondition(plan.spec));
  set(kTracingCondition, TracingConditionOf(plan.spec, state.traces));
  return status;
}

std::vector<api::Advice> NodePlanMessages() {
  return {kNotServed, kNotRegistered, kRegistered, kNoImages, kNotSupported, kNoTracedJob, kCollecting, kNoTraces};
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
