#include "operator/operator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <random>
#include <thread>

#include "lib/base/filesystem.h"
#include "lib/base/version.h"
#include "lib/blocks/registry/registry_config.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "lib/kube/leader_election.h"
#include "lib/kube/webhook.h"
#include "lib/kube/webhook_certificates.h"
#include "lib/net/http_server.h"
#include "lib/net/metrics_page.h"
#include "operator/cluster_metrics.h"
#include "operator/dependencies/image_facts.h"
#include "operator/dependencies/snapshot_reconciler.h"
#include "operator/image/profile_reconciler.h"
#include "operator/image/request_reconciler.h"
#include "operator/incident/reconciler.h"
#include "operator/node_plan/reconciler.h"
#include "operator/page/job_page.h"
#include "operator/page/rank_heat.h"
#include "operator/straggler/slowdown_reconciler.h"
#include "operator/straggler/straggler_reconciler.h"
#include "operator/training_job/reconciler.h"
#include "operator/training_run/reconciler.h"
#include "operator/watches.h"
#include "operator/webhook/certificate_expiry.h"
#include "operator/webhook/pod_webhook.h"

namespace paceline::operator_ {
namespace {

constexpr Duration kShutdownGrace = std::chrono::seconds(10);
constexpr size_t kMaxTemplateBytes = 1 << 20;
constexpr std::string_view kWebhookPath = "/mutate-pods";

std::string MakeIdentity(const OperatorConfig& config) {
  if (!config.identity.empty()) return config.identity;
  char host[256] = "paceline-operator";
  ::gethostname(host, sizeof host - 1);
  std::random_device random;
  return fmt::format("{}_{:08x}", host, random());
}

blocks::RegistryOptions RegistryOptionsOf(const OperatorConfig& config) {
  blocks::RegistryOptions options = blocks::RegistryOptionsOf(config.registry);
  options.user_agent = "paceline-operator";
  return options;
}

ConversionJobSettings ConversionSettingsOf(const OperatorConfig& config,
                                           std::shared_ptr<const nlohmann::json> pod_template) {
  return {config.ns, config.conversion_store, std::move(pod_template), config.conversion_time_limit};
}

kube::WebhookCertificateOptions CertificateOptions(const OperatorConfig& config) {
  kube::WebhookCertificateOptions options;
  options.ns = config.ns;
  options.secret_name = config.webhook_secret;
  options.configurations = config.webhook_configurations;
  options.dns_names = config.webhook_dns_names;
  if (options.dns_names.empty()) {
    const std::string service = "paceline-webhook." + config.ns + ".svc";
    options.dns_names = {service, service + ".cluster.local"};
  }
  options.ip_addresses = config.webhook_ip_addresses;
  return options;
}

// Kubelets bring a Secret's new content to running pods within two minutes or so.
constexpr Duration kPeerTrustDelay = std::chrono::minutes(5);

kube::WebhookCertificateOptions PeerCertificateOptions(const OperatorConfig& config) {
  kube::WebhookCertificateOptions options;
  options.ns = config.ns;
  options.secret_name = config.peers_secret;
  options.dns_names = {config.peers_server_name};
  options.use = kube::CertificateUse::kPeers;
  options.trust_delay = kPeerTrustDelay;
  return options;
}

// The controllers, made once the watches have synced; they run while we lead.
class Controllers {
 public:
  Controllers(const OperatorConfig& config, const OperatorEnvironment& env, const Watches& watches,
              kube::EventRecorder& events, const ConversionJobSettings& conversion)
      : training_job_({watches.training_jobs(), watches.child_jobs(), watches.pods(), watches.services(), env.client,
                       events, env.clock}),
        training_run_({watches.catalog(), watches.child_jobs(), watches.pods(), watches.events(), watches.runs(),
                       watches.reports(), watches.observed(), env.client, events, env.clock, env.metrics},
                      {.history_limit = config.run_history_limit, .agent_silence_limit = config.agent_silence_limit}),
        node_plan_({watches.nodes(), watches.pods(), watches.runs(), watches.plans(), watches.catalog(),
                    watches.reports(), env.client, env.clock}),
        traces_(NewAgentTraceSource(env.clock)),
        incident_({watches.reports(), watches.runs(), watches.pods(), watches.incidents(), *traces_, env.client, events,
                   env.clock, env.log, env.metrics},
                  {.judge = {.host_pause = config.incident_host_pause}}),
        slowdown_({watches.reports(), watches.runs(), watches.policies(), watches.catalog(), *traces_, paces_,
                   env.client, env.clock, env.log, env.metrics}),
        straggler_({paces_, watches.policies(), watches.runs(), watches.incidents(), watches.nodes(), watches.pods(),
                    watches.reports(), watches.catalog(), env.client, events, env.clock, env.log, env.metrics}),
        image_request_({watches.catalog(), watches.pods(), watches.nodes(), watches.profiles(), image_users_,
                        [this](const std::string& profile) {
                          image_profiles_.queue().Add({"", profile});
                        },
                        env.client, events, env.clock},
                       {.is_complete = conversion.is_complete(), .images = config.conversion_images}),
        image_profile_({watches.profiles(), watches.conversions(), image_users_, watches.reports(), env.client, events,
                        env.clock, env.metrics},
                       {conversion, config.conversions_at_once}),
        snapshot_({watches.reports(), watches.pods(), watches.snapshots(), env.client, events, env.clock, env.log},
                  {.agent_silence_limit = config.agent_silence_limit}),
        training_jobs_({"trainingjob", config.workers}, training_job_, env.clock, env.log, env.metrics),
        training_runs_({"trainingrun", config.workers}, training_run_, env.clock, env.log, env.metrics),
        node_plans_({"nodeplan", config.workers}, node_plan_, env.clock, env.log, env.metrics),
        incidents_({"incident", config.workers}, incident_, env.clock, env.log, env.metrics),
        slowdowns_({"slowdown", config.workers}, slowdown_, env.clock, env.log, env.metrics),
        stragglers_({"straggler", 1}, straggler_, env.clock, env.log, env.metrics),
        image_requests_({"imagerequest", config.workers}, image_request_, env.clock, env.log, env.metrics),
        image_profiles_({"imageprofile", 1}, image_profile_, env.clock, env.log, env.metrics),
        snapshots_({"dependencysnapshot", config.workers}, snapshot_, env.clock, env.log, env.metrics) {}

