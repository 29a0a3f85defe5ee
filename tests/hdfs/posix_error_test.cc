#include "lib/hdfs/posix_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace paceline::hdfs {
namespace {

TEST(PosixError, KeepsItsErrnoThroughAnnotation) {
  for (const int error :
       {ENOENT, ENOTEMPTY, EEXIST, EISDIR, ENOTDIR, EDQUOT, ENOSPC, EBUSY, EROFS, EIO, ESTALE, ENODATA}) {
    const Status status = PosixError(error, "remove /a").Annotate("outer");
    EXPECT_EQ(ErrnoOf(status), error) << status.ToString();
  }
  EXPECT_EQ(PosixError(ENOTEMPTY, "x").message(), "x [ENOTEMPTY]");
  EXPECT_EQ(PosixError(ENOTEMPTY, "x").code(), StatusCode::kAlreadyExists);
}

TEST(PosixError, FollowsTheCodeOtherwise) {
  EXPECT_EQ(ErrnoOf(Status()), 0);
  EXPECT_EQ(ErrnoOf(NotFoundError("x")), ENOENT);
  EXPECT_EQ(ErrnoOf(NotFoundError("file [EEXIST]")), ENOENT);  // the code does not fit
  EXPECT_EQ(ErrnoOf(NotFoundError("]")), ENOENT);
  EXPECT_EQ(ErrnoOf(DeadlineExceededError("x")), ETIMEDOUT);
  EXPECT_EQ(ErrnoOf(DataLossError("x")), EIO);
  EXPECT_EQ(ErrnoOf(UnimplementedError("x")), EOPNOTSUPP);
}

}  // namespace
}  // namespace paceline::hdfs
