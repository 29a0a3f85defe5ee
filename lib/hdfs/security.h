// What a secure cluster adds to a connection, as seams: the SASL negotiation of an RPC connection, and the protection
// that it may agree on. Implemented in rpc_sasl.cc; absent (null) on a cluster without security. Internal to lib/hdfs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/byte_stream.h"

namespace paceline::hdfs {

// Integrity or privacy of one connection after its handshake. Wrap and Unwrap may run in two threads at once, each of
// them in one thread at a time and in the order of the bytes.
class SaslProtection {
 public:
  virtual ~SaslProtection() = default;
  virtual Result<std::string> Wrap(std::string_view plain) = 0;
  // kDataLoss when the bytes were changed, repeated or reordered.
  virtual Result<std::string> Unwrap(std::string_view wrapped) = 0;
};

class RpcSecurity {
 public:
  virtual ~RpcSecurity() = default;

  // Runs the negotiation behind the preamble of a new connection to `host`. Gives null when frames travel as they are.
  // kPermissionDenied with the reason when the server does not accept us or is not the one that we expect. Thread-safe.
  virtual Result<std::unique_ptr<SaslProtection>> Negotiate(ByteStream& stream, const std::string& host,
                                                            Deadline deadline) = 0;

  // The user that the connection context names: empty when the authentication says it.
  virtual std::string ContextUser() const = 0;

  // The same cluster's security for one who has this token and nothing else: a DataNode takes a block's token on its
  // RPC.
  virtual std::unique_ptr<RpcSecurity> WithToken(const SecurityToken& token) const = 0;
};

}  // namespace paceline::hdfs
