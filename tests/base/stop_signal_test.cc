#include "lib/base/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

#include "lib/base/clock.h"

namespace paceline {
namespace {

// Signals end or change the whole process, so each case runs in a child.
class StopSignalDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  static void WaitForStop(const StopSignal& stop) { RealClock().SleepUntil(TimePoint::max(), stop.token()); }
};

TEST_F(StopSignalDeathTest, TheFirstSignalRequestsAStop) {
  for (const int signal : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          const StopSignal stop;
          if (stop.token().stop_requested()) ::_exit(1);
          ::kill(::getpid(), signal);
          WaitForStop(stop);
          ::_exit(7);
        },
        testing::ExitedWithCode(7), "");
  }
}

TEST_F(StopSignalDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        ::kill(::getpid(), SIGTERM);
        WaitForStop(stop);
        ::kill(::getpid(), SIGINT);
        while (true) ::pause();
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST_F(StopSignalDeathTest, ASignalAfterRequestStopEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        stop.RequestStop();
        if (!stop.token().stop_requested()) ::_exit(1);
        ::kill(::getpid(), SIGTERM);
        while (true) ::pause();
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST_F(StopSignalDeathTest, AClosedPipeIsAnErrorAndNotTheEnd) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        ::close(ends[0]);
        const bool failed = ::write(ends[1], "x", 1) < 0 && errno == EPIPE;
        ::_exit(failed ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(StopSignalDeathTest, EndsWithoutASignal) {
  EXPECT_EXIT(
      {
        { const StopSignal stop; }
        ::_exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(StopSignalDeathTest, AChildCanBeStoppedAgain) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        const pid_t child = ::fork();
        if (child == 0) {
          RestoreSignalsForChild();
          while (true) ::pause();
        }
        ::kill(child, SIGTERM);
        int status = 0;
        ::waitpid(child, &status, 0);
        ::_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace paceline
