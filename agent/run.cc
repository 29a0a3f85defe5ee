#include "agent/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "agent/facts/node_facts.h"
#include "agent/health/health_watch.h"
#include "agent/images/image_watch.h"
#include "agent/images/peer_link.h"
#include "agent/mount_metrics.h"
#include "agent/node_api.h"
#include "agent/plan/plan_reconciler.h"
#include "agent/plan/plan_store.h"
#include "agent/probe/network_probe.h"
#include "agent/probe/node_prober.h"
#include "agent/probe/probe_command.h"
#include "agent/state_lock.h"
#include "agent/trace/collector.h"
#include "agent/trace_api.h"
#include "agent/volume_service.h"
#include "lib/base/filesystem.h"
#include "lib/base/metrics.h"
#include "lib/base/mutex.h"
#include "lib/base/version.h"
#include "lib/kube/cache.h"
#include "lib/kube/config.h"
#include "lib/kube/controller.h"
#include "lib/kube/rest_client.h"
#include "lib/net/http_server.h"

namespace paceline::agent {
namespace {

constexpr Duration kLockLimit = std::chrono::seconds(60);
constexpr Duration kFactsLimit = std::chrono::seconds(5);
constexpr Duration kPlanFilePoll = std::chrono::seconds(2);

// The facts at hand, collected anew by a thread of their own since drivers may take their time. Thread-safe.
class FactKeeper {
 public:
  FactKeeper(const AgentConfig& config, const Clock& clock)
      : sources_{.root = config.host_root,
                 .containerd_socket = config.containerd_socket,
                 .nvml_library = config.nvml_library},
        period_(config.facts_period),
        clock_(clock) {
    Collect();
  }

  NodeFacts facts() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return facts_;
  }

  void Run(std::stop_token stop, const std::function<void()>& on_collected) {
    while (clock_.SleepFor(period_, stop)) {
      Collect();
      on_collected();
    }
  }

 private:
  void Collect() EXCLUDES(mutex_) {
    NodeFacts facts = CollectNodeFacts(sources_, Deadline::After(clock_, kFactsLimit));
    MutexLock lock(mutex_);
    facts_ = std::move(facts);
  }

  const FactSources sources_;
  const Duration period_;
  const Clock& clock_;
  mutable Mutex mutex_;
  NodeFacts facts_ GUARDED_BY(mutex_);
};

// The connection to the API server and the mirror of our one NodePlan.
struct ClusterPlan {
  std::unique_ptr<net::HttpTransport> transport;
  std::unique_ptr<kube::Client> client;
  std::unique_ptr<kube::ObjectCache> cache;
};

class Agent {
 public:
  Agent(const AgentConfig& config, const Clock& clock, Logger& log)
      : config_(config),
        clock_(clock),
        log_(log),
        metrics_(MetricsRegistry::Create()),
        facts_(config, clock),
        health_({.node = config.node_name, .host_root = config.host_root, .nvml_library = config.nvml_library}, clock,
                *metrics_) {}

  Status Run(std::stop_token stop) {
    metrics_->AddProcessMetrics(Version(), Revision());
    RETURN_IF_ERROR(StartPlan());
    UniqueFd lock;
    if (!config_.uses_plan_file()) {
      ASSIGN_OR_RETURN(lock, LockState(config_.state_dir, clock_, Deadline::After(clock_, kLockLimit), stop));
      ASSIGN_OR_RETURN(volumes_, VolumeService::Start(
                                     config_, [this] { Poke(); }, clock_, log_, *metrics_));
      AddVolumeMetrics(*metrics_, [this] { return volumes_->Volumes(); });
      AddMountMetrics(*metrics_, [this] { return volumes_->Pods(); });
    }
    MakeCollector();
    MakeImageWatch();
    MakeProber();
    RETURN_IF_ERROR(StartHttp());
    port_.store(http_->port());
    log_.Info("agent started", {{"node", config_.node_name}, {"port", http_->port()}});
    Work(stop);
    // kubelet first: its calls are the ones that somebody waits for.
    if (volumes_ != nullptr) volumes_->Shutdown(config_.shutdown_grace);
    http_->Shutdown(config_.shutdown_grace);
    log_.Info("agent stopped", {{"node", config_.node_name}});
    return Status();
  }

