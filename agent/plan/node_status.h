// What the agent says in its NodePlan's status, made from what it knows. Pure; the reconciler writes it.
#pragma once

#include <string>
#include <vector>

#include "agent/csi/pod_reports.h"
#include "agent/facts/node_facts.h"
#include "agent/trace/collector.h"
#include "lib/api/advice.h"
#include "lib/api/node_plan.h"
#include "lib/base/clock.h"

namespace paceline::agent {

inline constexpr std::string_view kDriverRegisteredCondition = "DriverRegistered";  // kubelet took the CSI driver
inline constexpr std::string_view kImagesWarmCondition = "ImagesWarm";              // all planned images are ready
inline constexpr std::string_view kTracingCondition = "Tracing";  // traces of the planned jobs are kept

// Where the CSI driver stands.
enum class DriverState { kNotServed, kUnregistered, kRegistered };

struct NodeState {
  std::string agent_version;
  NodeFacts facts;
  std::vector<PodReport> pods;
  std::string address;       // host:port of the HTTP interface for the operator; empty: none is told
  std::string peer_address;  // host:port where its snapshotter gives chunks to other nodes; empty: it gives none
  std::map<std::string, TracedStages> traced_stages;  // by the pod's uid
  std::vector<RunState> traces;                       // runs with traced processes here
  std::vector<api::ImageReport> images;               // of the snapshotter, newest last
  std::optional<api::ProbeStatus> probe;              // absent: the plan's status keeps what it has
  DriverState driver = DriverState::kNotServed;
};

// The whole status for `plan`: its generation, the state of each planned image, the conditions, the pods. What this
// agent cannot do yet is said so, never left open. Conditions of the plan's present status keep their times while they
// stay the same. The heartbeat is `now`.
api::NodePlanStatus BuildStatus(const api::NodePlan& plan, const NodeState& state, WallTime now);

// What its conditions say, for docs/messages.md.
std::vector<api::Advice> NodePlanMessages();

// True when the two differ in nothing but the heartbeat: then a write would tell nobody anything.
bool IsSameReport(const api::NodePlanStatus& a, const api::NodePlanStatus& b);

}  // namespace paceline::agent
