#include "lib/kube/leader_election.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <regex>

#include "lib/base/mutex.h"
#include "lib/kube/rest_client.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

const ObjectKey kLease{"kube-system", "paceline-operator"};

// One candidate with a connection of its own, as in the operator.
class Candidate {
 public:
  Candidate(const std::string& identity, fakes::ApiServer& server, const Clock& clock)
      : clock_(clock), transport_(server.Connect()), client_(NewRestClient(*transport_, clock)) {
    options_ = {.ns = kLease.ns, .name = kLease.name, .identity = identity};
  }

  void Start() {
    auto started = LeaderElector::Start(options_,
                                        {.on_started_leading =
                                             [this] {
                                               MutexLock lock(mutex_);
                                               started_leading_ = true;
                                               changed_.NotifyAll();
                                             },
                                         .on_lost =
                                             [this](const Status& why) {
                                               MutexLock lock(mutex_);
                                               lost_ = why;
                                               changed_.NotifyAll();
                                             },
                                         .on_new_leader =
                                             [this](const std::string& leader) {
                                               MutexLock lock(mutex_);
                                               leaders_.push_back(leader);
                                             }},
                                        *client_, clock_, log_.logger(), *metrics_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    elector_ = *std::move(started);
  }

  void AwaitLeading() {
    MutexLock lock(mutex_);
    while (!started_leading_) changed_.Wait(lock);
  }
  Status AwaitLost() {
    MutexLock lock(mutex_);
    while (lost_.ok()) changed_.Wait(lock);
    return lost_;
  }
  bool has_led() const {
    MutexLock lock(mutex_);
    return started_leading_;
  }
  std::vector<std::string> leaders() const {
    MutexLock lock(mutex_);
    return leaders_;
  }
  double StatusMetric() {
    return metrics_->GaugeFamily({"leader_election_master_status", "", {"name"}}).With({kLease.name}).Value();
  }
  double SlowPaths() {
    return metrics_->CounterFamily({"leader_election_slowpath_total", "", {"name"}}).With({kLease.name}).Value();
  }
  LeaderElector& elector() { return *elector_; }
  fakes::CaptureLog& log() { return log_; }

 private:
  const Clock& clock_;
  std::unique_ptr<net::HttpTransport> transport_;
  std::unique_ptr<Client> client_;
  LeaderElectionOptions options_;
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  mutable Mutex mutex_;
  CondVar changed_;
  bool started_leading_ GUARDED_BY(mutex_) = false;
  Status lost_ GUARDED_BY(mutex_);
  std::vector<std::string> leaders_ GUARDED_BY(mutex_);
  std::unique_ptr<LeaderElector> elector_;
};

class LeaderElectionTest : public ::testing::Test {
 protected:
  Json Spec() { return server_.Find(kLeases, kLease).value()["spec"]; }
  // Moves time in steps that let every candidate do its work in between.
  void Pass(Duration duration, size_t sleepers) {
    const TimePoint end = clock_.Now() + duration;
    while (clock_.Now() < end) {
      clock_.AwaitTimers(sleepers);
      clock_.Advance(std::min<Duration>(100ms, end - clock_.Now()));
    }
    clock_.AwaitTimers(sleepers);
  }

  fakes::SimulatedClock clock_;
  fakes::ApiServer server_{clock_};
};

TEST_F(LeaderElectionTest, FirstCandidateCreatesTheLease) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  EXPECT_TRUE(a.elector().IsLeader());
  EXPECT_EQ(a.elector().Leader(), "a");
  EXPECT_EQ(a.leaders(), std::vector<std::string>{"a"});
  EXPECT_EQ(a.StatusMetric(), 1);
  const Json spec = Spec();
  EXPECT_EQ(spec["holderIdentity"], "a");
  EXPECT_EQ(spec["leaseDurationSeconds"], 15);
  EXPECT_EQ(spec["leaseTransitions"], 0);
  const std::regex micro_time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)");
  for (const char* field : {"renewTime", "acquireTime"}) {
    EXPECT_TRUE(std::regex_match(spec[field].get<std::string>(), micro_time)) << spec[field];
  }
}

