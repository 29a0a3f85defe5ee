#include "lib/deps/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {
namespace {

using testing::HasSubstr;

TEST(Lease, OneHoldsItAndIsNamed) {
  const fakes::TemporaryFolder folder;
  const RealClock clock;
  const auto take = [&](Lease::Mode mode) {
    return Lease::Take(folder / "leases", "key", mode, clock, Deadline::At(clock.Now()));
  };
  {
    const Result<Lease> held = take(Lease::Mode::kExclusive);
    ASSERT_TRUE(held.ok()) << held.status().ToString();
    EXPECT_TRUE(Lease::IsTaken(folder / "leases", "key"));
    const Result<Lease> second = take(Lease::Mode::kExclusive);
    EXPECT_EQ(second.status().code(), StatusCode::kAborted);
    EXPECT_THAT(second.status().message(), HasSubstr("process " + std::to_string(getpid())));
    EXPECT_EQ(take(Lease::Mode::kShared).status().code(), StatusCode::kAborted);
  }
  EXPECT_FALSE(Lease::IsTaken(folder / "leases", "key"));
  const Result<Lease> one = take(Lease::Mode::kShared), other = take(Lease::Mode::kShared);
  EXPECT_TRUE(one.ok() && other.ok());
  EXPECT_FALSE(take(Lease::Mode::kExclusive).ok());
}

TEST(Lease, EndsWithItsHolder) {
  const fakes::TemporaryFolder folder;
  const RealClock clock;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<Lease> held =
        Lease::Take(folder.path(), "key", Lease::Mode::kExclusive, clock, Deadline::At(clock.Now()));
    if (write(ends[1], held.ok() ? "1" : "0", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, '1');
  EXPECT_TRUE(Lease::IsTaken(folder.path(), "key"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Lease::Take(folder.path(), "key", Lease::Mode::kExclusive, clock, Deadline::At(clock.Now())).ok());
}

}  // namespace
}  // namespace paceline::deps
