#include "lib/kube/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/kube/rate_limiter.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

ObjectKey Key(const std::string& name) { return {"default", name}; }

class WorkQueueTest : public ::testing::Test {
 protected:
  // The next key that is ready or due; "" when there is none.
  std::string Next() {
    if (queue_.Depth() > 0) return queue_.Get({})->name;
    if (queue_.Delayed() == 0) return "";
    // Only a Get sees that a delay is over, and it blocks when none is: stop it as soon as it sleeps.
    std::stop_source stop;
    std::atomic<bool> is_back = false;
    std::optional<ObjectKey> key;
    std::thread worker([&] {
      key = queue_.Get(stop.get_token());
      is_back = true;
    });
    while (!is_back && clock_.timers() == 0) std::this_thread::yield();
    stop.request_stop();
    worker.join();
    return key ? key->name : "";
  }
  double Metric(const std::string& name) {
    return metrics_->GaugeFamily({name, "", {"name", "controller"}}).With({"test", "test"}).Value();
  }
  double Count(const std::string& name) {
    return metrics_->CounterFamily({name, "", {"name", "controller"}}).With({"test", "test"}).Value();
  }

  fakes::SimulatedClock clock_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  WorkQueue queue_{{.name = "test"}, clock_, *metrics_};
};

TEST_F(WorkQueueTest, HandsOutAKeyOnceHoweverOftenItWasAdded) {
  queue_.Add(Key("a"));
  queue_.Add(Key("b"));
  queue_.Add(Key("a"));
  EXPECT_EQ(queue_.Depth(), 2u);
  EXPECT_EQ(Next(), "a");
  EXPECT_EQ(Next(), "b");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Count("workqueue_adds_total"), 2);
}

TEST_F(WorkQueueTest, KeyAddedDuringItsWorkComesOnceMoreAfterDone) {
  queue_.Add(Key("a"));
  ASSERT_EQ(Next(), "a");
  queue_.Add(Key("a"));
  queue_.Add(Key("a"));
  EXPECT_EQ(queue_.Depth(), 0u) << "a key must not be worked on twice at a time";
  queue_.Done(Key("a"));
  EXPECT_EQ(queue_.Depth(), 1u);
  EXPECT_EQ(Next(), "a");
  queue_.Done(Key("a"));
  EXPECT_EQ(queue_.Depth(), 0u);
}

TEST_F(WorkQueueTest, NormalKeysGoFirstAndLowOnesDoNotStarve) {
  for (int i = 0; i < 3; ++i) queue_.Add(Key("low" + std::to_string(i)), Priority::kLow);
  for (int i = 0; i < 20; ++i) queue_.Add(Key("normal" + std::to_string(i)));
  std::string order;
  for (int i = 0; i < 23; ++i) order += Next()[0];
  EXPECT_EQ(order, "nnnnnnnnlnnnnnnnnlnnnnl");
}

TEST_F(WorkQueueTest, PriorityOfAQueuedKeyRisesAndNeverFalls) {
  queue_.Add(Key("first"), Priority::kLow);
  queue_.Add(Key("second"), Priority::kLow);
  queue_.Add(Key("second"));
  queue_.Add(Key("second"), Priority::kLow);
  EXPECT_EQ(queue_.Depth(), 2u);
  EXPECT_EQ(Next(), "second");
  EXPECT_EQ(Next(), "first");
  EXPECT_EQ(Next(), "");
}

TEST_F(WorkQueueTest, PriorityRisesWhileTheKeyIsInWork) {
  queue_.Add(Key("a"));
  ASSERT_EQ(Next(), "a");
  queue_.Add(Key("b"), Priority::kLow);
  queue_.Add(Key("a"), Priority::kLow);
  queue_.Add(Key("a"));
  queue_.Done(Key("a"));
  EXPECT_EQ(Next(), "a");
  EXPECT_EQ(Next(), "b");
}

TEST_F(WorkQueueTest, DelayedKeyComesWhenItsTimeHasCome) {
  queue_.AddAfter(Key("later"), 10s);
  queue_.AddAfter(Key("now"), 0s);
  EXPECT_EQ(Next(), "now");
  EXPECT_EQ(Next(), "");
  clock_.Advance(9s);
  EXPECT_EQ(Next(), "");
  clock_.Advance(1s);
  EXPECT_EQ(Next(), "later");
  EXPECT_EQ(queue_.Delayed(), 0u);
}

