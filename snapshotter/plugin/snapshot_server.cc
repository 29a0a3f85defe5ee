#include "snapshotter/plugin/snapshot_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "snapshotter/proto/snapshots.grpc.pb.h"

namespace paceline::snapshotter {
namespace {

namespace api = ::containerd::services::snapshots::v1;

constexpr int kMaxThreads = 64;
constexpr int kMaxCallBytes = 16 << 20;  // containerd's own limit
constexpr int kInfosPerMessage = 100;
constexpr std::string_view kLabelsPath = "labels";

// containerd tells by these what happened; kAborted is our word for a snapshot in the wrong state.
grpc::StatusCode GrpcCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return grpc::StatusCode::OK;
    case StatusCode::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case StatusCode::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case StatusCode::kAlreadyExists: return grpc::StatusCode::ALREADY_EXISTS;
    case StatusCode::kPermissionDenied: return grpc::StatusCode::PERMISSION_DENIED;
    case StatusCode::kAborted: return grpc::StatusCode::FAILED_PRECONDITION;
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

void SetTime(WallTime time, google::protobuf::Timestamp* out) {
  const int64_t nanoseconds = time.time_since_epoch().count();
  constexpr int64_t kSecond = 1'000'000'000;
  out->set_seconds(nanoseconds / kSecond);
  out->set_nanos(static_cast<int32_t>(nanoseconds % kSecond));
}

void SetInfo(const SnapshotRecord& snapshot, api::Info* info) {
  info->set_name(snapshot.name);
  info->set_parent(snapshot.parent);
  switch (snapshot.kind) {
    case SnapshotKind::kView: info->set_kind(api::VIEW); break;
    case SnapshotKind::kActive: info->set_kind(api::ACTIVE); break;
    case SnapshotKind::kCommitted: info->set_kind(api::COMMITTED); break;
  }
  SetTime(snapshot.created, info->mutable_created_at());
  SetTime(snapshot.updated, info->mutable_updated_at());
  for (const auto& [key, value] : snapshot.labels) (*info->mutable_labels())[key] = value;
}

template <typename Labels>
SnapshotLabels LabelsOf(const Labels& labels) {
  return SnapshotLabels(labels.begin(), labels.end());
}

template <typename Response>
Status SetMounts(const Result<std::vector<PlannedMount>>& mounts, Response* response) {
  if (!mounts.ok()) return mounts.status();
  for (const PlannedMount& planned : *mounts) {
    api::Mount* mount = response->add_mounts();
    mount->set_type(planned.type);
    mount->set_source(planned.source);
    for (const std::string& option : planned.options) mount->add_options(option);
  }
  return Status();
}

Result<LabelChange> ChangeOf(const api::UpdateSnapshotRequest& request) {
  LabelChange change;
  change.labels = LabelsOf(request.info().labels());
  if (request.update_mask().paths().empty()) return change;
  change.replaces_all = false;
  for (const std::string& path : request.update_mask().paths()) {
    if (path == kLabelsPath) {
      change.replaces_all = true;
    } else if (path.starts_with(std::string(kLabelsPath) + ".")) {
      change.keys.push_back(path.substr(kLabelsPath.size() + 1));
    } else {
      return InvalidArgumentError("cannot update the field " + path + " of a snapshot");
    }
  }
  return change;
}

class SnapshotService final : public api::Snapshots::Service {
 public:
  SnapshotService(Snapshots& snapshots, const Clock& clock, Logger& log, PluginMetrics& metrics)
      : snapshots_(snapshots), clock_(clock), log_(log), metrics_(metrics) {}

  grpc::Status Prepare(grpc::ServerContext*, const api::PrepareSnapshotRequest* request,
                       api::PrepareSnapshotResponse* response) override {
    return Run("Prepare", request->key(), [&] {
      return SetMounts(
          snapshots_.Make({request->key(), request->parent(), SnapshotKind::kActive, LabelsOf(request->labels())}),
          response);
    });
  }

  grpc::Status View(grpc::ServerContext*, const api::ViewSnapshotRequest* request,
                    api::ViewSnapshotResponse* response) override {
    return Run("View", request->key(), [&] {
      return SetMounts(
          snapshots_.Make({request->key(), request->parent(), SnapshotKind::kView, LabelsOf(request->labels())}),
          response);
    });
  }

  grpc::Status Mounts(grpc::ServerContext*, const api::MountsRequest* request, api::MountsResponse* response) override {
    return Run("Mounts", request->key(), [&] { return SetMounts(snapshots_.Mounts(request->key()), response); });
  }

  grpc::Status Commit(grpc::ServerContext*, const api::CommitSnapshotRequest* request,
                      google::protobuf::Empty*) override {
    return Run("Commit", request->key(), [&] {
      if (!request->parent().empty()) return UnimplementedError("a parent at Commit needs the capability rebase");
      return snapshots_.Commit(request->key(),
                               {request->name(), "", SnapshotKind::kCommitted, LabelsOf(request->labels())});
    });
  }

  grpc::Status Remove(grpc::ServerContext*, const api::RemoveSnapshotRequest* request,
                      google::protobuf::Empty*) override {
    return Run("Remove", request->key(), [&] { return snapshots_.Remove(request->key()); });
  }

