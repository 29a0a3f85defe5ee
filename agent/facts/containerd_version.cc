#include "agent/facts/containerd_version.h"

#include <grpcpp/grpcpp.h>

#include "agent/proto/containerd_version.grpc.pb.h"

namespace paceline::agent {

Result<std::string> QueryContainerdVersion(const std::string& socket_path, Deadline deadline) {
  namespace version = ::containerd::services::version::v1;
  // gRPC resolves an empty authority to the socket's path, which containerd's server refuses.
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  auto channel = grpc::CreateCustomChannel("unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments);
  auto stub = version::Version::NewStub(channel);

  grpc::ClientContext context;
  if (!deadline.is_infinite()) {
    context.set_deadline(gpr_time_from_nanos(deadline.when().time_since_epoch().count(), GPR_CLOCK_MONOTONIC));
  }
  version::VersionResponse response;
  grpc::Status status = stub->Version(&context, google::protobuf::Empty(), &response);
  if (!status.ok()) return UnavailableError("containerd at " + socket_path + ": " + status.error_message());
  if (response.version().empty()) return UnavailableError("containerd at " + socket_path + ": empty version");
  return response.version();
}

}  // namespace paceline::agent
