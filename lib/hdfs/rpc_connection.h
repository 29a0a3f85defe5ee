// One connection of Hadoop RPC with many calls on it at once: answers come in any order and are handed to whoever
// waits. Internal to lib/hdfs; made and replaced by RpcClient. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/hdfs/byte_stream.h"
#include "lib/hdfs/rpc_frame.h"
#include "lib/hdfs/security.h"

namespace paceline::hdfs {

// How one try of a call ended. Which of these may be tried again is decided in rpc_retry.h.
struct RpcOutcome {
  enum class Kind {
    kAnswer,       // `body` holds the answer's message
    kRemoteError,  // the call failed on the server; the connection stays
    kRefused,      // the server closes the connection: authorisation, version
    kNotSent,      // no byte of the call left: no connection
    kLost,         // sent, and the connection broke before the answer
    kTimedOut,     // sent, and no answer within the limit
  };
  Kind kind = Kind::kAnswer;
  std::string body;
  std::string exception_class, message;  // of kRemoteError and kRefused
  Status failure;                        // of kNotSent, kLost and kTimedOut
};

class RpcConnection {
 public:
  struct Options {
    RpcIdentity identity;
    std::string protocol = kClientProtocol;
    RpcSecurity* security = nullptr;  // borrowed; null: SIMPLE
    Duration ping_interval = std::chrono::seconds(30);
  };

  // Sends preamble, negotiation and context. kUnavailable when the server cannot be reached by `deadline`;
  // kPermissionDenied from the negotiation.
  static Result<std::shared_ptr<RpcConnection>> Open(const std::string& host, uint16_t port, const Options& options,
                                                     const Clock& clock, Deadline deadline);
  // On a stream that is connected already.
  static Result<std::shared_ptr<RpcConnection>> OpenOn(std::unique_ptr<ByteStream> stream, const std::string& host,
                                                       const Options& options, const Clock& clock, Deadline deadline);
  // Fails the calls that wait.
  ~RpcConnection();

  // Sends one call and waits for its answer until `deadline`, or until `stop` (kTimedOut, with kCancelled). `call_id`
  // must be in use by no other call here.
  RpcOutcome Call(const RpcCallHead& head, std::string_view body, Deadline deadline, std::stop_token stop = {});

  // False once the connection broke: calls would only give kNotSent.
  bool is_usable() const;

 private:
  struct Pending {
    bool is_done = false;
    RpcOutcome outcome;
    CondVar done;
  };

  RpcConnection(std::unique_ptr<ByteStream> stream, Options options, const Clock& clock)
      : stream_(std::move(stream)), options_(std::move(options)), clock_(clock) {}

  Status Handshake(const std::string& host, Deadline deadline);
  void ReadAnswers(std::stop_token stop);
  // Takes whole frames from the front of `*inbox`. Not ok: the stream makes no sense any more.
  Status TakeFrames(std::string* inbox);
  Status TakeAnswer(std::string_view frame);
  void Break(const Status& why);
  // Queues `frame` and writes what is queued, unless another thread is at it, which then writes ours too.
  Status Send(std::string frame);
  Status WriteQueued();

  const std::unique_ptr<ByteStream> stream_;
  const Options options_;
  const Clock& clock_;
  std::unique_ptr<SaslProtection> protection_;  // set by Handshake only

  mutable Mutex mutex_;
  std::map<int32_t, std::shared_ptr<Pending>> pending_ GUARDED_BY(mutex_);
  std::string outbox_ GUARDED_BY(mutex_);
  bool is_writing_ GUARDED_BY(mutex_) = false;
  Status broken_ GUARDED_BY(mutex_);

  std::jthread reader_;
};

}  // namespace paceline::hdfs
