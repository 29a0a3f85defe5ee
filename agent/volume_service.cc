#include "agent/volume_service.h"

#include <thread>

#include "agent/csi/deps_keeper.h"
#include "agent/csi/deps_volume.h"
#include "agent/csi/hdfs_volume.h"
#include "agent/csi/holder_client.h"
#include "agent/csi/scratch_volume.h"
#include "agent/csi/trace_volume.h"
#include "agent/csi/volume_host.h"
#include "lib/api/node_plan.h"
#include "lib/base/version.h"
#include "lib/blocks/registry/registry_store.h"

namespace paceline::agent {
namespace {

constexpr Duration kMendLimit = std::chrono::minutes(2);
constexpr Duration kLookLimit = std::chrono::seconds(10);
constexpr Duration kLastLookLimit = std::chrono::seconds(1);

blocks::RegistryOptions RegistryOptionsOf(const AgentConfig& config) {
  blocks::RegistryOptions options = blocks::RegistryOptionsOf(config.registry);
  options.user_agent = "paceline-agent";
  return options;
}

// "file:///FOLDER" or "/FOLDER" -> "/FOLDER"; "" for another store.
std::string StoreFolderOf(const AgentConfig& config) {
  constexpr std::string_view kFile = "file://";
  const std::string& store = config.dependencies_store;
  if (store.starts_with(kFile)) return store.substr(kFile.size());
  return store.starts_with('/') ? store : "";
}

// Where recorders of a store meet: in a folder store itself, else on this node.
std::string LeaseFolderOf(const AgentConfig& config) {
  const std::string folder = StoreFolderOf(config);
  return folder.empty() ? config.state_dir + "/deps-leases" : folder + "/leases";
}

DepsVolumeOptions DepsOptionsOf(const AgentConfig& config, const FileSystem& files, const Clock& clock) {
  DepsVolumeOptions options;
  options.state_dir = config.state_dir;
  options.wrapper = config.dependencies_wrapper;
  options.store = config.dependencies_store;
  options.serve_arguments = blocks::RegistryArguments(config.registry);
  options.find_limit = config.dependencies_find_limit;
  options.mount_limit = config.dependencies_mount_limit;
  const auto open = [store = config.dependencies_store, registry = RegistryOptionsOf(config), &files,
                     &clock](blocks::StoreAccess access) {
    return blocks::OpenStoreUrl(store, access, registry, files, clock);
  };
  options.open_for_reading = [open] { return open(blocks::StoreAccess::kRead); };
  options.open_for_writing = [open] { return open(blocks::StoreAccess::kWrite); };
  options.recorder.open_for_writing = options.open_for_writing;
  options.trust = {config.dependencies_signing_key, config.dependencies_trusted_keys,
                   config.dependencies_require_signatures};
  options.recorder.trust = options.trust;
  options.node = options.recorder.node = config.node_name;
  options.recorder.lease_folder = LeaseFolderOf(config);
  options.recorder.threads = config.dependencies_threads;
  return options;
}

class VolumeServiceImpl final : public VolumeService {
 public:
  VolumeServiceImpl(const AgentConfig& config, std::function<void()> on_news, const Clock& clock, Logger& log,
                    MetricsRegistry& metrics)
      : config_(config),
        on_news_(std::move(on_news)),
        clock_(clock),
        log_(log),
        dependency_metrics_(metrics),
        host_(NewLinuxVolumeHost({config.kubelet_dir, config.state_dir})),
        pods_(*host_, clock,
              {.max_pods = api::kMaxPodReports, .max_stages = api::kMaxPodStages, .max_mounts = api::kMaxPodMounts}),
        publisher_({.kubelet_dir = config.kubelet_dir,
                    .state_dir = config.state_dir,
                    .before_removal = [this](const VolumeRecord& record) { LookLast(record); }},
                   *host_, MakeTypes(), clock) {}

  ~VolumeServiceImpl() override { VolumeServiceImpl::Shutdown(Duration::zero()); }

  Status Start(MetricsRegistry& metrics) {
    ASSIGN_OR_RETURN(RecoveryReport report, publisher_.Recover(Deadline::After(clock_, kMendLimit)));
    log_.Info("volumes of earlier runs looked through",
              {{"kept", report.kept}, {"removed", report.removed}, {"problems", report.problems.size()}});
    for (const std::string& problem : report.problems) log_.Warn("volume not mended, retrying", {{"error", problem}});
    ASSIGN_OR_RETURN(server_, CsiServer::Start({.node_name = config_.node_name,
                                                .version = std::string(Version()),
                                                .csi_socket = config_.csi_socket,
                                                .registration_socket = config_.registration_socket},
                                               publisher_, clock_, log_, metrics));
    dependencies_->recorder().Start();
    keeper_->Start();
    thread_ = std::jthread([this](std::stop_token stop) { LookAfter(std::move(stop)); });
    return Status();
  }

