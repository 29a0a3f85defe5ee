#include "operator/node_plan/node_reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/api/codec.h"
#include "lib/api/node_plan.h"
#include "operator/names.h"

namespace paceline::operator_ {
namespace {

bool IsSameMount(const api::PodMount& x, const api::PodMount& y) {
  return x.volume == y.volume && x.state == y.state && x.message == y.message && x.restarts == y.restarts &&
         x.read_bytes == y.read_bytes && x.written_bytes == y.written_bytes && x.first_read_at == y.first_read_at &&
         x.last_read_at == y.last_read_at;
}

bool IsSameImage(const api::ImageReport& x, const api::ImageReport& y) {
  return x.image == y.image && x.manifest == y.manifest && x.mode == y.mode && x.reason == y.reason &&
         x.message == y.message && x.asked_at == y.asked_at && x.ready_at == y.ready_at && x.store == y.store &&
         x.hot_set == y.hot_set && x.hot_set_chunks == y.hot_set_chunks && x.hot_set_bytes == y.hot_set_bytes &&
         x.hot_set_digest == y.hot_set_digest && x.figures == y.figures;
}

bool IsSameImages(const std::shared_ptr<const std::vector<api::ImageReport>>& before,
                  const std::vector<api::ImageReport>& after) {
  if (before == nullptr) return after.empty();
  return std::equal(before->begin(), before->end(), after.begin(), after.end(), IsSameImage);
}

api::NodePlan PlanOf(const kube::ObjectView& view) {
  const auto body = view.Body();
  if (!body.ok()) return {};
  const Result<api::NodePlan> plan = api::FromJson<api::NodePlan>(*body);
  return plan.ok() ? *plan : api::NodePlan{};
}

std::shared_ptr<const ProbeReport> ProbeIn(const api::NodePlan& plan) {
  auto report = std::make_shared<ProbeReport>();
  if (plan.spec.probe) report->asked = plan.spec.probe->round;
  report->has_jobs = !plan.spec.jobs.empty();
  report->is_heard = plan.status.probe.has_value();
  if (plan.status.probe) report->found = *plan.status.probe;
  return report;
}

std::vector<Marker> MarkersIn(const api::PodReport& report) {
  std::vector<Marker> markers;
  for (const api::PodStage& stage : report.stages) {
    if (stage.at) {
      markers.push_back(
          {stage.name, *stage.at, stage.is_traced ? api::StageSource::kTracer : api::StageSource::kMarker});
    }
  }
  return markers;
}

}  // namespace

bool NodeReports::IsSame(const Pod& a, const Pod& b) {
  return std::equal(a.markers.begin(), a.markers.end(), b.markers.begin(), b.markers.end(),
                    [](const Marker& x, const Marker& y) {
                      return x.name == y.name && x.at == y.at && x.source == y.source;
                    }) &&
         std::equal(a.mounts.begin(), a.mounts.end(), b.mounts.begin(), b.mounts.end(), IsSameMount) &&
         a.dependencies == b.dependencies;
}

std::optional<kube::ObjectKey> NodeReports::SnapshotOf(const Pod& pod) {
  if (!pod.dependencies || pod.dependencies->key.empty()) return std::nullopt;
  return kube::ObjectKey{pod.key.ns, SnapshotName(pod.dependencies->key)};
}

void NodeReports::CompareSnapshots(const Pods& before, const Pods& after, std::vector<kube::ObjectKey>* changed) {
  std::set<kube::ObjectKey> snapshots;
  const auto add_those_unlike = [&snapshots](const Pods& pods, const Pods& others) {
    for (const auto& [uid, pod] : pods) {
      const std::optional<kube::ObjectKey> snapshot = SnapshotOf(pod);
      const auto other = others.find(uid);
      const bool is_same = other != others.end() && other->second.dependencies == pod.dependencies;
      if (snapshot && !is_same) snapshots.insert(*snapshot);
    }
  };
  add_those_unlike(before, after);
  add_those_unlike(after, before);
  changed->insert(changed->end(), snapshots.begin(), snapshots.end());
}

NodeReports::News NodeReports::See(const kube::CacheChange<kube::ObjectView>& change) {
  News news;
  const std::string node_name = change.meta().name.str();
  if (change.after == nullptr) {
    MutexLock lock(mutex_);
    const auto node = nodes_.find(node_name);
    if (node == nodes_.end()) return news;
    CompareTraces(node->second.traces, {}, &news.runs);
    news.has_images = node->second.images != nullptr;
    news.has_peer_address = !node->second.peer_address.empty();
    CompareSnapshots(node->second.pods, {}, &news.snapshots);
    nodes_.erase(node);
    return news;
  }
  const api::NodePlan plan = PlanOf(*change.after);
  const api::NodePlanStatus& status = plan.status;
  const WallTime now = clock_.WallNow();
  MutexLock lock(mutex_);
  const auto [found, is_new] = nodes_.try_emplace(node_name);
  Node& node = found->second;
  if (status.heartbeat != node.heartbeat) {
    node.heard = is_new && status.heartbeat ? std::min(now, *status.heartbeat) : now;
    node.heartbeat = status.heartbeat;
  }
  Pods pods;
  for (const api::PodReport& report : status.pods) {
    Pod pod{{report.ns, report.name}, MarkersIn(report), report.mounts, report.dependencies};
    const auto before = node.pods.find(report.uid);
    if (!IsSame(before == node.pods.end() ? Pod{} : before->second, pod)) news.pods.push_back({report.ns, report.name});
    if (!pod.markers.empty() || !pod.mounts.empty() || pod.dependencies) pods[report.uid] = std::move(pod);
  }
  CompareSnapshots(node.pods, pods, &news.snapshots);
  node.pods = std::move(pods);
  node.address = status.agent_address;
  const int64_t probed = node.probe == nullptr ? 0 : node.probe->found.round;
  node.probe = ProbeIn(plan);
  news.has_probe = node.probe->found.round != probed;
  news.has_peer_address = node.peer_address != status.peer_address;
  node.peer_address = status.peer_address;
  news.has_images = !IsSameImages(node.images, status.image_reports);
  if (status.image_reports.empty()) {
    node.images.reset();
  } else if (news.has_images) {
    node.images = std::make_shared<const std::vector<api::ImageReport>>(status.image_reports);
  }
  std::map<kube::ObjectKey, TraceReport> traces;
  for (const api::TracedRun& run : status.traces) traces[{run.ns, run.run}] = {run.processes, run.alerts};
  CompareTraces(node.traces, traces, &news.runs);
  node.traces = std::move(traces);
  return news;
}

void NodeReports::CompareTraces(const std::map<kube::ObjectKey, TraceReport>& before,
                                const std::map<kube::ObjectKey, TraceReport>& after,
                                std::vector<kube::ObjectKey>* changed) {
  const auto is_same = [](const TraceReport& a, const TraceReport& b) {
    return std::equal(a.alerts.begin(), a.alerts.end(), b.alerts.begin(), b.alerts.end(),
                      [](const api::TraceAlert& x, const api::TraceAlert& y) {
                        return x.kind == y.kind && x.at == y.at && x.rank == y.rank;
                      });
  };
  for (const auto& [run, report] : before) {
    const auto now = after.find(run);
    if (!is_same(report, now == after.end() ? TraceReport{} : now->second)) changed->push_back(run);
  }
  for (const auto& [run, report] : after) {
    if (before.count(run) == 0 && !report.alerts.empty()) changed->push_back(run);
  }
}

std::map<std::string, TraceReport> NodeReports::TracesOf(const kube::ObjectKey& run) const {
  std::map<std::string, TraceReport> reports;
  MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    const auto found = node.traces.find(run);
    if (found != node.traces.end()) reports.emplace(name, found->second);
  }
  return reports;
}