TEST_F(WorkQueueTest, ShortestOfSeveralDelaysCounts) {
  queue_.AddAfter(Key("a"), 10s);
  queue_.AddAfter(Key("a"), 5s);
  queue_.AddAfter(Key("a"), 20s);
  EXPECT_EQ(queue_.Delayed(), 1u);
  clock_.Advance(5s);
  EXPECT_EQ(Next(), "a");
  queue_.Done(Key("a"));
  clock_.Advance(60s);
  EXPECT_EQ(Next(), "");
}

TEST_F(WorkQueueTest, SleepingWorkerWakesForAnEarlierDelay) {
  std::atomic<int> got = 0;
  std::jthread worker([&](std::stop_token stop) {
    while (std::optional<ObjectKey> key = queue_.Get(stop)) {
      queue_.Done(*key);
      ++got;
    }
  });
  queue_.AddAfter(Key("far"), 100s);
  clock_.AwaitTimers(1);
  queue_.AddAfter(Key("near"), 1s);
  clock_.Advance(1s);
  while (got == 0) std::this_thread::yield();  // for ever, if the worker sleeps until the far key's time
  clock_.AwaitTimers(1);
  EXPECT_EQ(got, 1) << "the far key is not due yet";
}

TEST_F(WorkQueueTest, RetriesBackOffPerKeyAndForgetResets) {
  const Duration expected[] = {5ms, 10ms, 20ms, 40ms, 80ms};
  for (Duration delay : expected) {
    queue_.AddRateLimited(Key("a"));
    clock_.Advance(delay - 1ms);
    EXPECT_EQ(Next(), "") << ToSeconds(delay);
    clock_.Advance(1ms);
    EXPECT_EQ(Next(), "a") << ToSeconds(delay);
    queue_.Done(Key("a"));
  }
  EXPECT_EQ(queue_.Failures(Key("a")), 5);
  EXPECT_EQ(Count("workqueue_retries_total"), 5);
  queue_.Forget(Key("a"));
  EXPECT_EQ(queue_.Failures(Key("a")), 0);
  queue_.AddRateLimited(Key("a"));
  clock_.Advance(5ms);
  EXPECT_EQ(Next(), "a");
}

TEST_F(WorkQueueTest, ManyRetriesAtOnceAreSpread) {
  for (int i = 0; i < 120; ++i) queue_.AddRateLimited(Key(std::to_string(i)));
  clock_.Advance(5ms);
  EXPECT_EQ(Next(), "0");
  EXPECT_EQ(queue_.Depth() + 1, 100u) << "the burst";
  clock_.Advance(1s);
  std::set<std::string> got;
  for (std::string name = Next(); !name.empty(); name = Next()) got.insert(name);
  EXPECT_EQ(queue_.Delayed(), 10u) << "then ten a second";
}

TEST_F(WorkQueueTest, ShutDownHandsOutWhatIsQueuedAndTakesNothingMore) {
  queue_.Add(Key("a"));
  queue_.AddAfter(Key("later"), 1s);
  queue_.ShutDown();
  queue_.Add(Key("b"));
  queue_.AddAfter(Key("c"), 1s);
  queue_.AddRateLimited(Key("d"));
  EXPECT_EQ(queue_.Delayed(), 0u);
  ASSERT_EQ(queue_.Get({})->name, "a");
  EXPECT_FALSE(queue_.Get({}).has_value());
}

TEST_F(WorkQueueTest, DrainWaitsForDoneAndGivesUpAtTheDeadline) {
  queue_.Add(Key("a"));
  ASSERT_EQ(Next(), "a");
  queue_.Add(Key("a"));  // must still be handed out once more
  EXPECT_EQ(queue_.ShutDownAndDrain(Deadline::At(clock_.Now())).code(), StatusCode::kDeadlineExceeded);
  Status drained = InternalError("not yet");
  std::thread drainer([&] { drained = queue_.ShutDownAndDrain(Deadline::After(clock_, 30s)); });
  queue_.Done(Key("a"));
  ASSERT_EQ(queue_.Get({})->name, "a");
  queue_.Done(Key("a"));
  drainer.join();
  EXPECT_TRUE(drained.ok()) << drained.ToString();
}

