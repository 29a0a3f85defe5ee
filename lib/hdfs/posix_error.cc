#include "lib/hdfs/posix_error.h"

#include <cerrno>
#include <string_view>

#include "lib/base/check.h"

namespace paceline::hdfs {
namespace {

struct Named {
  int error;
  std::string_view name;
  StatusCode code;
};

constexpr Named kNamed[] = {
    {ENOENT, "ENOENT", StatusCode::kNotFound},
    {ENODATA, "ENODATA", StatusCode::kNotFound},
    {ESTALE, "ESTALE", StatusCode::kNotFound},
    {EEXIST, "EEXIST", StatusCode::kAlreadyExists},
    {ENOTEMPTY, "ENOTEMPTY", StatusCode::kAlreadyExists},
    {EACCES, "EACCES", StatusCode::kPermissionDenied},
    {EPERM, "EPERM", StatusCode::kPermissionDenied},
    {EROFS, "EROFS", StatusCode::kPermissionDenied},
    {EINVAL, "EINVAL", StatusCode::kInvalidArgument},
    {ENOTDIR, "ENOTDIR", StatusCode::kInvalidArgument},
    {EISDIR, "EISDIR", StatusCode::kInvalidArgument},
    {ENAMETOOLONG, "ENAMETOOLONG", StatusCode::kInvalidArgument},
    {ELOOP, "ELOOP", StatusCode::kInvalidArgument},
    {EXDEV, "EXDEV", StatusCode::kInvalidArgument},
    {ENOSPC, "ENOSPC", StatusCode::kResourceExhausted},
    {EDQUOT, "EDQUOT", StatusCode::kResourceExhausted},
    {EFBIG, "EFBIG", StatusCode::kResourceExhausted},
    {ERANGE, "ERANGE", StatusCode::kResourceExhausted},
    {EBUSY, "EBUSY", StatusCode::kUnavailable},
    {EOPNOTSUPP, "EOPNOTSUPP", StatusCode::kUnimplemented},
    {EIO, "EIO", StatusCode::kInternal},
};

int DefaultErrno(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return 0;
    case StatusCode::kInvalidArgument: return EINVAL;
    case StatusCode::kNotFound: return ENOENT;
    case StatusCode::kAlreadyExists: return EEXIST;
    case StatusCode::kPermissionDenied: return EACCES;
    case StatusCode::kAborted: return EAGAIN;
    case StatusCode::kUnavailable: return EIO;
    case StatusCode::kDeadlineExceeded: return ETIMEDOUT;
    case StatusCode::kCancelled: return EINTR;
    case StatusCode::kResourceExhausted: return ENOSPC;
    case StatusCode::kDataLoss: return EIO;
    case StatusCode::kUnimplemented: return EOPNOTSUPP;
    case StatusCode::kInternal: return EIO;
  }
  return EIO;
}

}  // namespace

Status PosixError(int error, const std::string& message) {
  for (const Named& named : kNamed) {
    if (named.error == error) return Status(named.code, message + " [" + std::string(named.name) + "]");
  }
  CheckFailed(__FILE__, __LINE__, "an errno of the table");
}

int ErrnoOf(const Status& status) {
  const std::string_view message = status.message();
  if (message.ends_with(']')) {
    const size_t open = message.rfind('[');
    const std::string_view tag =
        open == std::string_view::npos ? "" : message.substr(open + 1, message.size() - open - 2);
    for (const Named& named : kNamed) {
      // The code must agree: a foreign message may end alike by accident.
      if (named.name == tag && named.code == status.code()) return named.error;
    }
  }
  return DefaultErrno(status.code());
}

}  // namespace paceline::hdfs
