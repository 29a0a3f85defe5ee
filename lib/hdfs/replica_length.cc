#include "lib/hdfs/replica_length.h"

#include <fmt/format.h>

#include "lib/hdfs/proto/namenode.pb.h"
#include "lib/hdfs/wire_bytes.h"
#include "lib/hdfs/wire_convert.h"

namespace paceline::hdfs {

Result<uint64_t> VisibleLength(RpcConnection::Options options, const LocatedBlock& block, Duration connect_limit,
                               const Clock& clock, Deadline deadline) {
  options.protocol = kDatanodeProtocol;
  std::unique_ptr<RpcSecurity> by_token;
  if (options.security != nullptr && !block.token.identifier.empty()) {
    by_token = options.security->WithToken(block.token);
    options.security = by_token.get();
  }
  wire::GetReplicaVisibleLengthRequest request;
  *request.mutable_block() = ToWire(block.block);
  const std::string body = request.SerializeAsString();
  const RpcCallHead head{.protocol = kDatanodeProtocol, .method = "getReplicaVisibleLength"};
  Status last = UnavailableError("no DataNode has it");
  for (const DataNode& node : block.nodes) {
    const Deadline limit = deadline.Min(Deadline::After(clock, connect_limit));
    Result<std::shared_ptr<RpcConnection>> connection =
        RpcConnection::Open(node.ip, node.ipc_port, options, clock, limit);
    if (!connection.ok()) {
      last = connection.status();
      continue;
    }
    const RpcOutcome outcome = (*connection)->Call(head, body, limit);
    wire::GetReplicaVisibleLengthResponse response;
    if (outcome.kind == RpcOutcome::Kind::kAnswer && ParseMessage(outcome.body, &response)) return response.length();
    // The writer has not got so far: the block is allotted and that is all.
    if (outcome.exception_class.ends_with("ReplicaNotFoundException")) return 0;
    last = outcome.kind == RpcOutcome::Kind::kRemoteError ? AbortedError(outcome.message) : outcome.failure;
  }
  return last.Annotate(fmt::format("length of block {}, which is being written", block.block.block_id));
}

}  // namespace paceline::hdfs
