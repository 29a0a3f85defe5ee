#include "operator/node_plan/node_reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/api/node_plan.h"

namespace paceline::operator_ {
namespace {

bool IsSame(const std::vector<Marker>& a, const std::vector<Marker>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Marker& x, const Marker& y) { return x.name == y.name && x.at == y.at; });
}

api::NodePlanStatus StatusOf(const kube::ObjectView& view) {
  const auto body = view.Body();
  if (!body.ok()) return {};
  const Result<api::NodePlan> plan = api::FromJson<api::NodePlan>(*body);
  return plan.ok() ? plan->status : api::NodePlanStatus{};
}

std::vector<Marker> MarkersIn(const api::PodReport& report) {
  std::vector<Marker> markers;
  for (const api::PodStage& stage : report.stages) {
    if (stage.at) markers.push_back({stage.name, *stage.at});
  }
  return markers;
}

}  // namespace

std::vector<kube::ObjectKey> NodeReports::See(const kube::CacheChange<kube::ObjectView>& change) {
  const std::string node_name = change.meta().name.str();
  if (change.after == nullptr) {
    MutexLock lock(mutex_);
    nodes_.erase(node_name);
    return {};
  }
  const api::NodePlanStatus status = StatusOf(*change.after);
  const WallTime now = clock_.WallNow();
  std::vector<kube::ObjectKey> changed;
  MutexLock lock(mutex_);
  const auto [found, is_new] = nodes_.try_emplace(node_name);
  Node& node = found->second;
  if (status.heartbeat != node.heartbeat) {
    node.heard = is_new && status.heartbeat ? std::min(now, *status.heartbeat) : now;
    node.heartbeat = status.heartbeat;
  }
  std::map<std::string, std::vector<Marker>, std::less<>> pods;
  for (const api::PodReport& report : status.pods) {
    std::vector<Marker> markers = MarkersIn(report);
    const auto before = node.pods.find(report.uid);
    const bool is_same = before == node.pods.end() ? markers.empty() : IsSame(before->second, markers);
    if (!is_same) changed.push_back({report.ns, report.name});
    if (!markers.empty()) pods[report.uid] = std::move(markers);
  }
  node.pods = std::move(pods);
  return changed;
}

std::optional<Duration> NodeReports::Silence(std::string_view node) const {
  const WallTime now = clock_.WallNow();
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || !found->second.heartbeat) return std::nullopt;
  return std::max<Duration>(now - found->second.heard, Duration::zero());
}

std::vector<Marker> NodeReports::MarkersOf(std::string_view node, std::string_view pod_uid) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  const auto pod = found->second.pods.find(pod_uid);
  return pod == found->second.pods.end() ? std::vector<Marker>() : pod->second;
}

}  // namespace paceline::operator_
