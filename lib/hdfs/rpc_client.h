// Calls to a NameNode, or to whichever NameNode of an HA pair is active: keeps the connections, resends with the same
// call id, fails over, gives typed errors. Internal to lib/hdfs; used by NameNode. Thread-safe.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/backoff.h"
#include "lib/base/mutex.h"
#include "lib/hdfs/hadoop_config.h"
#include "lib/hdfs/rpc_connection.h"
#include "lib/hdfs/rpc_retry.h"

namespace paceline::hdfs {

// Sixteen random bytes. One per process would do; one per client keeps call ids apart without a global.
std::string MakeRpcClientId();

class RpcClient {
 public:
  struct Options {
    NameService service;
    RpcConnection::Options connection;
    Duration try_limit = std::chrono::seconds(20);     // one try, its connect included
    Duration connect_limit = std::chrono::seconds(5);  // to one NameNode
  };

  RpcClient(Options options, const Clock& clock);

  // Serialised request in, serialised answer out. `what` ("mkdirs /a") begins the message of a failure. Blocks until
  // the answer, at most until `deadline`. Every method of ClientProtocol may be resent: it is idempotent, or the
  // NameNode's retry cache knows it by client id and call id. Errors of the server as in remote_error.h; kUnavailable
  // or kDeadlineExceeded when no NameNode answers; kCancelled soon after `stop`, and the NameNode may have carried it
  // out.
  Result<std::string> Call(std::string_view method, std::string_view body, std::string_view what, Deadline deadline,
                           std::stop_token stop = {});

 private:
  RpcOutcome TryOnce(size_t server, const RpcCallHead& head, std::string_view body, Deadline deadline,
                     const std::stop_token& stop);
  Result<std::shared_ptr<RpcConnection>> ConnectionTo(size_t server, Deadline deadline);
  void MoveOnFrom(size_t server);
  double Random();

  const Options options_;
  const Clock& clock_;
  Mutex mutex_;
  size_t active_ GUARDED_BY(mutex_) = 0;
  int32_t next_call_id_ GUARDED_BY(mutex_) = 0;
  RandomSource random_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<RpcConnection>> connections_ GUARDED_BY(mutex_);
};

}  // namespace paceline::hdfs
