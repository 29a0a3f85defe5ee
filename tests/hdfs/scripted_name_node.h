// A NameNode on loopback that answers each call as the test says: the RPC framing of it, without any filesystem behind.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/mutex.h"
#include "lib/hdfs/proto/rpc.pb.h"
#include "tests/fakes/scripted_peer.h"

namespace paceline::hdfs {

struct SeenCall {
  wire::RpcRequestHeader header;
  std::string method, body;
};

class ScriptedNameNode {
 public:
  // Bytes to send back (none: no answer), or nothing to drop the connection. One call at a time.
  using Handler = std::function<std::optional<std::string>(const SeenCall& call)>;

  explicit ScriptedNameNode(Handler handle)
      : handle_(std::move(handle)), peer_([this](fakes::ScriptedPeer::Link& link) { Serve(link); }) {}

  uint16_t port() const { return peer_.port(); }
  int connections() const { return peer_.connections(); }

 private:
  void Serve(fakes::ScriptedPeer::Link& link);

  Mutex mutex_;  // held while the test's handler runs
  const Handler handle_;
  fakes::ScriptedPeer peer_;
};

// Length in front.
std::string Frame(const std::string& inner);
// The answers to `call`. `body` is the serialised response.
std::string Success(const SeenCall& call, const std::string& body);
std::string Failure(const SeenCall& call, const std::string& exception, uint32_t status = 1);

}  // namespace paceline::hdfs