  grpc::Status Stat(grpc::ServerContext*, const api::StatSnapshotRequest* request,
                    api::StatSnapshotResponse* response) override {
    return Run("Stat", request->key(), [&]() -> Status {
      ASSIGN_OR_RETURN(const SnapshotPtr snapshot, snapshots_.Stat(request->key()));
      SetInfo(*snapshot, response->mutable_info());
      return Status();
    });
  }

  grpc::Status Update(grpc::ServerContext*, const api::UpdateSnapshotRequest* request,
                      api::UpdateSnapshotResponse* response) override {
    return Run("Update", request->info().name(), [&]() -> Status {
      ASSIGN_OR_RETURN(const LabelChange change, ChangeOf(*request));
      ASSIGN_OR_RETURN(const SnapshotPtr snapshot, snapshots_.Update(request->info().name(), change));
      SetInfo(*snapshot, response->mutable_info());
      return Status();
    });
  }

  grpc::Status List(grpc::ServerContext*, const api::ListSnapshotsRequest* request,
                    grpc::ServerWriter<api::ListSnapshotsResponse>* writer) override {
    return Run("List", "", [&]() -> Status {
      ASSIGN_OR_RETURN(const std::vector<SnapshotPtr> found,
                       snapshots_.List({request->filters().begin(), request->filters().end()}));
      api::ListSnapshotsResponse page;
      for (const SnapshotPtr& snapshot : found) {
        SetInfo(*snapshot, page.add_info());
        if (page.info_size() < kInfosPerMessage) continue;
        if (!writer->Write(page)) return CancelledError("the caller has gone");
        page.Clear();
      }
      if (page.info_size() > 0 && !writer->Write(page)) return CancelledError("the caller has gone");
      return Status();
    });
  }

  grpc::Status Usage(grpc::ServerContext*, const api::UsageRequest* request, api::UsageResponse* response) override {
    return Run("Usage", request->key(), [&]() -> Status {
      ASSIGN_OR_RETURN(const FolderUsage usage, snapshots_.Usage(request->key()));
      response->set_size(static_cast<int64_t>(usage.bytes));
      response->set_inodes(static_cast<int64_t>(usage.inodes));
      return Status();
    });
  }

  grpc::Status Cleanup(grpc::ServerContext*, const api::CleanupRequest*, google::protobuf::Empty*) override {
    return Run("Cleanup", "", [&] { return snapshots_.CleanUp(); });
  }

 private:
  template <typename Call>
  grpc::Status Run(const char* method, const std::string& key, Call call) {
    const TimePoint start = clock_.Now();
    const Status status = call();
    const double seconds = ToSeconds(clock_.Now() - start);
    metrics_.call_seconds.With({method, std::string(StatusCodeName(status.code()))}).Observe(seconds);
    // What is or is not there belongs to the protocol; the rest is trouble.
    const bool is_answer = status.ok() || status.code() == StatusCode::kAlreadyExists ||
                           status.code() == StatusCode::kNotFound || status.code() == StatusCode::kCancelled;
    if (is_answer) {
      log_.Debug("snapshot call", {{"method", method}, {"snapshot", key}, {"seconds", seconds}, {"status", status}});
    } else {
      log_.Warn("snapshot call failed", {{"method", method}, {"snapshot", key}, {"error", status}});
    }
    return status.ok() ? grpc::Status::OK : grpc::Status(GrpcCodeOf(status.code()), status.message());
  }

  Snapshots& snapshots_;
  const Clock& clock_;
  Logger& log_;
  PluginMetrics& metrics_;
};

// Makes the socket's folder and clears what a dead server left at its place.
Status PrepareSocket(const std::string& path) {
  constexpr size_t kLongestPath = sizeof(sockaddr_un{}.sun_path) - 1;
  if (path.empty() || path.front() != '/' || path.size() > kLongestPath) {
    return InvalidArgumentError(fmt::format("socket path \"{}\" is not absolute or over {} bytes", path, kLongestPath));
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "folder of " + path);
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Status() : ErrnoStatus(errno, path);
  if (!S_ISSOCK(info.st_mode)) return AlreadyExistsError(path + " is there and is no socket");
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, path);
  return Status();
}

class GrpcSnapshotServer final : public SnapshotServer {
 public:
  GrpcSnapshotServer(Snapshots& snapshots, const Clock& clock, Logger& log, PluginMetrics& metrics)
      : service_(snapshots, clock, log, metrics) {}
  ~GrpcSnapshotServer() override { GrpcSnapshotServer::Shutdown(Duration::zero()); }

  Status Start(const std::string& socket) {
    RETURN_IF_ERROR(PrepareSocket(socket));
    grpc::ResourceQuota quota("paceline-snapshotter");
    quota.SetMaxThreads(kMaxThreads);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMaxCallBytes);
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return UnavailableError("cannot listen on " + socket);
    if (chmod(socket.c_str(), 0600) != 0) return ErrnoStatus(errno, socket);
    return Status();
  }

  void Shutdown(Duration grace) override {
    if (server_ == nullptr) return;
    server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(grace.count(), GPR_TIMESPAN)));
    server_.reset();
  }

 private:
  SnapshotService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<SnapshotServer>> SnapshotServer::Start(const std::string& socket, Snapshots& snapshots,
                                                              const Clock& clock, Logger& log, PluginMetrics& metrics) {
  auto server = std::make_unique<GrpcSnapshotServer>(snapshots, clock, log, metrics);
  RETURN_IF_ERROR(server->Start(socket));
  return std::unique_ptr<SnapshotServer>(std::move(server));
}

}  // namespace paceline::snapshotter