  Queues queues() {
    return {training_jobs_.queue(),  training_runs_.queue(),  node_plans_.queue(),
            incidents_.queue(),      slowdowns_.queue(),      stragglers_.queue(),
            image_requests_.queue(), image_profiles_.queue(), snapshots_.queue()};
  }

  const PaceStore& paces() const { return paces_; }
  TraceSource& traces() const { return *traces_; }

  // Start is called by the elector's thread and may fall together with the end of the program, or after it: then
  // nothing starts.
  void Start() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (is_stopped_) return;
    for (kube::Controller* controller : {&training_jobs_, &training_runs_, &node_plans_, &incidents_, &slowdowns_,
                                         &stragglers_, &image_requests_, &image_profiles_, &snapshots_}) {
      threads_.emplace_back([controller](std::stop_token stop) { controller->Run(std::move(stop)); });
    }
  }
  void Stop() EXCLUDES(mutex_) {
    std::vector<std::jthread> threads;
    {
      MutexLock lock(mutex_);
      is_stopped_ = true;
      threads = std::move(threads_);
    }
    for (std::jthread& thread : threads) thread.request_stop();
  }

 private:
  TrainingJobReconciler training_job_;
  TrainingRunReconciler training_run_;
  NodePlanReconciler node_plan_;
  const std::unique_ptr<TraceSource> traces_;
  PaceStore paces_;
  IncidentReconciler incident_;
  SlowdownReconciler slowdown_;
  StragglerReconciler straggler_;
  ImageUsers image_users_;
  ImageRequestReconciler image_request_;
  ImageProfileReconciler image_profile_;
  SnapshotReconciler snapshot_;
  kube::Controller training_jobs_, training_runs_, node_plans_, incidents_, slowdowns_, stragglers_, image_requests_,
      image_profiles_, snapshots_;
  Mutex mutex_;
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
  bool is_stopped_ GUARDED_BY(mutex_) = false;
};

class OperatorImpl final : public Operator {
 public:
  OperatorImpl(const OperatorConfig& config, const OperatorEnvironment& env)
      : config_(config),
        env_(env),
        identity_(MakeIdentity(config)),
        watches_({env.transport, env.clock, env.log, env.metrics}),
        page_access_(env.transport, env.clock) {}

