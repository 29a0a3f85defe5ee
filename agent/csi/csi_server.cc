#include "agent/csi/csi_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "agent/proto/csi_node.grpc.pb.h"
#include "agent/proto/plugin_registration.grpc.pb.h"
#include "lib/api/names.h"

namespace paceline::agent {
namespace {

// kubelet waits two minutes for a call; a call without a limit of its own gets the same.
constexpr Duration kDefaultCallLimit = std::chrono::minutes(2);

// kubelet takes CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED and ABORTED as "unknown whether it
// happened" and later unpublishes; any other code as "it did not happen".
grpc::StatusCode GrpcCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return grpc::StatusCode::OK;
    case StatusCode::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case StatusCode::kAlreadyExists: return grpc::StatusCode::ALREADY_EXISTS;
    case StatusCode::kPermissionDenied: return grpc::StatusCode::PERMISSION_DENIED;
    case StatusCode::kAborted: return grpc::StatusCode::ABORTED;
    case StatusCode::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case StatusCode::kDeadlineExceeded: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case StatusCode::kCancelled: return grpc::StatusCode::CANCELLED;
    case StatusCode::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case StatusCode::kDataLoss: return grpc::StatusCode::DATA_LOSS;
    case StatusCode::kUnimplemented: return grpc::StatusCode::UNIMPLEMENTED;
    case StatusCode::kInternal: return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status ToGrpc(const Status& status) {
  return status.ok() ? grpc::Status::OK : grpc::Status(GrpcCode(status.code()), status.message());
}

class IdentityService final : public csi::v1::Identity::Service {
 public:
  explicit IdentityService(std::string version) : version_(std::move(version)) {}

  grpc::Status GetPluginInfo(grpc::ServerContext*, const csi::v1::GetPluginInfoRequest*,
                             csi::v1::GetPluginInfoResponse* response) override {
    response->set_name(std::string(api::kCsiDriver));
    response->set_vendor_version(version_);
    return grpc::Status::OK;
  }
  grpc::Status GetPluginCapabilities(grpc::ServerContext*, const csi::v1::GetPluginCapabilitiesRequest*,
                                     csi::v1::GetPluginCapabilitiesResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Probe(grpc::ServerContext*, const csi::v1::ProbeRequest*, csi::v1::ProbeResponse* response) override {
    response->mutable_ready()->set_value(true);
    return grpc::Status::OK;
  }

 private:
  const std::string version_;
};

class NodeService final : public csi::v1::Node::Service {
 public:
  NodeService(std::string node_name, VolumePublisher& publisher, const Clock& clock, Logger& log,
              MetricsRegistry& metrics)
      : node_name_(std::move(node_name)),
        publisher_(publisher),
        clock_(clock),
        log_(log),
        call_seconds_(metrics.HistogramFamily({.name = "paceline_csi_call_duration_seconds",
                                               .help = "Time that kubelet waited for a call of the CSI node service.",
                                               .label_names = {"method", "code"}},
                                              ExponentialBuckets(0.001, 2, 18))) {}

  grpc::Status NodePublishVolume(grpc::ServerContext* context, const csi::v1::NodePublishVolumeRequest* request,
                                 csi::v1::NodePublishVolumeResponse*) override {
    return Run("NodePublishVolume", *context, request->volume_id(), request->target_path(), [&](Deadline deadline) {
      if (request->volume_capability().has_block()) return InvalidArgumentError("block volumes are not supported");
      PublishRequest publish;
      publish.volume_id = request->volume_id();
      publish.target_path = request->target_path();
      publish.is_read_only = request->readonly();
      publish.context.insert(request->volume_context().begin(), request->volume_context().end());
      publish.secrets.insert(request->secrets().begin(), request->secrets().end());
      return publisher_.Publish(publish, deadline);
    });
  }

  grpc::Status NodeUnpublishVolume(grpc::ServerContext* context, const csi::v1::NodeUnpublishVolumeRequest* request,
                                   csi::v1::NodeUnpublishVolumeResponse*) override {
    return Run("NodeUnpublishVolume", *context, request->volume_id(), request->target_path(), [&](Deadline deadline) {
      return publisher_.Unpublish(request->volume_id(), request->target_path(), deadline);
    });
  }

  grpc::Status NodeGetCapabilities(grpc::ServerContext*, const csi::v1::NodeGetCapabilitiesRequest*,
                                   csi::v1::NodeGetCapabilitiesResponse*) override {
    return grpc::Status::OK;
  }

  grpc::Status NodeGetInfo(grpc::ServerContext*, const csi::v1::NodeGetInfoRequest*,
                           csi::v1::NodeGetInfoResponse* response) override {
    response->set_node_id(node_name_);
    return grpc::Status::OK;
  }

 private:
  template <typename Call>
  grpc::Status Run(const char* method, const grpc::ServerContext& context, const std::string& volume_id,
                   const std::string& target, Call call) {
    const TimePoint start = clock_.Now();
    const Status status = call(DeadlineOf(context, start));
    const double seconds = ToSeconds(clock_.Now() - start);
    call_seconds_.With({method, std::string(StatusCodeName(status.code()))}).Observe(seconds);
    if (status.ok()) {
      // Every published volume is asked for again and again (requiresRepublish), which says nothing new.
      log_.Debug("volume call", {{"method", method}, {"volume", volume_id}, {"target", target}, {"seconds", seconds}});
    } else {
      log_.Warn("volume call failed",
                {{"method", method}, {"volume", volume_id}, {"target", target}, {"error", status}});
    }
    return ToGrpc(status);
  }

