#include "agent/node_api.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lib/base/json.h"
#include "lib/base/mutex.h"
#include "lib/net/metrics_page.h"

namespace paceline::agent {
namespace {

std::string_view DriverStateName(DriverState driver) {
  switch (driver) {
    case DriverState::kNotServed: return "NotServed";
    case DriverState::kUnregistered: return "Unregistered";
    case DriverState::kRegistered: return "Registered";
  }
  return "NotServed";
}

Json RenderFeature(const FeatureFact& fact) {
  return {{"support", SupportName(fact.support)}, {"detail", fact.detail}};
}

Json RenderFacts(const NodeFacts& facts) {
  Json devices = Json::array();
  for (const GpuDevice& gpu : facts.gpu.devices) {
    devices.push_back({{"model", gpu.model}, {"uuid", gpu.uuid}, {"memoryBytes", gpu.memory_bytes}});
  }
  return {{"kernel", facts.kernel_release},
          {"osImage", facts.os_image},
          {"architecture", facts.architecture},
          {"cpus", facts.cpu_count},
          {"memoryBytes", facts.memory_bytes},
          {"cgroups", facts.cgroup_version},
          {"containerd", facts.containerd_version},
          {"erofs", RenderFeature(facts.erofs)},
          {"erofsFileBacked", RenderFeature(facts.file_backed_erofs)},
          {"overlayfs", RenderFeature(facts.overlayfs)},
          {"fuse", RenderFeature(facts.fuse)},
          {"nvidia",
           {{"driver", facts.gpu.driver_version},
            {"cuda", facts.gpu.cuda_version},
            {"gpus", std::move(devices)},
            {"detail", facts.gpu.detail}}}};
}

Json RenderVolume(const VolumeRecord& volume) {
  Json out = {{"volumeId", volume.spec.volume_id},      {"type", volume.spec.type},
              {"name", volume.spec.target.volume_name}, {"podUid", volume.spec.pod.uid},
              {"podNamespace", volume.spec.pod.ns},     {"podName", volume.spec.pod.name},
              {"readOnly", volume.spec.is_read_only},   {"phase", VolumePhaseName(volume.phase)},
              {"repeats", volume.repeat_count},         {"requestedAt", FormatRfc3339Micro(volume.requested_at)}};
  if (volume.published_at) {
    out["publishedAt"] = FormatRfc3339Micro(*volume.published_at);
    out["publishSeconds"] = ToSeconds(*volume.published_at - volume.requested_at);
  }
  if (volume.unpublished_at) out["unpublishedAt"] = FormatRfc3339Micro(*volume.unpublished_at);
  return out;
}

Json RenderVolumes(const std::vector<VolumeRecord>& volumes) {
  Json out = Json::array();
  for (const VolumeRecord& volume : volumes) out.push_back(RenderVolume(volume));
  return out;
}

Json RenderMounts(const std::vector<MountReport>& mounts) {
  Json out = Json::array();
  for (const MountReport& mount : mounts) {
    const MountFigures& figures = mount.figures;
    Json entry = {{"volume", mount.volume},          {"state", figures.state},
                  {"message", figures.message},      {"restarts", figures.restarts},
                  {"readBytes", figures.read_bytes}, {"writtenBytes", figures.written_bytes}};
    if (figures.first_read_at) entry["firstReadAt"] = FormatRfc3339Micro(*figures.first_read_at);
    if (figures.last_read_at) entry["lastReadAt"] = FormatRfc3339Micro(*figures.last_read_at);
    out.push_back(std::move(entry));
  }
  return out;
}

Json RenderDependencies(const api::PodDependencies& dependencies) {
  Json out = {{"key", dependencies.key},
              {"state", api::DependencyStateText(dependencies.state)},
              {"cause", dependencies.cause ? api::InstallCauseText(*dependencies.cause) : ""},
              {"reason", dependencies.reason},
              {"notRecorded", dependencies.not_recorded},
              {"digest", dependencies.digest}};
  if (dependencies.at) out["at"] = FormatRfc3339Micro(*dependencies.at);
  if (dependencies.seconds) out["seconds"] = *dependencies.seconds;
  return out;
}

Json RenderPods(const std::vector<PodReport>& reports) {
  Json out = Json::array();
  for (const PodReport& report : reports) {
    Json stages = Json::array();
    for (const StageLine& stage : report.stages) {
      stages.push_back({{"name", stage.name}, {"at", FormatRfc3339Micro(stage.at)}});
    }
    Json pod = {{"uid", report.pod.uid},       {"namespace", report.pod.ns},
                {"name", report.pod.name},     {"volumePublishedAt", FormatRfc3339Micro(report.volume_published_at)},
                {"stages", std::move(stages)}, {"mounts", RenderMounts(report.mounts)}};
    if (report.dependencies) pod["dependencies"] = RenderDependencies(*report.dependencies);
    if (report.ended_at) pod["endedAt"] = FormatRfc3339Micro(*report.ended_at);
    out.push_back(std::move(pod));
  }
  return out;
}

// Scrapes may overlap, and series of pods that are gone must go too: it remembers which it made. Thread-safe.
class VolumeGauges {
 public:
  VolumeGauges(MetricsRegistry& metrics, std::function<std::vector<VolumeRecord>()> volumes)
      : volumes_(std::move(volumes)),
        counts_(metrics.GaugeFamily(
            {.name = "paceline_volumes", .help = "Volumes that are published on this node.", .label_names = {"type"}})),
        times_(metrics.GaugeFamily({.name = "paceline_volume_published_timestamp_seconds",
                                    .help = "When a volume of a pod that is on this node was published.",
                                    .label_names = {"namespace", "pod", "pod_uid", "volume", "type"}})),
        durations_(metrics.GaugeFamily({.name = "paceline_volume_publish_duration_seconds",
                                        .help = "From kubelet's first request for a volume until it was published.",
                                        .label_names = {"namespace", "pod", "pod_uid", "volume", "type"}})) {}

