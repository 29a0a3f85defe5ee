#include "lib/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "lib/base/result.h"

namespace paceline {
namespace {

TEST(Status, IsOkByDefaultAndWithoutAMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "ok");
}

TEST(Status, AnnotateAddsContextInFrontAndKeepsTheCode) {
  const Status status = NotFoundError("pods \"a\" not found").Annotate("get pod").Annotate("reconcile");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "NotFound: reconcile: get pod: pods \"a\" not found");
  EXPECT_TRUE(Status().Annotate("context").ok());
}

TEST(Status, ErrnoKeepsAbsenceApartFromFailure) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "open x").code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(EACCES, "open x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(EIO, "open x").code(), StatusCode::kInternal);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(ENOENT, "open x").message(), "open x: No such file or directory");
}

TEST(Status, OnlyPassingFailuresAreRetryable) {
  EXPECT_TRUE(IsRetryable(UnavailableError("x")));
  EXPECT_TRUE(IsRetryable(AbortedError("x")));
  EXPECT_FALSE(IsRetryable(InvalidArgumentError("x")));
  EXPECT_FALSE(IsRetryable(Status()));
}

Result<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) return InvalidArgumentError("odd");
  return std::make_unique<int>(value / 2);
}

Result<int> Quarter(int value) {
  ASSIGN_OR_RETURN(std::unique_ptr<int> half, Half(value));
  ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

TEST(Result, AssignOrReturnMovesValuesAndPassesFailuresOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status(), InvalidArgumentError("odd"));
  EXPECT_EQ(Quarter(6).value_or(-1), -1);
  EXPECT_EQ(Quarter(3).Annotate("quarter 3").status().message(), "quarter 3: odd");
}

TEST(ResultDeathTest, ReadingTheValueOfAFailureEndsTheProcess) {
  EXPECT_DEATH(*Quarter(3), "CHECK failed");
  EXPECT_DEATH(static_cast<void>(Result<int>{Status()}), "CHECK failed");
}

}  // namespace
}  // namespace paceline