 private:
  Status StartPlan() {
    PlanReconciler::Options options{.heartbeat = config_.heartbeat};
    options.on_plan = [this](const api::NodePlan& plan) { prober_->See(plan); };
    if (config_.uses_plan_file()) {
      options.poll_interval = kPlanFilePoll;
      store_ = NewFilePlanStore(config_.node_name, config_.plan, config_.plan_status, files_);
    } else {
      RETURN_IF_ERROR(ConnectCluster());
      store_ = NewClusterPlanStore(config_.node_name, cluster_.cache->store(), *cluster_.client);
    }
    reconciler_ = std::make_unique<PlanReconciler>(
        options, *store_, [this] { return State(); }, clock_, log_);
    controller_ = std::make_unique<kube::Controller>(kube::ControllerOptions{.name = "nodeplan"}, *reconciler_, clock_,
                                                     log_, *metrics_);
    return Status();
  }

  Status ConnectCluster() {
    ASSIGN_OR_RETURN(kube::KubeConfig kube_config, kube::LoadKubeConfig({.kubeconfig = config_.kubeconfig}));
    const kube::RestOptions rest{.qps = 5, .burst = 10, .user_agent = fmt::format("paceline-agent/{}", Version())};
    ASSIGN_OR_RETURN(cluster_.transport, kube::NewApiTransport(kube_config, rest, *metrics_, clock_));
    cluster_.client = kube::NewRestClient(*cluster_.transport, clock_);
    kube::ReflectorOptions options;
    options.resource = NodePlanResource();
    options.field_selector = "metadata.name=" + config_.node_name;
    options.preferred_encoding = kube::Encoding::kJson;
    cluster_.cache = std::make_unique<kube::ObjectCache>(
        options, kube::CacheEnvironment{*cluster_.transport, clock_, log_, *metrics_});
    cluster_.cache->AddHandler([this](const kube::CacheChange<kube::ObjectView>&) { Poke(); });
    return Status();
  }

  void MakeCollector() {
    CollectorOptions options;
    options.node = config_.node_name;
    options.folders = [this] {
      std::vector<TraceFolder> folders;
      if (volumes_ != nullptr) folders = volumes_->TraceFolders();
      if (!config_.trace_folder.empty()) folders.push_back({config_.trace_folder, "", ""});
      return folders;
    };
    options.on_news = [this] { Poke(); };
    collector_ = std::make_unique<Collector>(std::move(options), files_, clock_, *metrics_);
  }

  void MakeImageWatch() {
    if (config_.snapshotter_socket.empty()) return;
    ImageWatchOptions options;
    options.ask = [this](Deadline deadline) {
      return AskSnapshotter(config_.snapshotter_socket, "images", clock_, deadline);
    };
    options.on_news = [this] { Poke(); };
    PeerLinkOptions link;
    link.host = config_.node_address;
    link.ask = [this](const std::string& line, Deadline deadline) {
      return AskSnapshotter(config_.snapshotter_socket, line, clock_, deadline);
    };
    link.peers = [this]() -> std::optional<std::vector<std::string>> {
      const Result<api::NodePlan> plan = store_->Read();
      if (!plan.ok()) return std::nullopt;
      std::vector<std::string> addresses;
      for (const api::PlanPeer& peer : plan->spec.peers) addresses.push_back(peer.address);
      return addresses;
    };
    link.on_news = [this] { Poke(); };
    peer_link_ = std::make_unique<PeerLink>(std::move(link), clock_, log_);
    options.on_answer = [this](std::string_view answer) { peer_link_->See(answer); };
    images_ = std::make_unique<ImageWatch>(std::move(options), clock_, log_);
  }

  void MakeProber() {
    const ProbeChildOptions child{.host_root = config_.host_root,
                                  .scratch_folder = config_.uses_plan_file() ? "/var/tmp" : config_.state_dir,
                                  .nvml_library = config_.nvml_library,
                                  .cuda_library = config_.cuda_library};
    NodeProberOptions options;
    options.measure = [this, child](const api::ProbeRequest& request, std::stop_token end) {
      return RunProbeChild(child, request, clock_, std::move(end));
    };
    options.has_pods = [this] {
      if (volumes_ == nullptr) return false;
      const std::vector<PodReport> pods = volumes_->Pods();
      return std::any_of(pods.begin(), pods.end(), [](const PodReport& pod) { return !pod.ended_at; });
    };
    options.on_news = [this] { Poke(); };
    prober_ = std::make_unique<NodeProber>(std::move(options), clock_, log_, *metrics_);
  }

