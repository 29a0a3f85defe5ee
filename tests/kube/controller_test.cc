#include "lib/kube/controller.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "lib/base/mutex.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

// Answers as scripted, then with success; tells when it was called.
class ScriptedReconciler final : public Reconciler {
 public:
  explicit ScriptedReconciler(fakes::SimulatedClock& clock) : clock_(clock) {}

  void Answer(Result<Action> result) {
    MutexLock lock(mutex_);
    script_.push_back(std::move(result));
  }

  Result<Action> Reconcile(const ObjectKey& key, Deadline deadline, std::stop_token) override {
    MutexLock lock(mutex_);
    calls_.push_back({key, clock_.Now(), deadline.Remaining(clock_)});
    changed_.NotifyAll();
    if (script_.empty()) return Action::Done();
    Result<Action> result = std::move(script_.front());
    script_.pop_front();
    return result;
  }

  struct Call {
    ObjectKey key;
    TimePoint when;
    Duration time_left;
  };
  std::vector<Call> Await(size_t count) {
    MutexLock lock(mutex_);
    while (calls_.size() < count) changed_.Wait(lock);
    return calls_;
  }

 private:
  fakes::SimulatedClock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Result<Action>> script_ GUARDED_BY(mutex_);
  std::vector<Call> calls_ GUARDED_BY(mutex_);
};

class ControllerTest : public ::testing::Test {
 protected:
  void Start() {
    runner_ = std::jthread([this](std::stop_token stop) { controller_.Run(stop); });
  }
  // Blocks until the one worker is idle again.
  void AwaitIdle() { clock_.AwaitBlocked(1); }
  double Results(const std::string& result) {
    return metrics_->CounterFamily({"controller_runtime_reconcile_total", "", {"controller", "result"}})
        .With({"runs", result})
        .Value();
  }
  double Count(const std::string& name) {
    return metrics_->CounterFamily({name, "", {"controller"}}).With({"runs"}).Value();
  }

  fakes::SimulatedClock clock_;
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  ScriptedReconciler reconciler_{clock_};
  Controller controller_{{.name = "runs", .reconcile_timeout = 30s}, reconciler_, clock_, log_.logger(), *metrics_};
  std::jthread runner_;
};

const ObjectKey kRun{"team", "llama-1"};

TEST_F(ControllerTest, ReconcilesWhatIsAdded) {
  Start();
  controller_.queue().Add(kRun);
  const auto calls = reconciler_.Await(1);
  EXPECT_EQ(calls[0].key, kRun);
  EXPECT_EQ(calls[0].time_left, 30s);
  AwaitIdle();
  EXPECT_EQ(Results("success"), 1);
  EXPECT_TRUE(log_.lines().empty()) << log_.Text();
}

TEST_F(ControllerTest, FailureIsLoggedOnceEachAndRetriedWithBackoff) {
  reconciler_.Answer(UnavailableError("no connection"));
  reconciler_.Answer(UnavailableError("no connection"));
  Start();
  controller_.queue().Add(kRun);
  reconciler_.Await(1);
  clock_.AwaitTimers(1);
  clock_.Advance(5ms);
  reconciler_.Await(2);
  clock_.AwaitTimers(1);
  clock_.Advance(10ms);
  const auto calls = reconciler_.Await(3);
  AwaitIdle();
  EXPECT_EQ(calls[2].when - calls[0].when, 15ms);
  EXPECT_EQ(log_.Count("reconcile failed, retrying"), 2u) << log_.Text();
  EXPECT_EQ(log_.lines()[0].fields.at("name"), "llama-1");
  EXPECT_EQ(Results("error"), 2);
  EXPECT_EQ(Results("success"), 1);
  EXPECT_EQ(Count("controller_runtime_reconcile_errors_total"), 2);
  EXPECT_EQ(controller_.queue().Failures(kRun), 0) << "success resets the back-off";
}