TEST_F(LeaderElectionTest, RenewsWithOneRequestAndKeepsAcquireTime) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  const Json before = Spec();
  server_.ForgetRequests();
  Pass(20s, 1);
  const Json after = Spec();
  EXPECT_EQ(before["acquireTime"], after["acquireTime"]);
  EXPECT_LT(before["renewTime"], after["renewTime"]);
  EXPECT_EQ(after["leaseTransitions"], 0);
  EXPECT_EQ(server_.Requests().size(), 10u) << "one PUT each two seconds";
  EXPECT_TRUE(a.elector().IsLeader());
  EXPECT_EQ(a.SlowPaths(), 0);
}

TEST_F(LeaderElectionTest, SecondCandidateWaitsAndTakesOverAfterACleanStopAtOnce) {
  Candidate a("a", server_, clock_);
  Candidate b("b", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  b.Start();
  Pass(30s, 2);
  EXPECT_FALSE(b.has_led());
  EXPECT_EQ(b.elector().Leader(), "a");
  a.elector().Stop();
  EXPECT_FALSE(a.elector().IsLeader());
  EXPECT_EQ(a.StatusMetric(), 0);
  EXPECT_EQ(Spec()["holderIdentity"], "");
  EXPECT_EQ(Spec()["leaseDurationSeconds"], 1);
  const TimePoint released = clock_.Now();
  Pass(2400ms, 1);
  b.AwaitLeading();
  EXPECT_LE(clock_.Now() - released, 2400ms);
  EXPECT_EQ(Spec()["holderIdentity"], "b");
  EXPECT_EQ(Spec()["leaseTransitions"], 1);
  EXPECT_EQ(b.leaders(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(LeaderElectionTest, CrashedLeaderIsReplacedWithinTwentySeconds) {
  server_.Put(kLeases,
              {{"metadata", {{"name", kLease.name}, {"namespace", kLease.ns}}},
               {"spec",
                {{"holderIdentity", "crashed"},
                 {"leaseDurationSeconds", 15},
                 {"leaseTransitions", 4},
                 {"acquireTime", "2026-01-01T00:00:00.000000Z"},
                 // Long over by the clock, which must not count: it may be the other machine's clock that is off.
                 {"renewTime", "2020-01-01T00:00:00.000000Z"}}}});
  Candidate b("b", server_, clock_);
  const TimePoint crashed = clock_.Now();
  b.Start();
  Pass(14900ms, 1);
  EXPECT_FALSE(b.has_led()) << "a lease counts from when we saw it change";
  while (!b.has_led() && clock_.Now() - crashed < 60s) Pass(100ms, 1);
  EXPECT_LT(clock_.Now() - crashed, 20s - 2400ms) << "2.4 s more when it had been renewed just after a look";
  EXPECT_EQ(Spec()["holderIdentity"], "b");
  EXPECT_EQ(Spec()["leaseTransitions"], 5);
}

TEST_F(LeaderElectionTest, SkewedWallClockChangesNothing) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.StepWall(-2h);
  Pass(30s, 1);
  EXPECT_TRUE(a.elector().IsLeader());
}

TEST_F(LeaderElectionTest, UnreachableServerLosesTheLeaseAtTheRenewDeadline) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  const TimePoint start = clock_.Now();
  server_.Inject({.times = -1, .status = 0});
  while (clock_.Now() - start < 9900ms) Pass(100ms, 1);
  EXPECT_TRUE(a.elector().IsLeader());
  clock_.Advance(200ms);
  const Status lost = a.AwaitLost();
  EXPECT_EQ(lost.code(), StatusCode::kDeadlineExceeded) << lost.ToString();
  EXPECT_FALSE(a.elector().IsLeader());
  EXPECT_EQ(a.StatusMetric(), 0);
  EXPECT_LT(clock_.Now() - start, 15s) << "given up before anybody else can lead";
}

TEST_F(LeaderElectionTest, ShortOutageIsSurvived) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  server_.Inject({.times = -1, .status = 503});
  Pass(7s, 1);
  server_.ClearFaults();
  Pass(20s, 1);
  EXPECT_TRUE(a.elector().IsLeader());
}

TEST_F(LeaderElectionTest, LeaseTakenByAnotherIsLostAtTheNextRenewal) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  Json lease = *server_.Find(kLeases, kLease);
  lease["spec"]["holderIdentity"] = "usurper";
  server_.Put(kLeases, lease);
  clock_.Advance(2s);
  const Status lost = a.AwaitLost();
  EXPECT_NE(lost.message().find("usurper"), std::string::npos) << lost.ToString();
  EXPECT_FALSE(a.elector().IsLeader());
  EXPECT_EQ(Spec()["holderIdentity"], "usurper") << "a lost lease must not be released";
}

