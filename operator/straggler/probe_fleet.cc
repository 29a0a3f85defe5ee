#include "operator/straggler/probe_fleet.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/api/names.h"
#include "lib/api/node_plan.h"
#include "lib/base/json.h"
#include "operator/names.h"
#include "operator/straggler/straggler_names.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {
namespace {

// Heartbeats come every 5 min as it comes; an agent that has missed three is not asked.
constexpr Duration kLongestSilence = std::chrono::minutes(16);
constexpr size_t kPeers = 3;

constexpr std::string_view kInstanceTypeLabels[] = {"node.kubernetes.io/instance-type",
                                                    "beta.kubernetes.io/instance-type"};
constexpr std::string_view kGpuProductLabels[] = {"nvidia.com/gpu.product"};

template <size_t kCount>
std::string FirstLabel(const kube::NodeView& node, const std::string_view (&names)[kCount]) {
  for (const std::string_view name : names) {
    if (node.meta.labels.Contains(name)) return std::string(node.meta.labels.Get(name));
  }
  return "";
}

bool HasTrainingPods(const ProbeSources& sources, const std::string& node, const ProbeReport& report) {
  if (report.has_jobs) return true;
  for (const auto& pod : sources.pods.ListBy("node", node)) {
    if (pod->meta.labels.Contains(api::kRunLabel) && !IsFinished(*pod)) return true;
  }
  return false;
}

}  // namespace

ProbeFleet::ProbeFleet(const ProbeSources& sources, const api::ProbePolicy& policy, WallTime now) {
  if (!policy.enabled) return;
  std::vector<ProbedNode> all;
  for (const auto& view : sources.nodes.List()) {
    const std::string name = view->meta.name.str();
    const auto report = sources.reports.ProbeOf(name);
    if (report == nullptr) continue;
    const std::optional<Duration> silence = sources.reports.Silence(name);
    Entry& entry = entries_[name];
    const bool is_heard = silence && *silence <= kLongestSilence;
    if (is_heard) entry.address = sources.reports.AddressOf(name);
    NodeProbe& probe = entry.probe;
    probe.asked = report->asked;
    probe.done = report->found.round;
    probe.finished_at = report->found.finished_at;
    // The agent knows of pods that the plan and the labels do not show.
    const bool waits = report->found.state == api::ProbeState::kWaiting && !report->found.message.empty();
    probe.has_pods = waits || HasTrainingPods(sources, name, *report);
    probe.is_answering = report->is_heard && is_heard;
    probe.has_gaps = std::any_of(report->found.missing.begin(), report->found.missing.end(),
                                 [](const api::MissingProbe& entry) { return entry.gap == api::ProbeGap::kFailed; });
    if (probe.done == 0) continue;
    const bool is_marked = view->meta.annotations.Contains(kStragglerKey);
    all.push_back({name, FirstLabel(*view, kInstanceTypeLabels), FirstLabel(*view, kGpuProductLabels),
                   is_marked || view->spec.is_unschedulable, report->found});
  }
  for (const ProbedNode& node : all) {
    // Only those that are out are judged: the others are what these are compared with.
    if (node.is_out) {
      ProbeFinding finding = JudgeProbe(node, all, policy, now);
      entries_[node.name].probe.verdict = finding.verdict;
      findings_[node.name] = std::move(finding);
    }
    probed_[node.name] = node;
  }
}

std::optional<NodeProbe> ProbeFleet::ProbeOf(const std::string& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? std::nullopt : std::optional(found->second.probe);
}

const ProbeFinding* ProbeFleet::FindingOf(const std::string& node) const {
  const auto found = findings_.find(node);
  return found == findings_.end() ? nullptr : &found->second;
}

std::vector<api::ProbePeer> ProbeFleet::PeersOf(const std::string& node) const {
  std::vector<std::pair<bool, api::ProbePeer>> found;
  const auto own = probed_.find(node);
  const auto add = [&](const std::string& name, const Entry& entry) {
    if (name == node || entry.address.empty() || entry.probe.has_pods) return;
    const auto other = probed_.find(name);
    const bool is_like = own != probed_.end() && other != probed_.end() && AreAlike(own->second, other->second);
    found.push_back({!is_like, {name, entry.address}});
  };
  // From the node's own place on, so that not all measure with the first.
  for (auto it = entries_.upper_bound(node); it != entries_.end(); ++it) add(it->first, it->second);
  for (auto it = entries_.begin(); it != entries_.end() && it->first < node; ++it) add(it->first, it->second);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<api::ProbePeer> peers;
  for (auto& [is_unlike, peer] : found) {
    if (peers.size() < kPeers) peers.push_back(std::move(peer));
  }
  return peers;
}

Status AskForProbe(kube::Client& client, const ProbeOrder& order, const std::vector<api::ProbeCheck>& checks,
                   const std::vector<api::ProbePeer>& peers, Deadline deadline) {
  const kube::ObjectKey key{"", NodePlanName(order.node)};
  const Result<Json> object = client.Get(kNodePlans, key, deadline);
  if (object.status().code() == StatusCode::kNotFound) return Status();
  if (!object.ok()) return object.status();
  ASSIGN_OR_RETURN(const api::NodePlan before, api::FromJson<api::NodePlan>(*object));
  if (before.spec.probe && before.spec.probe->round >= order.round) return Status();
  api::NodePlan plan;
  plan.spec.probe = api::ProbeRequest{order.round, checks, peers};
  Json probe = api::ToJson(plan)["spec"]["probe"];
  // What an earlier request had and this one has not must go, too.
  for (const char* list : {"checks", "peers"}) {
    if (!probe.contains(list)) probe[list] = nullptr;
  }
  const Json patch = {{"metadata", {{"resourceVersion", before.metadata.resource_version}}},
                      {"spec", {{"probe", std::move(probe)}}}};
  return client
      .Patch(kNodePlans, key, kube::PatchType::kMerge, patch, {.field_manager = std::string(kStragglerManager)},
             deadline)
      .status();
}

}  // namespace paceline::operator_