  // gRPC gives the caller's limit as a wall time; only its distance from now is of use.
  static Deadline DeadlineOf(const grpc::ServerContext& context, TimePoint now) {
    const gpr_timespec left = gpr_time_sub(context.raw_deadline(), gpr_now(context.raw_deadline().clock_type));
    const double seconds = gpr_timespec_to_micros(left) / 1e6;
    const double limit = ToSeconds(kDefaultCallLimit);
    if (seconds >= limit) return Deadline::At(now + kDefaultCallLimit);
    return Deadline::At(now +
                        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::max(0.0, seconds))));
  }

  const std::string node_name_;
  VolumePublisher& publisher_;
  const Clock& clock_;
  Logger& log_;
  MetricFamily<Histogram>& call_seconds_;
};

class RegistrationService final : public pluginregistration::Registration::Service {
 public:
  RegistrationService(std::string endpoint, Logger& log, Gauge& gauge)
      : endpoint_(std::move(endpoint)), log_(log), gauge_(gauge) {}

  bool is_registered() const { return is_registered_.load(); }

  grpc::Status GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                       pluginregistration::PluginInfo* info) override {
    info->set_type("CSIPlugin");
    info->set_name(std::string(api::kCsiDriver));
    info->set_endpoint(endpoint_);
    info->add_supported_versions("1.0.0");
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(grpc::ServerContext*, const pluginregistration::RegistrationStatus* status,
                                        pluginregistration::RegistrationStatusResponse*) override {
    is_registered_.store(status->plugin_registered());
    gauge_.Set(status->plugin_registered() ? 1 : 0);
    if (status->plugin_registered()) {
      log_.Info("kubelet registered the driver", {{"driver", api::kCsiDriver}});
    } else {
      log_.Error("kubelet refused the driver", {{"driver", api::kCsiDriver}, {"error", status->error()}});
    }
    return grpc::Status::OK;
  }

 private:
  const std::string endpoint_;
  Logger& log_;
  Gauge& gauge_;
  std::atomic<bool> is_registered_{false};
};

// Makes the socket's folder and clears what a dead agent left at its place.
Status PrepareSocket(const std::string& path) {
  constexpr size_t kLongestPath = sizeof(sockaddr_un{}.sun_path) - 1;
  if (path.empty() || path.front() != '/' || path.size() > kLongestPath) {
    return InvalidArgumentError(fmt::format("socket path \"{}\" is not absolute or over {} bytes", path, kLongestPath));
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "folder of " + path);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Status() : ErrnoStatus(errno, path);
  if (!S_ISSOCK(info.st_mode)) return AlreadyExistsError(path + " is there and is no socket");
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, path);
  return Status();
}

Result<std::unique_ptr<grpc::Server>> Serve(const std::string& path, const std::vector<grpc::Service*>& services,
                                            int max_threads) {
  RETURN_IF_ERROR(PrepareSocket(path));
  grpc::ResourceQuota quota("paceline-csi");
  quota.SetMaxThreads(max_threads);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(1024 * 1024);
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return UnavailableError("cannot listen on " + path);
  if (chmod(path.c_str(), 0600) != 0) return ErrnoStatus(errno, path);
  return server;
}

class GrpcCsiServer final : public CsiServer {
 public:
  GrpcCsiServer(const CsiServerOptions& options, VolumePublisher& publisher, const Clock& clock, Logger& log,
                MetricsRegistry& metrics)
      : options_(options),
        registered_(
            metrics
                .GaugeFamily({.name = "paceline_csi_registered", .help = "1 while kubelet has taken the CSI driver."})
                .With({})),
        identity_(options.version),
        node_(options.node_name, publisher, clock, log, metrics),
        registration_(options.csi_socket, log, registered_) {}

  ~GrpcCsiServer() override { GrpcCsiServer::Shutdown(Duration::zero()); }

  Status Start() {
    ASSIGN_OR_RETURN(csi_, Serve(options_.csi_socket, {&identity_, &node_}, options_.max_threads));
    if (options_.registration_socket.empty()) return Status();
    constexpr int kRegistrationThreads = 4;
    ASSIGN_OR_RETURN(registrar_, Serve(options_.registration_socket, {&registration_}, kRegistrationThreads));
    return Status();
  }

  bool is_registered() const override { return registration_.is_registered(); }

  void Shutdown(Duration grace) override {
    // Its socket gone, kubelet forgets the driver and makes new calls wait for the next agent.
    const gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
    if (registrar_ != nullptr) registrar_->Shutdown(now);
    registrar_.reset();
    if (csi_ != nullptr) csi_->Shutdown(gpr_time_add(now, gpr_time_from_nanos(grace.count(), GPR_TIMESPAN)));
    csi_.reset();
    registered_.Set(0);
  }

 private:
  const CsiServerOptions options_;
  Gauge& registered_;
  IdentityService identity_;
  NodeService node_;
  RegistrationService registration_;
  std::unique_ptr<grpc::Server> csi_;
  std::unique_ptr<grpc::Server> registrar_;
};

}  // namespace

Result<std::unique_ptr<CsiServer>> CsiServer::Start(const CsiServerOptions& options, VolumePublisher& publisher,
                                                    const Clock& clock, Logger& log, MetricsRegistry& metrics) {
  auto server = std::make_unique<GrpcCsiServer>(options, publisher, clock, log, metrics);
  RETURN_IF_ERROR(server->Start());
  return std::unique_ptr<CsiServer>(std::move(server));
}

}  // namespace paceline::agent
