#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/runs.h"
#include "lib/api/names.h"

namespace paceline::cli {

namespace {

// The lease is renewed every few seconds; the agent reports at least every five minutes.
constexpr Duration kLeaseStale = std::chrono::minutes(1);
constexpr Duration kHeartbeatStale = std::chrono::minutes(12);

class Checks {
 public:
  void Ok(std::string subject, std::string finding) {
    Add(CheckLevel::kOk, std::move(subject), std::move(finding), "");
  }
  void Warn(std::string subject, std::string finding, std::string advice) {
    Add(CheckLevel::kWarn, std::move(subject), std::move(finding), std::move(advice));
  }
  void Fail(std::string subject, std::string finding, std::string advice) {
    Add(CheckLevel::kFail, std::move(subject), std::move(finding), std::move(advice));
  }
  // True when `status` is an error, which becomes a warning: not being able to look says nothing about the thing.
  bool Unreadable(const std::string& subject, const Status& status) {
    if (status.ok()) return false;
    Warn(subject, "could not be read: " + status.ToString(),
         "nothing is known of it: ask for the right to read it, or run doctor as an administrator");
    return true;
  }
  std::vector<CheckResult> Take() && { return std::move(results_); }

 private:
  void Add(CheckLevel level, std::string subject, std::string finding, std::string advice) {
    results_.push_back({level, std::move(subject), std::move(finding), std::move(advice)});
  }
  std::vector<CheckResult> results_;
};

void CheckCrds(const ClusterFacts& facts, Checks& checks) {
  if (checks.Unreadable("CRDs", facts.crds_status)) return;
  std::vector<std::string> missing;
  for (const api::KindInfo& kind : api::kAllKinds) {
    const std::string name = fmt::format("{}.{}", kind.plural, api::kGroup);
    if (std::find(facts.crd_names.begin(), facts.crd_names.end(), name) == facts.crd_names.end())
      missing.push_back(name);
  }
  if (missing.empty()) {
    checks.Ok("CRDs", fmt::format("all {} are installed", api::kAllKinds.size()));
  } else if (missing.size() == api::kAllKinds.size()) {
    checks.Fail("CRDs", "none is installed",
                "jobs are not followed: install the chart: helm install paceline deploy/helm/paceline");
  } else {
    checks.Fail("CRDs", fmt::format("missing: {}", fmt::join(missing, ", ")),
                "what they hold cannot be written: upgrade the chart with crds.enabled=true");
  }
}

void CheckOperator(const ClusterFacts& facts, WallTime now, Checks& checks) {
  if (checks.Unreadable("operator", facts.lease_status)) return;
  if (!facts.lease_holder) {
    checks.Fail("operator", "has never led: its lease does not exist",
                "no run is followed and no TrainingJob starts: kubectl get pods -A -l "
                "app.kubernetes.io/component=operator, then its log");
  } else if (facts.lease_holder->empty()) {
    checks.Fail("operator", "no replica leads: the last one gave its lease back",
                "runs stand still and no TrainingJob starts: scale the operator's Deployment up");
  } else if (!facts.lease_renewed || now - *facts.lease_renewed > kLeaseStale) {
    const std::string since = facts.lease_renewed ? FormatAge(now - *facts.lease_renewed) + " ago" : "never";
    checks.Fail("operator", fmt::format("the leader {} last renewed its lease {}", *facts.lease_holder, since),
                "runs and NodePlans are not updated meanwhile: look at the operator's pods and their log");
  } else {
    checks.Ok("operator", "leading: " + *facts.lease_holder);
  }
}

void CheckWebhook(const ClusterFacts& facts, Checks& checks) {
  if (checks.Unreadable("webhook", facts.webhook_status)) return;
  if (!facts.has_webhook) {
    checks.Warn("webhook", "is not installed: pods get no run volume, so first steps are not seen",
                "install the chart with webhook.enabled=true");
  } else if (!facts.webhook_has_ca) {
    checks.Fail(
        "webhook", "has no CA yet, so the API server cannot call it",
        "pods start without their volumes meanwhile; the operator writes it when it starts: look at its log for "
        "certificate errors");
  } else {
    checks.Ok("webhook", "is registered with a CA");
  }
}

void CheckCsiDriver(const ClusterFacts& facts, Checks& checks) {
  if (checks.Unreadable("CSI driver", facts.csi_driver_status)) return;
  if (facts.has_csi_driver) {
    checks.Ok("CSI driver", fmt::format("{} is registered", api::kCsiDriver));
  } else {
    checks.Fail("CSI driver", fmt::format("{} is not registered", api::kCsiDriver),
                "pods with its volumes wait: install the chart with agent.enabled=true");
  }
}

std::string FactsText(const api::NodeFacts& facts) {
  std::string text = "kernel " + (facts.kernel.empty() ? std::string("unknown") : facts.kernel);
  if (!facts.containerd.empty()) text += ", containerd " + facts.containerd;
  if (!facts.nvidia_driver.empty()) text += ", NVIDIA driver " + facts.nvidia_driver;
  if (facts.gpus && *facts.gpus > 0) text += fmt::format(", {} GPUs", *facts.gpus);
  return text;
}

// What the node lacks for features that are there for the asking.
std::vector<std::string> MissingFeatures(const api::NodeFacts& facts) {
  std::vector<std::string> missing;
  if (facts.fuse == false)
    missing.push_back("no FUSE device (load the fuse module: lazy images and checkpoint mounts need it)");
  if (facts.erofs == false)
    missing.push_back("no EROFS in the kernel (lazy images need it: Linux 5.4 or later with EROFS_FS)");
  return missing;
}

void CheckNode(const NodeSummary& node, const api::NodePlan* plan, const std::string& version, WallTime now,
               Checks& checks) {
  const std::string subject = "node " + node.name;
  if (!node.is_ready) {
    checks.Warn(subject, "is not Ready",
                "no pod starts there, and those that run may be lost: kubectl describe node " + node.name);
    return;
  }
  if (plan == nullptr) {
    checks.Fail(subject, "has no NodePlan",
                "its agent has no work; the operator makes one for each node: see that it runs");
    return;
  }
  const api::NodePlanStatus& status = plan->status;
  if (!status.heartbeat) {
    checks.Fail(
        subject, "its agent has not reported",
        "pods there get no run volume: kubectl get pods -A -o wide -l app.kubernetes.io/component=agent, then see that "
        "one is on this node, and what it logs");
    return;
  }
  if (now - *status.heartbeat > kHeartbeatStale) {
    checks.Fail(subject, fmt::format("its agent last reported {} ago", FormatAge(now - *status.heartbeat)),
                "new pods there get no run volume: look at the agent's pod on this node");
    return;
  }
  std::vector<std::string> missing;
  if (status.facts) missing = MissingFeatures(*status.facts);
  if (status.agent_version != version && !status.agent_version.empty()) {
    missing.push_back(fmt::format("the agent is version {}, pacectl {}: let the roll-out of the chart end",
                                  status.agent_version, version));
  }
  const std::string facts_text = status.facts ? FactsText(*status.facts) : "no facts reported";
  if (missing.empty()) {
    checks.Ok(subject, facts_text);
  } else {
    checks.Warn(subject, facts_text, fmt::format("{}", fmt::join(missing, "; ")));
  }
}

void CheckNodes(const ClusterFacts& facts, const std::string& version, WallTime now, Checks& checks) {
  if (checks.Unreadable("nodes", facts.nodes_status) || checks.Unreadable("NodePlans", facts.plans_status)) return;
  std::map<std::string, const api::NodePlan*> plans;
  for (const api::NodePlan& plan : facts.plans) plans[plan.metadata.name] = &plan;
  std::vector<NodeSummary> nodes = facts.nodes;
  std::sort(nodes.begin(), nodes.end(), [](const NodeSummary& a, const NodeSummary& b) { return a.name < b.name; });
  for (const NodeSummary& node : nodes) {
    const auto plan = plans.find(node.name);
    CheckNode(node, plan == plans.end() ? nullptr : plan->second, version, now, checks);
  }
}

const char* LevelText(CheckLevel level) {
  switch (level) {
    case CheckLevel::kOk: return "ok";
    case CheckLevel::kWarn: return "warn";
    case CheckLevel::kFail: return "FAIL";
  }
  return "";
}

}  // namespace

std::vector<CheckResult> Diagnose(const ClusterFacts& facts, const std::string& version, WallTime now) {
  Checks checks;
  checks.Ok("API server", "reached, " + facts.server_version);
  CheckCrds(facts, checks);
  CheckOperator(facts, now, checks);
  CheckWebhook(facts, checks);
  CheckCsiDriver(facts, checks);
  CheckNodes(facts, version, now, checks);
  return std::move(checks).Take();
}

std::string RenderChecks(const std::vector<CheckResult>& checks) {
  size_t width = 0;
  size_t counts[3] = {};
  for (const CheckResult& check : checks) width = std::max(width, DisplayWidth(check.subject));
  std::string out;
  for (const CheckResult& check : checks) {
    ++counts[static_cast<size_t>(check.level)];
    out += fmt::format("{:<4}  {:<{}}  {}\n", LevelText(check.level), check.subject, width, check.finding);
    if (!check.advice.empty()) out += fmt::format("{:<{}}-> {}\n", "", width + 8, check.advice);
  }
  return out + fmt::format("\n{} ok, {} to look at, {} broken\n", counts[0], counts[1], counts[2]);
}

nlohmann::json ChecksValue(const std::vector<CheckResult>& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const CheckResult& check : checks) {
    nlohmann::json item = {{"level", check.level == CheckLevel::kFail ? "fail" : LevelText(check.level)},
                           {"subject", check.subject},
                           {"finding", check.finding}};
    if (!check.advice.empty()) item["advice"] = check.advice;
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace paceline::cli