TEST_F(ControllerTest, TerminalErrorWaitsForTheNextChange) {
  reconciler_.Answer(InvalidArgumentError("workers: must not be negative"));
  Start();
  controller_.queue().Add(kRun);
  reconciler_.Await(1);
  AwaitIdle();
  EXPECT_EQ(controller_.queue().Delayed(), 0u);
  EXPECT_EQ(Count("controller_runtime_terminal_reconcile_errors_total"), 1);
  EXPECT_EQ(log_.Count("reconcile failed, waiting for a change"), 1u) << log_.Text();
  controller_.queue().Add(kRun);
  reconciler_.Await(2);
}

TEST_F(ControllerTest, LostRaceIsRetriedWithoutAnErrorLine) {
  reconciler_.Answer(AbortedError("the object has been modified"));
  Start();
  controller_.queue().Add(kRun);
  reconciler_.Await(1);
  clock_.AwaitTimers(1);
  clock_.Advance(5ms);
  reconciler_.Await(2);
  for (const auto& line : log_.lines()) EXPECT_EQ(line.level, LogLevel::kDebug) << log_.Text();
}

TEST_F(ControllerTest, RequeueAfterComesBackInTime) {
  reconciler_.Answer(Action::RequeueAfter(20s));
  Start();
  controller_.queue().Add(kRun);
  const TimePoint first = reconciler_.Await(1)[0].when;
  clock_.AwaitTimers(1);
  clock_.Advance(20s);
  EXPECT_EQ(reconciler_.Await(2)[1].when - first, 20s);
  AwaitIdle();
  EXPECT_EQ(Results("requeue_after"), 1);
}

TEST_F(ControllerTest, StopEndsWorkersAndDropsWhatIsQueued) {
  Start();
  controller_.queue().AddAfter(kRun, 1h);
  clock_.AwaitTimers(1);
  runner_.request_stop();
  runner_.join();
  controller_.queue().Add(kRun);
  EXPECT_EQ(controller_.queue().Depth(), 0u);
}

// A reconciler that waits to be stopped.
class BlockingReconciler final : public Reconciler {
 public:
  Result<Action> Reconcile(const ObjectKey&, Deadline, std::stop_token stop) override {
    MutexLock lock(mutex_);
    is_running_ = true;
    changed_.NotifyAll();
    while (!stop.stop_requested()) changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
    return CancelledError("stopped");
  }
  void AwaitRunning() {
    MutexLock lock(mutex_);
    while (!is_running_) changed_.Wait(lock);
  }

 private:
  RealClock clock_;
  Mutex mutex_;
  CondVar changed_;
  bool is_running_ GUARDED_BY(mutex_) = false;
};

TEST(Controller, StopReachesARunningReconcileAndIsNoFailure) {
  RealClock clock;
  fakes::CaptureLog log;
  auto metrics = MetricsRegistry::Create();
  BlockingReconciler reconciler;
  Controller controller({.name = "runs", .workers = 2}, reconciler, clock, log.logger(), *metrics);
  controller.queue().Add(kRun);
  std::jthread runner([&](std::stop_token stop) { controller.Run(stop); });
  reconciler.AwaitRunning();
  runner.request_stop();
  runner.join();
  EXPECT_TRUE(log.lines().empty()) << log.Text();
}

TEST(Controller, KnowsTerminalErrors) {
  const std::pair<Status, bool> cases[] = {
      {InvalidArgumentError("x"), true}, {UnimplementedError("x"), true},     {NotFoundError("x"), false},
      {AbortedError("x"), false},        {UnavailableError("x"), false},      {PermissionDeniedError("x"), false},
      {InternalError("x"), false},       {DeadlineExceededError("x"), false},
  };
  for (const auto& [status, is_terminal] : cases) EXPECT_EQ(IsTerminal(status), is_terminal) << status.ToString();
}

}  // namespace
}  // namespace paceline::kube
