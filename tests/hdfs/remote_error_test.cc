#include "lib/hdfs/remote_error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {
namespace {

TEST(RemoteError, GivesTheErrnoOfTheException) {
  const struct {
    const char *exception, *message;
    int error;
    RemoteErrorKind kind;
  } cases[] = {
      {"java.io.FileNotFoundException", "File does not exist: /a\n\tat x", ENOENT, RemoteErrorKind::kOther},
      {"org.apache.hadoop.security.AccessControlException", "Permission denied", EACCES, RemoteErrorKind::kOther},
      {"org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException", "", EROFS, RemoteErrorKind::kOther},
      {"org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "", ENOTEMPTY, RemoteErrorKind::kOther},
      {"org.apache.hadoop.fs.ParentNotDirectoryException", "", ENOTDIR, RemoteErrorKind::kOther},
      {"org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException", "", EBUSY,
       RemoteErrorKind::kAlreadyBeingCreated},
      {"org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "", EIO, RemoteErrorKind::kLeaseExpired},
      {"org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "", EDQUOT, RemoteErrorKind::kOther},
      {"org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", "", ENAMETOOLONG,
       RemoteErrorKind::kOther},
      {"org.apache.hadoop.ipc.RpcNoSuchMethodException", "", EOPNOTSUPP, RemoteErrorKind::kNoSuchMethod},
      {"org.apache.hadoop.hdfs.UnknownCryptoProtocolVersionException", "", EOPNOTSUPP, RemoteErrorKind::kOther},
      {"org.apache.hadoop.ipc.StandbyException", "", EIO, RemoteErrorKind::kStandby},
      {"org.apache.hadoop.hdfs.server.namenode.SafeModeException", "", EROFS, RemoteErrorKind::kSafeMode},
      {"org.apache.hadoop.security.token.SecretManager$InvalidToken", "", EACCES, RemoteErrorKind::kInvalidToken},
      {"java.io.IOException", "File /a could only be written to 0 of the 1 minReplication nodes", ENOSPC,
       RemoteErrorKind::kOther},
      {"java.io.IOException", "XAttr: a already exists. The REPLACE flag must be specified.", EEXIST,
       RemoteErrorKind::kOther},
      {"java.io.IOException", "something", EIO, RemoteErrorKind::kOther},
      {"org.example.Unheard", "x", EIO, RemoteErrorKind::kOther},
  };
  for (const auto& c : cases) {
    const RemoteError error = ToRemoteError(c.exception, c.message, "call /a");
    EXPECT_EQ(ErrnoOf(error.status), c.error) << error.status.ToString();
    EXPECT_EQ(error.kind, c.kind) << c.exception;
    EXPECT_EQ(KindOf(error.status.Annotate("outer")), c.kind) << error.status.ToString();
  }
  EXPECT_EQ(ToRemoteError("java.io.FileNotFoundException", "No /a\n\tat x", "open /a").status.message(),
            "open /a: No /a (FileNotFoundException) [ENOENT]");
}

}  // namespace
}  // namespace paceline::hdfs
