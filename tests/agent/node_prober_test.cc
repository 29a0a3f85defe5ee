#include "agent/probe/node_prober.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::agent {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// A prober whose measurement waits until the test lets it go on.
class NodeProberTest : public testing::Test {
 public:
  ~NodeProberTest() override { End(); }

 protected:
  struct Call {
    api::ProbeRequest request;
    std::stop_token stop;
  };

  NodeProberOptions Options() {
    NodeProberOptions options;
    options.measure = [this](const api::ProbeRequest& request, std::stop_token stop) -> Result<api::ProbeStatus> {
      MutexLock lock(mutex_);
      call_ = Call{request, stop};
      changed_.NotifyAll();
      while (!answer_ && !stop.stop_requested()) changed_.WaitUntil(lock, real_, TimePoint::max(), stop);
      call_.reset();
      if (stop.stop_requested()) return CancelledError("it was ended");
      return *std::exchange(answer_, std::nullopt);
    };
    options.has_pods = [this] { return has_pods_.load(); };
    options.on_news = [this] {
      MutexLock lock(mutex_);
      changed_.NotifyAll();
    };
    return options;
  }

  void Begin() {
    thread_ = std::jthread([this](std::stop_token stop) { prober_->Run(std::move(stop)); });
  }
  void End() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

  // Blocks until the measurement is asked for.
  api::ProbeRequest AwaitCall() {
    const TimePoint limit = real_.Now() + seconds(20);
    MutexLock lock(mutex_);
    while (!call_ && real_.Now() < limit) changed_.WaitUntil(lock, real_, limit);
    EXPECT_TRUE(call_.has_value()) << "it is not measured";
    return call_ ? call_->request : api::ProbeRequest{};
  }
  bool IsCalled() {
    MutexLock lock(mutex_);
    return call_.has_value();
  }
  void Answer(Result<api::ProbeStatus> status) {
    MutexLock lock(mutex_);
    answer_ = std::move(status);
    changed_.NotifyAll();
  }
  void AnswerFigure(double value) {
    api::ProbeStatus status;
    status.figures = {{"cpuOneThread", value, "Mop/s", std::nullopt, ""}};
    Answer(std::move(status));
  }
  // Blocks until the status is in `state` with `round` done; one that waits says why.
  api::ProbeStatus Await(api::ProbeState state, int64_t round) {
    const TimePoint limit = real_.Now() + seconds(20);
    while (real_.Now() < limit) {
      const std::optional<api::ProbeStatus> status = prober_->Status();
      const bool says_why = state != api::ProbeState::kWaiting || (status && !status->message.empty());
      if (status && status->state == state && status->round == round && says_why) return *status;
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, real_, real_.Now() + std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "round " << round << " is not " << api::ProbeStateText(state);
    return {};
  }
  void Ask(int64_t round, size_t jobs = 0) {
    plan_.spec.probe = api::ProbeRequest{round, {}, {}};
    plan_.spec.jobs.resize(jobs);
    prober_->See(plan_);
  }

  fakes::SimulatedClock clock_;
  RealClock real_;
  fakes::CaptureLog log_;
  const std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  Mutex mutex_;
  CondVar changed_;
  std::optional<Call> call_;
  std::optional<Result<api::ProbeStatus>> answer_;
  std::atomic<bool> has_pods_ = false;
  api::NodePlan plan_;
  std::unique_ptr<NodeProber> prober_ = std::make_unique<NodeProber>(Options(), clock_, log_.logger(), *metrics_);
  std::jthread thread_;
};

TEST_F(NodeProberTest, SaysNothingWhileNothingIsAsked) {
  prober_->See(plan_);
  EXPECT_FALSE(prober_->Status().has_value());
  EXPECT_TRUE(prober_->IsFree());
}

TEST_F(NodeProberTest, ProbesOnceForEachRound) {
  Begin();
  Ask(1);
  EXPECT_EQ(AwaitCall().round, 1);
  EXPECT_EQ(prober_->Status()->state, api::ProbeState::kRunning);
  EXPECT_FALSE(prober_->IsFree()) << "others would measure a network that is in use";
  AnswerFigure(800);
  api::ProbeStatus done = Await(api::ProbeState::kDone, 1);
  ASSERT_EQ(done.figures.size(), 1u);
  EXPECT_EQ(done.figures[0].value, 800);
  EXPECT_TRUE(prober_->IsFree());
  EXPECT_THAT(metrics_->Render(), HasSubstr("paceline_node_probe_figure{name=\"cpuOneThread\",unit=\"Mop/s\"} 800"));
  Ask(1);
  EXPECT_FALSE(IsCalled());
  Ask(4);
  EXPECT_EQ(AwaitCall().round, 4);
  EXPECT_EQ(prober_->Status()->figures.size(), 1u) << "what was found before stays until there is better";
  AnswerFigure(700);
  EXPECT_EQ(Await(api::ProbeState::kDone, 4).figures[0].value, 700);
}

TEST_F(NodeProberTest, WaitsWhileSomebodyTrains) {
  Ask(1, 1);
  Begin();
  EXPECT_THAT(Await(api::ProbeState::kWaiting, 0).message, HasSubstr("pods of training runs"));
  EXPECT_FALSE(prober_->IsFree());
  has_pods_ = true;
  Ask(1);  // the job has gone from the plan, its pod is still there
  clock_.AwaitTimers(1);
  clock_.Advance(seconds(1));
  clock_.AwaitTimers(1);
  EXPECT_FALSE(IsCalled());
  has_pods_ = false;
  clock_.Advance(seconds(1));
  EXPECT_EQ(AwaitCall().round, 1);
  AnswerFigure(1);
  Await(api::ProbeState::kDone, 1);
}

TEST_F(NodeProberTest, EndsWhenAPodComesAndBeginsAnewWhenItIsGone) {
  Ask(1);
  Begin();
  AwaitCall();
  has_pods_ = true;
  clock_.AwaitTimers(1);
  clock_.Advance(seconds(1));
  Await(api::ProbeState::kWaiting, 0);
  has_pods_ = false;
  clock_.AwaitTimers(1);
  clock_.Advance(seconds(1));
  AwaitCall();
  AnswerFigure(1);
  Await(api::ProbeState::kDone, 1);
  EXPECT_THAT(metrics_->Render(), HasSubstr("paceline_node_probes_total{result=\"interrupted\"} 1"));
}

TEST_F(NodeProberTest, OneThatFailsIsOverAndSaysWhy) {
  Ask(1);
  Begin();
  AwaitCall();
  Answer(UnavailableError("killed by signal 9"));
  const api::ProbeStatus done = Await(api::ProbeState::kDone, 1);
  EXPECT_TRUE(done.figures.empty());
  ASSERT_EQ(done.missing.size(), std::size(api::kAllProbeChecks));
  EXPECT_EQ(done.missing[0].gap, api::ProbeGap::kFailed);
  EXPECT_EQ(done.missing[0].message, "killed by signal 9");
  EXPECT_TRUE(done.finished_at.has_value());
}

TEST_F(NodeProberTest, AnAgentAfterThisOneGoesOnFromThePlan) {
  plan_.status.probe.emplace();
  plan_.status.probe->round = 6;
  plan_.status.probe->figures = {{"cpuOneThread", 55, "Mop/s", std::nullopt, ""}};
  Ask(6);
  Begin();
  EXPECT_EQ(Await(api::ProbeState::kDone, 6).figures[0].value, 55);
  EXPECT_FALSE(IsCalled()) << "it was done by the agent before";
  EXPECT_THAT(metrics_->Render(), HasSubstr("} 55\n"));
  Ask(7);
  EXPECT_EQ(AwaitCall().round, 7);
  // Killed over it, as far as the plan knows: the next agent finds the same and begins anew.
  End();
  prober_ = std::make_unique<NodeProber>(Options(), clock_, log_.logger(), *metrics_);
  Ask(7);
  Begin();
  EXPECT_EQ(AwaitCall().round, 7);
}

}  // namespace
}  // namespace paceline::agent