  Status ServeMetrics() {
    net::ServerOptions options;
    options.address = config_.metrics_address;
    options.port = static_cast<uint16_t>(config_.metrics_port);
    options.threads = 2;
    const auto text = [](int status, std::string body) {
      net::ServerResponse response;
      response.status = status;
      response.body = std::move(body);
      return response;
    };
    std::map<std::string, net::Handler> routes;
    routes["/metrics"] = [this](const net::ServerRequest& request, Deadline) {
      return net::MetricsPage(request, env_.metrics.Render());
    };
    routes["/healthz"] = [text](const net::ServerRequest&, Deadline) { return text(200, "ok\n"); };
    routes["/readyz"] = [this, text](const net::ServerRequest&, Deadline) {
      return is_ready() ? text(200, "ok\n") : text(503, WhyNotReady() + "\n");
    };
    ASSIGN_OR_RETURN(metrics_server_,
                     net::HttpServer::Start(options, std::move(routes), nullptr, env_.clock, env_.log));
    return Status();
  }

  Status Run(std::stop_token stop) override {
    const std::stop_callback forward(stop, [this] { stop_.request_stop(); });
    Status result = RunUntilStopped();
    Shutdown();
    return result.code() == StatusCode::kCancelled ? Status() : result;
  }

  uint16_t metrics_port() const override { return metrics_server_->port(); }
  uint16_t webhook_port() const override { return webhook_port_.load(); }
  uint16_t page_port() const override { return page_port_.load(); }
  bool is_leading() const override { return is_leading_.load(); }
  bool is_ready() const override { return WhyNotReady().empty(); }

 private:
  Status MakePodWebhook() {
    ASSIGN_OR_RETURN(images_, NewRegistryLookup(RegistryOptionsOf(config_), files_, env_.clock));
    pod_webhook_ =
        std::make_unique<PodWebhook>(PodWebhookOptions{.adds_stage_volume = config_.stage_volume,
                                                       .agent_silence_limit = config_.agent_silence_limit,
                                                       .install_lookup_timeout = config_.install_lookup_limit},
                                     PodWebhookEnvironment{watches_.catalog(), watches_.nodes(), watches_.reports(),
                                                           env_.client, images_.get(), *events_, env_.clock});
    return Status();
  }

  std::string WhyNotReady() const {
    if (!watches_.HasSynced()) return "caches not synced";
    if (config_.webhook && webhook_port_.load() == 0) return "webhook not served: no certificate yet";
    return {};
  }

  Status ReadConversionTemplate() {
    if (config_.conversion_template.empty()) return Status();
    ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(config_.conversion_template, kMaxTemplateBytes));
    Result<std::shared_ptr<const nlohmann::json>> read = ParseConversionTemplate(text);
    if (!read.ok()) return read.status().Annotate(config_.conversion_template);
    conversion_template_ = *std::move(read);
    return Status();
  }

  Status RunUntilStopped() {
    const std::stop_token stop = stop_.get_token();
    RETURN_IF_ERROR(ReadConversionTemplate());
    if (config_.webhook) StartCertificates();
    if (!config_.peers_secret.empty()) StartPeerCertificates();
    // Without the webhook's certificate the pods just miss their labels: nothing here waits for it.
    RETURN_IF_ERROR(watches_.Start(stop));
    env_.log.Info("caches synced", {{"pods", watches_.pods().size()}, {"nodes", watches_.nodes().size()}});

    kube::EventRecorderOptions event_options;
    event_options.controller = "paceline.dev/operator";
    event_options.instance = identity_.substr(0, 128);
    events_ = kube::EventRecorder::Start(event_options, env_.client, env_.clock, env_.log, env_.metrics);
    controllers_ = std::make_unique<Controllers>(config_, env_, watches_, *events_,
                                                 ConversionSettingsOf(config_, conversion_template_));
    rank_heat_ = std::make_unique<RankHeatSource>(
        RankHeatEnvironment{controllers_->paces(), watches_.reports(), watches_.runs(), watches_.policies(),
                            watches_.catalog(), controllers_->traces(), env_.clock});
    cluster_metrics_ = std::make_unique<ClusterMetrics>(
        env_.metrics,
        ClusterMetricsEnvironment{watches_.nodes(), watches_.incidents(), watches_.snapshots(), watches_.reports(),
                                  [this] { return is_leading_.load(); }, config_.agent_silence_limit});
    RETURN_IF_ERROR(MakePodWebhook());
    if (config_.webhook) {
      threads_.emplace_back([this] { Serve("webhook", [this] { return TryServeWebhook(); }); });
    }
    if (config_.page && config_.page_tls && !config_.webhook) {
      env_.log.Info("job page not served: its certificate is the webhook's, which is off");
    } else if (config_.page) {
      threads_.emplace_back([this] { Serve("job page", [this] { return TryServePage(); }); });
    }
    threads_.emplace_back([this] { RunRounds(stop_.get_token()); });

    if (!config_.leader_election) {
      Lead();
    } else {
      RETURN_IF_ERROR(Elect());
    }
    WaitForStop(stop);
    MutexLock lock(mutex_);
    return lost_;
  }

