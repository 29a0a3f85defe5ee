// How many bytes of a block that is being written a reader may see: asked of its DataNodes, over their RPC port.
// Internal to lib/hdfs. Thread-safe; blocks until the deadline at most.
#pragma once

#include "lib/hdfs/block.h"
#include "lib/hdfs/rpc_connection.h"

namespace paceline::hdfs {

// 0 when no DataNode has begun to store it. kUnavailable when none answers. `options` are those of the NameNode's
// connection, for the user and the security.
Result<uint64_t> VisibleLength(RpcConnection::Options options, const LocatedBlock& block, Duration connect_limit,
                               const Clock& clock, Deadline deadline);

}  // namespace paceline::hdfs