std::shared_ptr<const std::vector<api::ImageReport>> NodeReports::ImagesOf(std::string_view node) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : found->second.images;
}

std::vector<api::ImageReport> NodeReports::ReportsOfManifest(std::string_view manifest) const {
  std::vector<api::ImageReport> reports;
  MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    if (node.images == nullptr) continue;
    for (const api::ImageReport& report : *node.images) {
      if (report.manifest == manifest) reports.push_back(report);
    }
  }
  return reports;
}

std::shared_ptr<const ProbeReport> NodeReports::ProbeOf(std::string_view node) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : found->second.probe;
}

std::string NodeReports::AddressOf(std::string_view node) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::string() : found->second.address;
}

std::string NodeReports::PeerAddressOf(std::string_view node) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::string() : found->second.peer_address;
}

bool NodeReports::HasPeers() const {
  MutexLock lock(mutex_);
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return !node.second.peer_address.empty(); });
}

std::vector<kube::ObjectKey> NodeReports::AlarmedRuns() const {
  std::set<kube::ObjectKey> runs;
  MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    for (const auto& [run, report] : node.traces) {
      if (!report.alerts.empty()) runs.insert(run);
    }
  }
  return {runs.begin(), runs.end()};
}

std::optional<Duration> NodeReports::Silence(std::string_view node) const {
  const WallTime now = clock_.WallNow();
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || !found->second.heartbeat) return std::nullopt;
  return std::max<Duration>(now - found->second.heard, Duration::zero());
}

std::optional<NodeReports::Pod> NodeReports::Find(std::string_view node, std::string_view pod_uid) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return std::nullopt;
  const auto pod = found->second.pods.find(pod_uid);
  return pod == found->second.pods.end() ? std::nullopt : std::optional(pod->second);
}

std::vector<Marker> NodeReports::MarkersOf(std::string_view node, std::string_view pod_uid) const {
  return Find(node, pod_uid).value_or(Pod{}).markers;
}

std::vector<api::PodMount> NodeReports::MountsOf(std::string_view node, std::string_view pod_uid) const {
  return Find(node, pod_uid).value_or(Pod{}).mounts;
}

std::optional<api::PodDependencies> NodeReports::DependenciesOf(std::string_view node, std::string_view pod_uid) const {
  return Find(node, pod_uid).value_or(Pod{}).dependencies;
}

std::vector<DependencyReport> NodeReports::ReportsOf(const kube::ObjectKey& snapshot) const {
  std::vector<DependencyReport> reports;
  MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    for (const auto& [uid, pod] : node.pods) {
      if (SnapshotOf(pod) == snapshot) reports.push_back({name, pod.key, uid, *pod.dependencies});
    }
  }
  return reports;
}

std::vector<kube::ObjectKey> NodeReports::ReportedSnapshots() const {
  std::set<kube::ObjectKey> snapshots;
  MutexLock lock(mutex_);
  for (const auto& [name, node] : nodes_) {
    for (const auto& [uid, pod] : node.pods) {
      if (const std::optional<kube::ObjectKey> snapshot = SnapshotOf(pod)) snapshots.insert(*snapshot);
    }
  }
  return {snapshots.begin(), snapshots.end()};
}

}  // namespace paceline::operator_