  void StartCertificates() {
    if (config_.webhook_certificates == "files") {
      load_pair_ = WithExpiryMetric(kube::TlsPairFromFiles(config_.webhook_certificate_file, config_.webhook_key_file),
                                    env_.metrics);
      return;
    }
    certificates_ = kube::WebhookCertificates::Create(CertificateOptions(config_), env_.client, env_.clock, env_.log);
    load_pair_ = WithExpiryMetric([this] { return certificates_->Current(); }, env_.metrics);
    threads_.emplace_back([this] { certificates_->Run([this] { return is_leading_.load(); }, stop_.get_token()); });
  }

  // Those with which the nodes' snapshotters know each other; they read them from the Secret as it is mounted.
  void StartPeerCertificates() {
    peer_certificates_ =
        kube::WebhookCertificates::Create(PeerCertificateOptions(config_), env_.client, env_.clock, env_.log);
    threads_.emplace_back(
        [this] { peer_certificates_->Run([this] { return is_leading_.load(); }, stop_.get_token()); });
  }

  // Waits for the first certificate, then serves until Shutdown.
  void Serve(const char* what, const std::function<Status()>& try_to) {
    const std::stop_token stop = stop_.get_token();
    bool has_warned = false;
    while (!stop.stop_requested()) {
      const Status started = try_to();
      if (started.ok()) return;
      if (!std::exchange(has_warned, true)) {
        env_.log.Warn("not served yet, retrying", {{"what", what}, {"error", started}});
      }
      if (!env_.clock.SleepFor(std::chrono::seconds(1), stop)) return;
    }
  }

  Status TryServePage() {
    net::ServerOptions options;
    options.address = config_.page_address;
    options.port = static_cast<uint16_t>(config_.page_port);
    std::unique_ptr<net::ServerTls> tls;
    if (config_.page_tls) {
      RETURN_IF_ERROR(load_pair_().status());
      tls = std::make_unique<net::ServerTls>();
      tls->load = load_pair_;
    }
    const auto rank_heat = [this](const kube::ObjectKey& run, Deadline deadline) {
      return rank_heat_->Heat(run, deadline);
    };
    auto routes = JobPageRoutes({watches_.runs(), watches_.incidents(), watches_.nodes(), page_access_, rank_heat});
    ASSIGN_OR_RETURN(auto server,
                     net::HttpServer::Start(options, std::move(routes), std::move(tls), env_.clock, env_.log));
    page_port_.store(server->port());
    env_.log.Info("job page served", {{"port", static_cast<int>(server->port())}});
    MutexLock lock(mutex_);
    page_server_ = std::move(server);
    return Status();
  }

  Status TryServeWebhook() {
    ASSIGN_OR_RETURN(const net::TlsPair pair, load_pair_());
    net::ServerOptions options;
    options.address = config_.webhook_address;
    options.port = static_cast<uint16_t>(config_.webhook_port);
    auto tls = std::make_unique<net::ServerTls>();
    tls->load = load_pair_;
    std::map<std::string, net::Handler> routes;
    const auto decide = [this](const kube::AdmissionRequest& request, Deadline deadline) {
      return pod_webhook_->Handle(request, deadline);
    };
    routes[std::string(kWebhookPath)] =
        kube::NewAdmissionHandler(std::string(kWebhookPath), decide, env_.clock, env_.log, env_.metrics);
    ASSIGN_OR_RETURN(auto server,
                     net::HttpServer::Start(options, std::move(routes), std::move(tls), env_.clock, env_.log));
    webhook_port_.store(server->port());
    env_.log.Info("webhook served", {{"port", static_cast<int>(server->port())}});
    MutexLock lock(mutex_);
    webhook_server_ = std::move(server);
    return Status();
  }

  // Discovery of new job kinds, and the resync.
  void RunRounds(std::stop_token stop) {
    TimePoint resync = env_.clock.Now() + config_.resync_period;
    while (env_.clock.SleepFor(config_.discovery_period, stop)) {
      const Status found = watches_.Discover(Deadline::After(env_.clock, std::chrono::seconds(30)));
      if (!found.ok()) env_.log.Debug("job kinds not looked for, retrying", {{"error", found}});
      if (env_.clock.Now() < resync) continue;
      resync = env_.clock.Now() + config_.resync_period;
      watches_.Resync();
    }
  }