// A process that was stopped (SIGSTOP, a suspended VM) must not believe in its lease when it goes on.
TEST_F(LeaderElectionTest, FrozenLeaderIsNoLeaderWhenItWakesUp) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  server_.Inject({.times = -1, .status = 0});
  clock_.Advance(60s);
  EXPECT_FALSE(a.elector().IsLeader());
  EXPECT_FALSE(a.AwaitLost().ok());
}

TEST_F(LeaderElectionTest, LostAnswerOfARenewalIsNoLostLease) {
  Candidate a("a", server_, clock_);
  a.Start();
  a.AwaitLeading();
  clock_.AwaitTimers(1);
  server_.Inject({.method = "PUT", .times = 1, .status = 504, .is_carried_out = true});
  Pass(10s, 1);
  EXPECT_TRUE(a.elector().IsLeader());
  EXPECT_GE(a.SlowPaths(), 0);
  EXPECT_EQ(Spec()["leaseTransitions"], 0);
}

TEST_F(LeaderElectionTest, TwoCandidatesNeverLeadAtOnce) {
  Candidate a("a", server_, clock_);
  Candidate b("b", server_, clock_);
  a.Start();
  b.Start();
  Pass(30s, 2);
  EXPECT_NE(a.elector().IsLeader(), b.elector().IsLeader());
  EXPECT_EQ(a.has_led() + b.has_led(), 1);
}

TEST(LeaderElection, RefusesTimesThatCannotWork) {
  const LeaderElectionOptions good{.ns = "n", .name = "l", .identity = "me"};
  EXPECT_TRUE(ValidateLeaderElection(good).ok());
  auto with = [&good](auto change) {
    LeaderElectionOptions options = good;
    change(options);
    return ValidateLeaderElection(options).code();
  };
  const StatusCode bad = StatusCode::kInvalidArgument;
  EXPECT_EQ(with([](auto& o) { o.ns = ""; }), bad);
  EXPECT_EQ(with([](auto& o) { o.name = ""; }), bad);
  EXPECT_EQ(with([](auto& o) { o.identity = ""; }), bad);
  EXPECT_EQ(with([](auto& o) { o.lease_duration = 10s; }), bad);
  EXPECT_EQ(with([](auto& o) { o.lease_duration = 15500ms; }), bad);
  EXPECT_EQ(with([](auto& o) { o.renew_deadline = 2400ms; }), bad);
  EXPECT_EQ(with([](auto& o) { o.retry_period = 0s; }), bad);
  EXPECT_EQ(with([](auto& o) {
              o.lease_duration = 60s;
              o.renew_deadline = 40s;
              o.retry_period = 5s;
            }),
            StatusCode::kOk);
}

}  // namespace
}  // namespace paceline::kube