TEST_F(WorkQueueTest, MetricsShowDepthAndKeysInWork) {
  queue_.Add(Key("a"));
  queue_.Add(Key("b"));
  EXPECT_EQ(Metric("workqueue_depth"), 2);
  ASSERT_EQ(Next(), "a");
  EXPECT_EQ(Metric("workqueue_depth"), 1);
  clock_.Advance(3s);
  ASSERT_EQ(Next(), "b");
  clock_.Advance(4s);
  const std::string page = metrics_->Render();
  EXPECT_EQ(Metric("workqueue_unfinished_work_seconds"), 11);
  EXPECT_EQ(Metric("workqueue_longest_running_processor_seconds"), 7);
  EXPECT_NE(page.find("workqueue_queue_duration_seconds_count{controller=\"test\",name=\"test\"} 2"), std::string::npos)
      << page;
}

TEST(WorkQueue, MetricsOutliveTheQueue) {
  fakes::SimulatedClock clock;
  auto metrics = MetricsRegistry::Create();
  { WorkQueue queue({.name = "gone"}, clock, *metrics); }
  EXPECT_NE(metrics->Render().find("workqueue_depth"), std::string::npos);
}

// Eight workers, a thousand additions each of a few keys: no key is ever with two workers, and none is lost.
TEST(WorkQueue, KeepsEachKeyWithOneWorkerUnderLoad) {
  RealClock clock;
  auto metrics = MetricsRegistry::Create();
  WorkQueue queue({.name = "load"}, clock, *metrics);
  Mutex mutex;
  std::map<ObjectKey, int> in_work;
  std::map<ObjectKey, int> wanted;
  std::map<ObjectKey, int> seen;
  bool was_shared = false;
  std::vector<std::thread> workers;
  for (int w = 0; w < 8; ++w) {
    workers.emplace_back([&] {
      while (std::optional<ObjectKey> key = queue.Get({})) {
        {
          MutexLock lock(mutex);
          was_shared |= ++in_work[*key] > 1;
          seen[*key] = wanted[*key];
        }
        {
          MutexLock lock(mutex);
          --in_work[*key];
        }
        queue.Done(*key);
      }
    });
  }
  std::vector<std::thread> adders;
  for (int a = 0; a < 4; ++a) {
    adders.emplace_back([&, a] {
      for (int i = 0; i < 1000; ++i) {
        const ObjectKey key = Key(std::to_string((i * 7 + a) % 13));
        {
          MutexLock lock(mutex);
          ++wanted[key];
        }
        queue.Add(key, i % 3 == 0 ? Priority::kLow : Priority::kNormal);
      }
    });
  }
  for (std::thread& adder : adders) adder.join();
  EXPECT_TRUE(queue.ShutDownAndDrain(Deadline::After(clock, 60s)).ok());
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(was_shared);
  EXPECT_EQ(seen, wanted) << "the last addition of each key must be followed by work on it";
}

TEST(KeyBackoff, DoublesUpToItsMaximum) {
  KeyBackoff backoff(5ms, 1000s);
  Duration last{};
  for (int i = 0; i < 17; ++i) last = backoff.Next(Key("a"));
  EXPECT_EQ(last, 5ms * 65536);
  for (int i = 0; i < 100; ++i) last = backoff.Next(Key("a"));
  EXPECT_EQ(last, 1000s);
  EXPECT_EQ(backoff.Next(Key("b")), 5ms);
}

TEST(TokenBucket, RefillsUpToItsBurst) {
  const TimePoint start{1h};
  TokenBucket bucket(2, 10s, start);
  EXPECT_TRUE(bucket.TryTake(start));
  EXPECT_TRUE(bucket.TryTake(start));
  EXPECT_FALSE(bucket.TryTake(start + 9s));
  EXPECT_TRUE(bucket.TryTake(start + 10s));
  EXPECT_TRUE(bucket.TryTake(start + 1h));
  EXPECT_TRUE(bucket.TryTake(start + 1h));
  EXPECT_FALSE(bucket.TryTake(start + 1h));
}

TEST(TokenBucket, ReservationsQueueUp) {
  const TimePoint start{1h};
  TokenBucket bucket(1, 10s, start);
  EXPECT_EQ(bucket.Reserve(start), 0s);
  EXPECT_EQ(bucket.Reserve(start), 10s);
  EXPECT_EQ(bucket.Reserve(start), 20s);
  EXPECT_EQ(bucket.Reserve(start + 20s), 10s);
}

}  // namespace
}  // namespace paceline::kube
