#include "cli/node_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "lib/api/codec.h"

namespace paceline::cli {
namespace {

constexpr size_t kPeers = 3;
constexpr Duration kPollPeriod = std::chrono::milliseconds(500);
constexpr int kTries = 5;

Result<api::NodePlan> GetPlan(Session& session, const std::string& node) {
  const Result<nlohmann::json> object =
      session.client().Get(ResourceOf(api::kNodePlanKind), {"", node}, session.deadline());
  if (object.status().code() == StatusCode::kNotFound) {
    return NotFoundError(
        fmt::format("no NodePlan \"{}\"; kubectl get nodeplans shows all nodes that Paceline knows", node));
  }
  if (!object.ok()) return object.status();
  return api::FromJson<api::NodePlan>(*object);
}

Result<std::vector<api::ProbeCheck>> ChecksOf(const std::vector<std::string>& names) {
  std::vector<api::ProbeCheck> checks;
  for (const std::string& name : names) {
    const std::optional<api::ProbeCheck> check = api::ParseProbeCheck(name);
    if (!check) return InvalidArgumentError(fmt::format("\"{}\" is no check: cpu, memory, disk, network or gpu", name));
    checks.push_back(*check);
  }
  return checks;
}

// Asks for one more; the round that is to be waited for.
Result<int64_t> Ask(Session& session, const std::string& node, const std::vector<api::ProbeCheck>& checks) {
  ASSIGN_OR_RETURN(const std::vector<api::NodePlan> plans, session.ListNodePlans());
  Status lost;
  for (int tries = 0; tries < kTries; ++tries) {
    ASSIGN_OR_RETURN(const api::NodePlan plan, GetPlan(session, node));
    api::NodePlan wanted;
    wanted.spec.probe = NextProbe(plan, plans, checks);
    nlohmann::json probe = api::ToJson(wanted)["spec"]["probe"];
    // What an earlier request had and this one has not must go, too.
    for (const char* list : {"checks", "peers"}) {
      if (!probe.contains(list)) probe[list] = nullptr;
    }
    const nlohmann::json patch = {{"metadata", {{"resourceVersion", plan.metadata.resource_version}}},
                                  {"spec", {{"probe", std::move(probe)}}}};
    const Status written = session.client()
                               .Patch(ResourceOf(api::kNodePlanKind), {"", node}, kube::PatchType::kMerge, patch,
                                      {.field_manager = "pacectl"}, session.deadline())
                               .status();
    if (written.ok()) return wanted.spec.probe->round;
    if (written.code() != StatusCode::kAborted) return written;
    lost = written;
  }
  return lost;
}

std::string NumberOf(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

}  // namespace

api::ProbeRequest NextProbe(const api::NodePlan& plan, const std::vector<api::NodePlan>& plans,
                            std::vector<api::ProbeCheck> checks) {
  const int64_t asked = plan.spec.probe ? plan.spec.probe->round : 0;
  const int64_t done = plan.status.probe ? plan.status.probe->round : 0;
  api::ProbeRequest request{std::max(asked, done) + 1, std::move(checks), {}};
  for (const api::NodePlan& other : plans) {
    const bool is_idle = other.spec.jobs.empty() && !other.status.agent_address.empty();
    if (other.metadata.name == plan.metadata.name || !is_idle || request.peers.size() == kPeers) continue;
    request.peers.push_back({other.metadata.name, other.status.agent_address});
  }
  return request;
}

Result<api::NodePlan> ProbeNode(Session& session, const NodeProbeOptions& options, const Clock& clock) {
  if (options.only_last) {
    ASSIGN_OR_RETURN(api::NodePlan plan, GetPlan(session, options.node));
    const bool is_known = plan.status.probe && plan.status.probe->round > 0;
    if (!is_known) return NotFoundError(fmt::format("node {} was never probed", options.node));
    return plan;
  }
  ASSIGN_OR_RETURN(const std::vector<api::ProbeCheck> checks, ChecksOf(options.checks));
  ASSIGN_OR_RETURN(const int64_t round, Ask(session, options.node, checks));
  while (true) {
    ASSIGN_OR_RETURN(api::NodePlan plan, GetPlan(session, options.node));
    if (plan.status.probe && plan.status.probe->round >= round) return plan;
    if (session.deadline().Remaining(clock) > kPollPeriod) {
      clock.SleepFor(kPollPeriod, std::stop_token());
      continue;
    }
    std::string why = "its agent does not answer; see: pacectl doctor";
    if (plan.status.probe) why = "the probe runs; --timeout says how long to wait for it";
    if (plan.status.probe && !plan.status.probe->message.empty()) why = plan.status.probe->message;
    return DeadlineExceededError(
        fmt::format("node {} was asked for a probe and has not done it yet: {}", options.node, why));
  }
}

Table ProbeTable(const api::NodePlan& plan) {
  Table table{{"MEASURED", "VALUE", "UNIT", "DETAIL"}, {}};
  if (!plan.status.probe) return table;
  for (const api::ProbeFigure& figure : plan.status.probe->figures) {
    table.rows.push_back({figure.name, NumberOf(figure.value), figure.unit, figure.detail});
  }
  for (const api::MissingProbe& missing : plan.status.probe->missing) {
    const bool is_none = missing.gap == api::ProbeGap::kNotThere;
    table.rows.push_back(
        {std::string(api::ProbeCheckText(missing.check)), is_none ? "none" : "failed", "", missing.message});
  }
  return table;
}

nlohmann::json ProbeValue(const api::NodePlan& plan) {
  nlohmann::json object = api::ToJson(plan);
  return {{"node", plan.metadata.name}, {"probe", std::move(object["status"]["probe"])}};
}

}  // namespace paceline::cli