  DriverState driver() const override {
    return server_->is_registered() ? DriverState::kRegistered : DriverState::kUnregistered;
  }
  std::vector<VolumeRecord> Volumes() const override { return publisher_.Volumes(); }
  std::vector<VolumeRecord> EndedVolumes() const override { return publisher_.EndedVolumes(); }
  std::vector<PodReport> Pods() const override { return pods_.Reports(); }
  std::vector<TraceFolder> TraceFolders() const override {
    std::vector<TraceFolder> folders;
    for (const VolumeRecord& record : publisher_.Volumes()) {
      if (record.spec.type == kTraceVolumeType && record.phase == VolumePhase::kPublished) {
        folders.push_back({record.spec.target.path, record.spec.pod.ns, record.spec.pod.uid});
      }
    }
    return folders;
  }

  void Shutdown(Duration grace) override {
    thread_.request_stop();
    keeper_.reset();
    if (server_ != nullptr) server_->Shutdown(grace);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::vector<std::unique_ptr<VolumeType>> MakeTypes() {
    std::vector<std::unique_ptr<VolumeType>> types;
    types.push_back(NewScratchVolume(config_.state_dir, *host_));
    types.push_back(
        NewTraceVolume({.plugin = config_.trace_plugin, .size = config_.trace_volume_size}, files_, *host_));
    types.push_back(
        NewHdfsVolume({.rules = {.memory_limit = config_.hdfs_memory_limit, .file_root = config_.hdfs_file_root},
                       .mount_limit = config_.hdfs_mount_limit},
                      NewHolderClient(config_.holder_socket, clock_), *host_, clock_, log_));
    DepsVolumeOptions options = DepsOptionsOf(config_, files_, clock_);
    options.metrics = &dependency_metrics_;
    options.on_end = [this](const PodIdentity& pod, const api::PodDependencies& end) {
      pods_.SeeDependencies(pod, end);
      on_news_();
    };
    DepsKeeperOptions keeper;
    keeper.store = options.store;
    keeper.folder = StoreFolderOf(config_);
    keeper.lease_folder = options.recorder.lease_folder;
    keeper.node = options.node;
    keeper.open_for_reading = options.open_for_reading;
    keeper.open_for_writing = options.open_for_writing;
    keeper.collect_period = config_.dependencies_collect_period;
    keeper.grace = config_.dependencies_collect_grace;
    keeper.list_used = [this] { return dependencies_->UsedSnapshots(); };
    keeper.metrics = &dependency_metrics_;
    keeper_ = std::make_unique<DepsKeeper>(std::move(keeper), clock_, log_);
    std::unique_ptr<DepsVolume> dependencies = DepsVolume::New(
        std::move(options), NewHolderClient(config_.holder_socket, clock_), *host_, files_, clock_, log_);
    dependencies_ = dependencies.get();
    types.push_back(std::move(dependencies));
    return types;
  }

  void LookLast(const VolumeRecord& record) {
    pods_.LookLast(publisher_.LookAt(record, Deadline::After(clock_, kLastLookLimit)));
  }

  void LookAfter(std::stop_token stop) {
    TimePoint next_look = clock_.Now();
    TimePoint next_clean_up = next_look;
    DriverState reported_driver = DriverState::kUnregistered;
    Status reported_failure;
    do {
      bool has_news = pods_.Look(publisher_.Look(Deadline::After(clock_, kLookLimit)));
      has_news = has_news || driver() != reported_driver;
      reported_driver = driver();
      if (has_news) on_news_();
      if (clock_.Now() >= next_clean_up) {
        next_clean_up = clock_.Now() + config_.clean_up_period;
        const Status status = publisher_.CleanUp(Deadline::After(clock_, kMendLimit));
        // Once for each new reason: what cannot be removed today can be in the way for weeks.
        if (!status.ok() && !(status == reported_failure)) {
          log_.Warn("clean-up of volumes failed, retrying", {{"error", status}});
        }
        reported_failure = status;
      }
      next_look = std::max(next_look + config_.stage_period, clock_.Now());
    } while (clock_.SleepUntil(next_look, stop));
  }

  const AgentConfig config_;
  const std::function<void()> on_news_;
  const Clock& clock_;
  Logger& log_;
  const RealFileSystem files_;
  DepsMetrics dependency_metrics_;
  const std::unique_ptr<VolumeHost> host_;
  PodReports pods_;
  DepsVolume* dependencies_ = nullptr;  // the publisher's
  std::unique_ptr<DepsKeeper> keeper_;
  VolumePublisher publisher_;
  std::unique_ptr<CsiServer> server_;
  std::jthread thread_;
};

}  // namespace

Result<std::unique_ptr<VolumeService>> VolumeService::Start(const AgentConfig& config, std::function<void()> on_news,
                                                            const Clock& clock, Logger& log, MetricsRegistry& metrics) {
  auto service = std::make_unique<VolumeServiceImpl>(config, std::move(on_news), clock, log, metrics);
  RETURN_IF_ERROR(service->Start(metrics));
  return std::unique_ptr<VolumeService>(std::move(service));
}

}  // namespace paceline::agent