  Status Elect() {
    kube::LeaderElectionOptions options;
    options.ns = config_.ns;
    options.name = config_.lease_name;
    options.identity = identity_;
    options.lease_duration = config_.lease_duration;
    options.renew_deadline = config_.renew_deadline;
    options.retry_period = config_.retry_period;
    kube::LeaderCallbacks callbacks;
    callbacks.on_started_leading = [this] { Lead(); };
    callbacks.on_lost = [this](const Status& why) {
      env_.log.Error("lease lost, ending", {{"error", why}});
      {
        MutexLock lock(mutex_);
        lost_ = AbortedError("lease lost: " + why.message());
      }
      is_leading_.store(false);
      stop_.request_stop();
    };
    callbacks.on_new_leader = [this](const std::string& leader) { env_.log.Info("leader", {{"identity", leader}}); };
    ASSIGN_OR_RETURN(elector_, kube::LeaderElector::Start(options, std::move(callbacks), env_.lease_client, env_.clock,
                                                          env_.log, env_.metrics));
    return Status();
  }

  void Lead() {
    is_leading_.store(true);
    controllers_->Start();
    watches_.Feed(controllers_->queues());
    env_.log.Info("leading", {{"identity", identity_}});
  }

  void WaitForStop(std::stop_token stop) {
    while (env_.clock.SleepFor(std::chrono::hours(1), stop)) {
    }
  }

  void Shutdown() {
    stop_.request_stop();
    if (elector_ != nullptr && !is_leading_.load()) elector_->Stop();  // it must not begin to lead now
    if (controllers_ != nullptr) controllers_->Stop();
    if (events_ != nullptr) {
      const Status sent = events_->Stop(Deadline::After(env_.clock, std::chrono::seconds(5)));
      if (!sent.ok()) env_.log.Warn("events not sent", {{"error", sent}});
    }
    if (elector_ != nullptr) elector_->Stop();  // frees the lease, now that nothing writes any more
    is_leading_.store(false);
    threads_.clear();  // each ends with stop_
    std::unique_ptr<net::HttpServer> webhook, page;
    {
      MutexLock lock(mutex_);
      webhook = std::move(webhook_server_);
      page = std::move(page_server_);
    }
    if (page != nullptr) page->Shutdown(std::chrono::seconds(1));
    if (webhook != nullptr) webhook->Shutdown(kShutdownGrace);
    if (metrics_server_ != nullptr) metrics_server_->Shutdown(std::chrono::seconds(1));
    watches_.Stop();
    env_.log.Info("stopped");
  }

  const OperatorConfig config_;
  const OperatorEnvironment env_;
  const std::string identity_;
  std::stop_source stop_;
  std::atomic<bool> is_leading_{false};
  std::atomic<uint16_t> webhook_port_{0};
  std::atomic<uint16_t> page_port_{0};

  Watches watches_;
  PageAccess page_access_;
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<Controllers> controllers_;
  std::unique_ptr<RankHeatSource> rank_heat_;
  std::unique_ptr<ClusterMetrics> cluster_metrics_;
  const RealFileSystem files_;
  std::shared_ptr<const nlohmann::json> conversion_template_;  // null: nothing is converted
  std::unique_ptr<ImageLookup> images_;
  std::unique_ptr<PodWebhook> pod_webhook_;
  std::unique_ptr<kube::WebhookCertificates> certificates_, peer_certificates_;
  std::function<Result<net::TlsPair>()> load_pair_;
  std::unique_ptr<kube::LeaderElector> elector_;
  std::unique_ptr<net::HttpServer> metrics_server_;
  std::vector<std::jthread> threads_;

  Mutex mutex_;
  std::unique_ptr<net::HttpServer> webhook_server_ GUARDED_BY(mutex_);
  std::unique_ptr<net::HttpServer> page_server_ GUARDED_BY(mutex_);
  Status lost_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Operator>> Operator::Create(const OperatorConfig& config,
                                                   const OperatorEnvironment& environment) {
  environment.metrics.AddProcessMetrics(Version(), Revision());
  auto made = std::make_unique<OperatorImpl>(config, environment);
  RETURN_IF_ERROR(made->ServeMetrics());
  return Result<std::unique_ptr<Operator>>(std::move(made));
}

}  // namespace paceline::operator_
