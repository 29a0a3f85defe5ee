#include "lib/hdfs/remote_error.h"

#include <fmt/format.h>

#include <cerrno>

#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

struct Known {
  std::string_view simple_name;  // of the class, without its package
  int error;                     // for PosixError; 0: `code` alone
  StatusCode code;
  RemoteErrorKind kind;
};

using Kind = RemoteErrorKind;
constexpr Known kKnown[] = {
    {"FileNotFoundException", ENOENT, StatusCode::kNotFound, Kind::kOther},
    {"AccessControlException", EACCES, StatusCode::kPermissionDenied, Kind::kOther},
    {"AuthorizationException", EACCES, StatusCode::kPermissionDenied, Kind::kOther},
    {"SaslException", EACCES, StatusCode::kPermissionDenied, Kind::kOther},
    {"SnapshotAccessControlException", EROFS, StatusCode::kPermissionDenied, Kind::kOther},
    {"InvalidToken", EACCES, StatusCode::kPermissionDenied, Kind::kInvalidToken},
    {"FileAlreadyExistsException", EEXIST, StatusCode::kAlreadyExists, Kind::kOther},
    {"PathIsNotEmptyDirectoryException", ENOTEMPTY, StatusCode::kAlreadyExists, Kind::kOther},
    {"ParentNotDirectoryException", ENOTDIR, StatusCode::kInvalidArgument, Kind::kOther},
    {"PathIsNotDirectoryException", ENOTDIR, StatusCode::kInvalidArgument, Kind::kOther},
    {"AlreadyBeingCreatedException", EBUSY, StatusCode::kUnavailable, Kind::kAlreadyBeingCreated},
    {"RecoveryInProgressException", EBUSY, StatusCode::kUnavailable, Kind::kRecoveryInProgress},
    {"LeaseExpiredException", EIO, StatusCode::kInternal, Kind::kLeaseExpired},
    {"NotReplicatedYetException", EBUSY, StatusCode::kUnavailable, Kind::kNotReplicatedYet},
    {"SafeModeException", EROFS, StatusCode::kPermissionDenied, Kind::kSafeMode},
    {"NSQuotaExceededException", EDQUOT, StatusCode::kResourceExhausted, Kind::kOther},
    {"DSQuotaExceededException", EDQUOT, StatusCode::kResourceExhausted, Kind::kOther},
    {"QuotaByStorageTypeExceededException", EDQUOT, StatusCode::kResourceExhausted, Kind::kOther},
    {"QuotaExceededException", EDQUOT, StatusCode::kResourceExhausted, Kind::kOther},
    {"PathComponentTooLongException", ENAMETOOLONG, StatusCode::kInvalidArgument, Kind::kOther},
    {"MaxDirectoryItemsExceededException", ENOSPC, StatusCode::kResourceExhausted, Kind::kOther},
    {"InvalidPathException", EINVAL, StatusCode::kInvalidArgument, Kind::kOther},
    {"HadoopIllegalArgumentException", EINVAL, StatusCode::kInvalidArgument, Kind::kConcatRefused},
    {"IllegalArgumentException", EINVAL, StatusCode::kInvalidArgument, Kind::kConcatRefused},
    {"SnapshotException", EOPNOTSUPP, StatusCode::kUnimplemented, Kind::kConcatRefused},
    {"UnresolvedPathException", ELOOP, StatusCode::kInvalidArgument, Kind::kOther},
    {"UnresolvedLinkException", ELOOP, StatusCode::kInvalidArgument, Kind::kOther},
    {"RpcNoSuchMethodException", EOPNOTSUPP, StatusCode::kUnimplemented, Kind::kNoSuchMethod},
    {"UnsupportedOperationException", EOPNOTSUPP, StatusCode::kUnimplemented, Kind::kNoSuchMethod},
    // Create in an encryption zone by a client that names no version it could write.
    {"UnknownCryptoProtocolVersionException", EOPNOTSUPP, StatusCode::kUnimplemented, Kind::kOther},
    {"StandbyException", 0, StatusCode::kUnavailable, Kind::kStandby},
    {"ObserverRetryOnActiveException", 0, StatusCode::kUnavailable, Kind::kStandby},
    {"RetriableException", 0, StatusCode::kUnavailable, Kind::kRetry},
    {"ReplicaNotFoundException", 0, StatusCode::kUnavailable, Kind::kOther},
    {"ServerException", 0, StatusCode::kUnavailable, Kind::kOther},
};

std::string_view SimpleName(std::string_view exception_class) {
  const size_t mark = exception_class.find_last_of(".$");
  return mark == std::string_view::npos ? exception_class : exception_class.substr(mark + 1);
}

// IOException is what the NameNode throws for everything that has no class of its own: its text decides.
RemoteError FromPlainIoException(std::string_view first_line, const std::string& text) {
  const auto has = [&](std::string_view part) { return first_line.find(part) != std::string_view::npos; };
  if (has("could only be written to") || has("could only be replicated to"))
    return {Kind::kOther, PosixError(ENOSPC, text)};
  if (has("XAttr") && has("already exists")) return {Kind::kOther, PosixError(EEXIST, text)};
  if (has("No matching attributes") || has("attributes provided were not found") || has("XAttr does not exist") ||
      (has("XAttr") && (has("not exist") || has("was not found") || has("No matching")))) {
    return {Kind::kOther, PosixError(ENODATA, text)};
  }
  if (has("is not empty") || has("cannot overwrite non empty")) return {Kind::kOther, PosixError(ENOTEMPTY, text)};
  return {Kind::kOther, PosixError(EIO, text)};
}

}  // namespace

RemoteError ToRemoteError(std::string_view exception_class, std::string_view message, std::string_view what) {
  const std::string_view first_line = message.substr(0, message.find('\n'));
  const std::string_view name = SimpleName(exception_class);
  const std::string text = fmt::format("{}: {} ({})", what, first_line, name);
  if (name == "IOException" || name == "RemoteException") return FromPlainIoException(first_line, text);
  for (const Known& known : kKnown) {
    if (known.simple_name != name) continue;
    return {known.kind, known.error != 0 ? PosixError(known.error, text) : Status(known.code, text)};
  }
  if (name == "NoMatchingRule" || name == "XAttrNotFoundException") return {Kind::kOther, PosixError(ENODATA, text)};
  return {Kind::kOther, PosixError(EIO, text)};
}

RemoteErrorKind KindOf(const Status& status) {
  const std::string_view message = status.message();
  const size_t open = message.rfind('(');
  const size_t close = open == std::string_view::npos ? open : message.find(')', open);
  if (close == std::string_view::npos) return Kind::kOther;
  const std::string_view name = message.substr(open + 1, close - open - 1);
  for (const Known& known : kKnown) {
    if (known.simple_name == name) return known.kind;
  }
  return Kind::kOther;
}

}  // namespace paceline::hdfs
