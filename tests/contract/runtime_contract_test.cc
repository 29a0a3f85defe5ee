// The controller runtime on a server: leases and events.
#include <gmock/gmock.h>

#include <atomic>

#include "lib/kube/events.h"
#include "lib/kube/leader_election.h"
#include "lib/kube/rest_client.h"
#include "tests/contract/bed.h"

namespace paceline::contract {
namespace {

using namespace std::chrono_literals;

// A connection that can be cut, as by a network partition.
class CuttableTransport final : public net::HttpTransport {
 public:
  explicit CuttableTransport(net::HttpTransport& inner) : inner_(inner) {}
  void Cut() { is_cut_ = true; }

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline deadline, std::stop_token stop) override {
    if (is_cut_) return UnavailableError("cut");
    return inner_.Send(request, deadline, stop);
  }
  Result<net::HttpResponse> Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer,
                                   Duration idle_timeout, Deadline deadline, std::stop_token stop) override {
    if (is_cut_) return UnavailableError("cut");
    return inner_.Stream(request, consumer, idle_timeout, deadline, stop);
  }

 private:
  net::HttpTransport& inner_;
  std::atomic<bool> is_cut_ = false;
};

class LeaseContract : public ContractTest {
 protected:
  struct Candidate {
    std::unique_ptr<CuttableTransport> transport;
    std::unique_ptr<Client> client;
    std::atomic<bool> has_led = false;
    std::atomic<bool> has_lost = false;
    std::unique_ptr<kube::LeaderElector> elector;
  };

  std::unique_ptr<Candidate> Start(const std::string& identity) {
    auto candidate = std::make_unique<Candidate>();
    candidate->transport = std::make_unique<CuttableTransport>(Connect());
    candidate->client = kube::NewRestClient(*candidate->transport, clock_);
    Candidate* raw = candidate.get();
    auto started = kube::LeaderElector::Start({.ns = ns_,
                                               .name = "lease",
                                               .identity = identity,
                                               .lease_duration = 4s,
                                               .renew_deadline = 3s,
                                               .retry_period = 500ms},
                                              {.on_started_leading = [raw] { raw->has_led = true; },
                                               .on_lost = [raw](const Status&) { raw->has_lost = true; }},
                                              *candidate->client, clock_, log_.logger(), *metrics_);
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    candidate->elector = *std::move(started);
    return candidate;
  }
  Json Spec() { return client_->Get(kube::kLeases, Key("lease"), Soon()).value()["spec"]; }
};

TEST_P(LeaseContract, CleanStopHandsOverAtOnce) {
  auto a = Start("a");
  ASSERT_TRUE(Eventually([&] { return a->has_led.load(); }));
  auto b = Start("b");
  ASSERT_TRUE(Eventually([&] { return b->elector->Leader() == "a"; }));
  const Json while_led = Spec();
  EXPECT_EQ(while_led["holderIdentity"], "a");
  EXPECT_EQ(while_led["leaseDurationSeconds"], 4);
  // Longer than a lease: renewals work on this server.
  ASSERT_TRUE(Eventually([&] { return Spec()["renewTime"] != while_led["renewTime"]; }));
  EXPECT_FALSE(b->has_led);
  const TimePoint stopped = clock_.Now();
  a->elector->Stop();
  ASSERT_TRUE(Eventually([&] { return b->elector->IsLeader(); }));
  EXPECT_LT(clock_.Now() - stopped, 3s) << "less than the lease";
  EXPECT_FALSE(a->has_lost);
  EXPECT_EQ(Spec()["holderIdentity"], "b");
  EXPECT_EQ(Spec()["leaseTransitions"], 1);
}

TEST_P(LeaseContract, CutLeaderKnowsBeforeItsSuccessorLeads) {
  auto a = Start("a");
  ASSERT_TRUE(Eventually([&] { return a->has_led.load(); }));
  auto b = Start("b");
  ASSERT_TRUE(Eventually([&] { return b->elector->Leader() == "a"; }));
  a->transport->Cut();
  const TimePoint cut = clock_.Now();
  bool was_double = false;
  ASSERT_TRUE(Eventually([&] {
    was_double |= a->elector->IsLeader() && b->elector->IsLeader();
    return b->has_led.load();
  }));
  EXPECT_LT(clock_.Now() - cut, 4s + 600ms + 2s) << "lease, 1.2 retry periods, and a slow machine";
  EXPECT_FALSE(was_double);
  EXPECT_TRUE(a->has_lost);
  EXPECT_FALSE(a->elector->IsLeader());
}

PACELINE_CONTRACT(LeaseContract);

class EventsContract : public ContractTest {
 protected:
  kube::Event About(const std::string& note) {
    return {.regarding = {"v1", "ConfigMap", ns_, "subject", "", ""},
            .related = kube::ObjectReference{"batch/v1", "Job", ns_, "job", "", ""},
            .type = kube::EventType::kWarning,
            .reason = "Contract",
            .action = "Check",
            .note = note};
  }
};

TEST_P(EventsContract, RepeatsAndSimilarEventsAreFolded) {
  auto recorder = kube::EventRecorder::Start({.controller = "paceline.dev/contract", .instance = "test"}, *client_,
                                             clock_, log_.logger(), *metrics_);
  for (int i = 0; i < 5; ++i) recorder->Record(About("the same"));
  for (int i = 0; i < 14; ++i) recorder->Record(About("note " + std::to_string(i)));
  std::string long_note(1023, 'x');
  kube::Event cut = About(long_note + "\xc3\xa9 and \xff more");
  cut.reason = "TooLong";
  recorder->Record(cut);
  ASSERT_TRUE(recorder->Stop(Soon()).ok());

  const auto events = client_->List(kube::kEvents, {.ns = ns_}, Soon());
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  // "the same", nine of the notes, one combined, one long.
  EXPECT_EQ(events->items.size(), 12u) << log_.Text();
  int repeats = 0;
  int combined = 0;
  for (const Json& event : events->items) {
    const std::string note = event["note"];
    if (note == "the same") repeats = event["series"]["count"];
    if (note.rfind("(combined", 0) == 0) combined = event["series"]["count"];
    EXPECT_LE(note.size(), 1024u);
    EXPECT_EQ(event["reportingController"], "paceline.dev/contract");
  }
  EXPECT_EQ(repeats, 5);
  EXPECT_EQ(combined, 5);
}

TEST_P(EventsContract, KubectlFindsThemByTheirObject) {
  auto recorder = kube::EventRecorder::Start({.controller = "paceline.dev/contract", .instance = "test"}, *client_,
                                             clock_, log_.logger(), *metrics_);
  recorder->Record(About("look at me"));
  ASSERT_TRUE(recorder->Stop(Soon()).ok());
  // What `kubectl describe` asks.
  const auto found =
      client_->List(kube::kCoreEvents,
                    {.ns = ns_, .field_selector = "involvedObject.name=subject,involvedObject.kind=ConfigMap"}, Soon());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->items.size(), 1u);
  EXPECT_EQ(found->items[0]["message"], "look at me");
  EXPECT_EQ(found->items[0]["type"], "Warning");
  const auto other =
      client_->List(kube::kCoreEvents, {.ns = ns_, .field_selector = "involvedObject.name=other"}, Soon());
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(other->items.empty());
}

PACELINE_CONTRACT(EventsContract);

}  // namespace
}  // namespace paceline::contract
