// Java exception classes, as they come over the wire, turned into a Status, and what a caller may do about them. The
// only place that knows their names. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace paceline::hdfs {

// What the exception says about the server or the call, beside its Status.
enum class RemoteErrorKind {
  kOther,
  kStandby,             // ask another NameNode
  kRetry,               // ask the same one again later (RetriableException, safe mode in HA)
  kSafeMode,            // read-only for now: worth waiting for, within a bound
  kNotReplicatedYet,    // addBlock: the block before is not complete yet
  kRecoveryInProgress,  // a lease or a block is being recovered: ask again
  kAlreadyBeingCreated,
  kLeaseExpired,
  kInvalidToken,
  kNoSuchMethod,   // an older server
  kConcatRefused,  // HadoopIllegalArgumentException and the like
};

struct RemoteError {
  RemoteErrorKind kind = RemoteErrorKind::kOther;
  Status status;
};

// `exception_class` is the full Java name, `message` the first line and, behind it, a stack trace; `what` says which
// call on which path, and stands in front of the first line. `error_detail` is RpcErrorCode or 0.
RemoteError ToRemoteError(std::string_view exception_class, std::string_view message, std::string_view what);

// The kind that a Status of ToRemoteError was made with, read back from its message ("... (LeaseExpiredException)").
// kOther for every other Status.
RemoteErrorKind KindOf(const Status& status);

}  // namespace paceline::hdfs
