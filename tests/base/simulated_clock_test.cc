#include "tests/fakes/simulated_clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "lib/base/mutex.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using fakes::SimulatedClock;

TEST(SimulatedClock, BothReadingsMoveTogetherAndOnlyWhenTold) {
  SimulatedClock clock;
  const TimePoint start = clock.Now();
  EXPECT_EQ(FormatRfc3339(clock.WallNow()), "2026-01-02T03:04:05Z");
  clock.Advance(90s);
  EXPECT_EQ(clock.Now() - start, 90s);
  EXPECT_EQ(FormatRfc3339(clock.WallNow()), "2026-01-02T03:05:35Z");
  clock.StepWall(-1h);
  EXPECT_EQ(clock.Now() - start, 90s);
  EXPECT_EQ(FormatRfc3339(clock.WallNow()), "2026-01-02T02:05:35Z");
}

TEST(SimulatedClock, ASleeperWakesAtItsTimeAndNotBefore) {
  SimulatedClock clock;
  std::atomic<bool> is_done = false;
  std::jthread sleeper([&] {
    EXPECT_TRUE(clock.SleepFor(10s, {}));
    is_done = true;
  });
  clock.AwaitTimers(1);
  clock.Advance(9s);
  EXPECT_EQ(clock.timers(), 1u);
  EXPECT_FALSE(is_done);
  clock.Advance(1s);
  sleeper.join();
  EXPECT_TRUE(is_done);
}

TEST(SimulatedClock, ATimeInThePastDoesNotBlock) {
  SimulatedClock clock;
  EXPECT_TRUE(clock.SleepUntil(clock.Now(), {}));
  EXPECT_TRUE(clock.SleepUntil(clock.Now() - 1s, {}));
}

TEST(SimulatedClock, AStopEndsASleepAndSaysSo) {
  SimulatedClock clock;
  std::stop_source source;
  std::jthread sleeper([&] { EXPECT_FALSE(clock.SleepFor(10s, source.get_token())); });
  clock.AwaitTimers(1);
  source.request_stop();
  sleeper.join();
  EXPECT_FALSE(clock.SleepFor(10s, source.get_token()));
}

TEST(SimulatedClock, WakesInTheOrderOfTimes) {
  SimulatedClock clock;
  Mutex mutex;
  std::vector<int> order;
  std::vector<std::jthread> threads;
  for (int seconds : {3, 1, 2}) {
    threads.emplace_back([&, seconds] {
      clock.SleepFor(std::chrono::seconds(seconds), {});
      MutexLock lock(mutex);
      order.push_back(seconds);
    });
  }
  clock.AwaitTimers(3);
  for (size_t left : {2, 1, 0}) {
    ASSERT_TRUE(clock.AdvanceToNextTimer());
    EXPECT_EQ(clock.timers(), left);
    threads[left == 2 ? 1 : left == 1 ? 2 : 0].join();
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(clock.AdvanceToNextTimer());
}

TEST(SimulatedClock, APeriodicLoopRunsOncePerAdvance) {
  SimulatedClock clock;
  std::atomic<int> runs = 0;
  std::jthread loop([&](std::stop_token stop) {
    TimePoint next = clock.Now();
    do {
      ++runs;
      next += 10s;
    } while (clock.SleepUntil(next, stop));
  });
  for (int i = 1; i <= 100; ++i) {
    clock.AwaitTimers(1);
    EXPECT_EQ(runs, i);
    clock.Advance(10s);
  }
  loop.request_stop();
  loop.join();
}

// The wait that queues are built from: data, time and stop each end it.
TEST(SimulatedClock, AConditionVariableEndsByNotifyTimeOrStop) {
  SimulatedClock clock;
  Mutex mutex;
  CondVar ready;
  bool has_item = false;
  std::stop_source source;
  const auto wait = [&](TimePoint when) {
    MutexLock lock(mutex);
    while (!has_item && clock.Now() < when && !source.stop_requested()) {
      ready.WaitUntil(lock, clock, when, source.get_token());
    }
    return has_item;
  };

  std::jthread by_time([&] { EXPECT_FALSE(wait(clock.Now() + 5s)); });
  clock.AwaitTimers(1);
  clock.Advance(5s);
  by_time.join();

  std::jthread by_notify([&] { EXPECT_TRUE(wait(TimePoint::max())); });
  clock.AwaitBlocked(1);
  {
    MutexLock lock(mutex);
    has_item = true;
  }
  ready.NotifyAll();
  by_notify.join();

  has_item = false;
  std::jthread by_stop([&] { EXPECT_FALSE(wait(TimePoint::max())); });
  clock.AwaitBlocked(1);
  EXPECT_EQ(clock.timers(), 0u);
  source.request_stop();
  by_stop.join();
}

// Many waiters that come and go while time moves: nothing is lost and nothing that is gone is notified.
TEST(SimulatedClock, SurvivesManyThreadsAndManySteps) {
  SimulatedClock clock;
  constexpr int kThreads = 8;
  constexpr int kSleeps = 50;
  std::atomic<int> left = kThreads;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kSleeps; ++i) EXPECT_TRUE(clock.SleepFor(std::chrono::milliseconds(1 + (i * 7 + t) % 5), {}));
      --left;
    });
  }
  while (left > 0) {
    if (!clock.AdvanceToNextTimer()) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace paceline