  void Refresh() EXCLUDES(mutex_) {
    const std::vector<VolumeRecord> volumes = volumes_();
    MutexLock lock(mutex_);
    for (auto& [type, count] : by_type_) count = 0;
    std::set<LabelValues> present;
    for (const VolumeRecord& volume : volumes) {
      if (volume.phase != VolumePhase::kPublished || !volume.published_at) continue;
      ++by_type_[volume.spec.type];
      LabelValues labels = {volume.spec.pod.ns, volume.spec.pod.name, volume.spec.pod.uid,
                            volume.spec.target.volume_name, volume.spec.type};
      times_.With(labels).Set(ToSeconds(volume.published_at->time_since_epoch()));
      durations_.With(labels).Set(ToSeconds(*volume.published_at - volume.requested_at));
      present.insert(std::move(labels));
    }
    for (const LabelValues& labels : shown_) {
      if (present.count(labels) > 0) continue;
      times_.Remove(labels);
      durations_.Remove(labels);
    }
    shown_ = std::move(present);
    for (const auto& [type, count] : by_type_) counts_.With({type}).Set(count);
  }

 private:
  const std::function<std::vector<VolumeRecord>()> volumes_;
  MetricFamily<Gauge>& counts_;
  MetricFamily<Gauge>& times_;
  MetricFamily<Gauge>& durations_;
  Mutex mutex_;
  std::set<LabelValues> shown_ GUARDED_BY(mutex_);
  std::map<std::string, int> by_type_ GUARDED_BY(mutex_);  // a type stays, at zero, when its last volume goes
};

}  // namespace

Json RenderNode(const NodeView& view) {
  return {{"node", view.node_name},
          {"agentVersion", view.state.agent_version},
          {"driver", DriverStateName(view.state.driver)},
          {"plan",
           {{"status", view.plan.status.ToString()},
            {"observedGeneration", view.plan.observed_generation},
            {"statusWrites", view.plan.writes}}},
          {"facts", RenderFacts(view.state.facts)},
          {"pods", RenderPods(view.state.pods)},
          {"volumes", RenderVolumes(view.volumes)},
          {"endedVolumes", RenderVolumes(view.ended_volumes)}};
}

std::map<std::string, net::Handler> NodeRoutes(MetricsRegistry& metrics, std::function<NodeView()> view,
                                               Readiness readiness) {
  std::map<std::string, net::Handler> routes;
  routes["/metrics"] = [&metrics](const net::ServerRequest& request, Deadline) {
    return net::MetricsPage(request, metrics.Render());
  };
  routes["/healthz"] = [](const net::ServerRequest&, Deadline) {
    net::ServerResponse response;
    response.body = "ok\n";
    return response;
  };
  routes["/readyz"] = [readiness = std::move(readiness)](const net::ServerRequest&, Deadline) {
    const std::string reason = readiness();
    net::ServerResponse response;
    response.status = reason.empty() ? 200 : 503;
    response.body = reason.empty() ? "ok\n" : reason + "\n";
    return response;
  };
  routes["/v1/node"] = [view = std::move(view)](const net::ServerRequest& request, Deadline) {
    net::ServerResponse response;
    if (request.method != "GET" && request.method != "HEAD") {
      response.status = 405;
      response.headers["Allow"] = "GET, HEAD";
      response.body = "only GET\n";
      return response;
    }
    response.content_type = "application/json";
    response.body = DumpJsonPretty(RenderNode(view())) + "\n";
    return response;
  };
  return routes;
}

void AddVolumeMetrics(MetricsRegistry& metrics, std::function<std::vector<VolumeRecord>()> volumes) {
  auto gauges = std::make_shared<VolumeGauges>(metrics, std::move(volumes));
  metrics.AddRefresher([gauges] { gauges->Refresh(); });
}

}  // namespace paceline::agent