  Status StartHttp() {
    net::ServerOptions options;
    options.address = config_.metrics_address;
    options.port = static_cast<uint16_t>(config_.metrics_port);
    auto routes = NodeRoutes(
        *metrics_, [this] { return View(); }, [this] { return WhyNotReady(); });
    routes.merge(TraceRoutes(*collector_, [this] { return health_.Faults(); }));
    routes.merge(ProbeRoutes([this] { return prober_->IsFree(); }));
    ASSIGN_OR_RETURN(http_, net::HttpServer::Start(options, std::move(routes), nullptr, clock_, log_));
    return Status();
  }

  void Work(std::stop_token stop) {
    if (cluster_.cache != nullptr) cluster_.cache->Start();
    std::jthread facts([this](std::stop_token end) { facts_.Run(std::move(end), [this] { Poke(); }); });
    std::stop_callback stop_facts(stop, [&facts] { facts.request_stop(); });
    std::jthread health([this](std::stop_token end) { health_.Run(std::move(end)); });
    std::stop_callback stop_health(stop, [&health] { health.request_stop(); });
    std::jthread traces([this](std::stop_token end) { collector_->Run(std::move(end)); });
    std::stop_callback stop_traces(stop, [&traces] { traces.request_stop(); });
    std::jthread images([this](std::stop_token end) {
      if (images_ != nullptr) images_->Run(std::move(end));
    });
    std::stop_callback stop_images(stop, [&images] { images.request_stop(); });
    std::jthread probes([this](std::stop_token end) { prober_->Run(std::move(end)); });
    std::stop_callback stop_probes(stop, [&probes] { probes.request_stop(); });
    // Waits for the API server as long as it takes; volumes are served meanwhile.
    if (cluster_.cache != nullptr && !cluster_.cache->WaitForSync(Deadline::Infinite(), stop).ok()) return;
    Poke();
    controller_->Run(stop);
    if (cluster_.cache != nullptr) cluster_.cache->Stop();
  }

  void Poke() { controller_->queue().Add({"", config_.node_name}); }

  NodeState State() const {
    NodeState state;
    state.agent_version = Version();
    state.facts = facts_.facts();
    if (volumes_ != nullptr) {
      state.pods = volumes_->Pods();
      state.driver = volumes_->driver();
    }
    if (images_ != nullptr) state.images = images_->Reports();
    if (peer_link_ != nullptr) state.peer_address = peer_link_->address();
    state.traces = collector_->States();
    state.probe = prober_->Status();
    state.traced_stages = collector_->Stages();
    if (const uint16_t port = port_.load(); port != 0 && !config_.advertise_address.empty()) {
      state.address = JoinHostPort(config_.advertise_address, port);
    }
    return state;
  }

  NodeView View() const {
    NodeView view;
    view.node_name = config_.node_name;
    view.state = State();
    view.plan = reconciler_->LastOutcome();
    if (volumes_ != nullptr) {
      view.volumes = volumes_->Volumes();
      view.ended_volumes = volumes_->EndedVolumes();
    }
    return view;
  }

  // Only what a restart or a roll-out should wait for; an API server that is away is no reason.
  std::string WhyNotReady() const {
    if (volumes_ != nullptr && volumes_->driver() != DriverState::kRegistered) {
      return "kubelet has not registered the CSI driver";
    }
    return "";
  }

  const AgentConfig& config_;
  const Clock& clock_;
  Logger& log_;
  RealFileSystem files_;
  const std::unique_ptr<MetricsRegistry> metrics_;
  FactKeeper facts_;
  HealthWatch health_;
  ClusterPlan cluster_;
  std::unique_ptr<PlanStore> store_;
  std::unique_ptr<PlanReconciler> reconciler_;
  std::unique_ptr<kube::Controller> controller_;
  std::unique_ptr<VolumeService> volumes_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<NodeProber> prober_;
  std::unique_ptr<PeerLink> peer_link_;  // as images_
  std::unique_ptr<ImageWatch> images_;   // null: there is nobody to ask
  std::unique_ptr<net::HttpServer> http_;
  std::atomic<uint16_t> port_{0};  // told to the operator
};

}  // namespace

Status RunAgent(const AgentConfig& config, const Clock& clock, Logger& log, std::stop_token stop) {
  Agent agent(config, clock, log);
  return agent.Run(std::move(stop));
}

}  // namespace paceline::agent
