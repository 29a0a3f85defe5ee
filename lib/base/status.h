// The result of an operation that can fail: a code to act on and a sentence for a person.
//
// Every fallible function in Paceline returns Status or Result<T>; nothing of ours throws. The code says what the
// caller may do (retry, re-read, give up); the message says what happened to which object. A layer that knows more adds
// its part once, in front: "publish volume v1: mount /var/x: permission denied". Values are immutable and freely
// copyable between threads. Foreign error spaces are mapped in one function each (ErrnoStatus here, HTTP in lib/net,
// ...).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paceline {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the request can never work as it stands
  kNotFound,         // the thing does not exist: not the same as "could not look"
  kAlreadyExists,
  kPermissionDenied,  // known caller, not allowed, or caller unknown
  kAborted,           // lost a race (conflict, stale resourceVersion): read again, then decide again
  kUnavailable,       // the other side is not there or overloaded: retry later
  kDeadlineExceeded,
  kCancelled,          // we were asked to stop
  kResourceExhausted,  // a quota, a limit of ours, or the disk
  kDataLoss,           // bytes fail their checksum or are cut short
  kUnimplemented,
  kInternal,  // a broken assumption; worth a bug report
};

// "NotFound", "Unavailable", ... as used in log lines, metrics labels and JSON.
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ == nullptr ? StatusCode::kOk : rep_->code; }
  const std::string& message() const;

  // The same code with "context: " in front of the message. Ok stays ok.
  Status Annotate(std::string_view context) const;

  // "ok" or "NotFound: pods \"a\" not found".
  std::string ToString() const;

  // For call sites that have decided that a failure does not matter; say why in a comment.
  void IgnoreError() const {}

  friend bool operator==(const Status& a, const Status& b) {
    return a.code() == b.code() && a.message() == b.message();
  }

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;  // null means ok, so success costs no allocation
};

Status InvalidArgumentError(std::string message);
Status NotFoundError(std::string message);
Status AlreadyExistsError(std::string message);
Status PermissionDeniedError(std::string message);
Status AbortedError(std::string message);
Status UnavailableError(std::string message);
Status DeadlineExceededError(std::string message);
Status CancelledError(std::string message);
Status ResourceExhaustedError(std::string message);
Status DataLossError(std::string message);
Status UnimplementedError(std::string message);
Status InternalError(std::string message);

// Maps errno `error` to a Status "<what>: <strerror>". The only place that knows what ENOENT means.
Status ErrnoStatus(int error, std::string_view what);

// True for failures that may pass by themselves: kUnavailable, kDeadlineExceeded, kAborted.
bool IsRetryable(const Status& status);

}  // namespace paceline

// Leaves the enclosing function with the Status of `expression` unless it is ok.
#define RETURN_IF_ERROR(expression)                      \
  do {                                                   \
    ::paceline::Status paceline_status_ = (expression);  \
    if (!paceline_status_.ok()) return paceline_status_; \
  } while (false)
