#include "lib/kube/events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/utf8.h"
#include "lib/kube/rest_client.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

class EventsTest : public ::testing::Test {
 protected:
  EventsTest() { Start({}); }

  void Start(EventRecorderOptions options) {
    options.controller = "paceline.dev/operator";
    options.instance = "operator-0";
    recorder_ = EventRecorder::Start(options, *client_, clock_, log_.logger(), *metrics_);
  }

  static Event About(const std::string& name, const std::string& note) {
    return {.regarding = {"paceline.dev/v1alpha1", "TrainingRun", "team", name, "uid-" + name, ""},
            .type = EventType::kWarning,
            .reason = "BadAnnotation",
            .action = "Validate",
            .note = note};
  }
  // Records and waits until something became of it on the server.
  void Say(const Event& event) {
    recorder_->Record(event);
    AwaitOneMoreResult();
  }
  void AwaitOneMoreResult() {
    while (Handled() < results_ + 1) std::this_thread::yield();
    ++results_;
  }
  // Records an event that takes several tries, and moves time on after each.
  void SayWithRetries(const Event& event, Duration step) {
    const size_t requests = server_.Requests().size();
    recorder_->Record(event);
    // From its first request on, the sender sleeps only between tries.
    while (server_.Requests().size() == requests) std::this_thread::yield();
    while (Handled() < results_ + 1) {
      clock_.AwaitTimers(1);
      clock_.Advance(step);
    }
    ++results_;
  }
  double Result(const std::string& result) {
    return metrics_->CounterFamily({"paceline_events_total", "", {"result"}}).With({result}).Value();
  }
  double Handled() { return Result("created") + Result("updated") + Result("dropped_rate") + Result("dropped_failed"); }
  std::vector<Json> Written() { return server_.All(kEvents); }
  size_t WriteRequests() {
    size_t writes = 0;
    for (const std::string& line : server_.Requests()) writes += line.rfind("GET", 0) == 0 ? 0 : 1;
    return writes;
  }

  fakes::SimulatedClock clock_;
  fakes::ApiServer server_{clock_};
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  std::unique_ptr<net::HttpTransport> transport_ = server_.Connect();
  std::unique_ptr<Client> client_ = NewRestClient(*transport_, clock_);
  double results_ = 0;
  std::unique_ptr<EventRecorder> recorder_;

 private:
  Json namespace_ = server_.Put(kNamespaces, {{"metadata", {{"name", "team"}}}});
};

TEST_F(EventsTest, WritesOneEventWithAllFields) {
  Event event = About("llama-1", "what to do");
  event.related = ObjectReference{"batch/v1", "Job", "team", "llama", "uid-job", ""};
  Say(event);
  ASSERT_EQ(Written().size(), 1u);
  const Json json = Written()[0];
  EXPECT_EQ(json["type"], "Warning");
  EXPECT_EQ(json["reason"], "BadAnnotation");
  EXPECT_EQ(json["action"], "Validate");
  EXPECT_EQ(json["note"], "what to do");
  EXPECT_EQ(json["reportingController"], "paceline.dev/operator");
  EXPECT_EQ(json["reportingInstance"], "operator-0");
  EXPECT_EQ(json["regarding"]["name"], "llama-1");
  EXPECT_EQ(json["regarding"]["uid"], "uid-llama-1");
  EXPECT_EQ(json["related"]["kind"], "Job");
  EXPECT_EQ(json["metadata"]["namespace"], "team");
  EXPECT_EQ(json["eventTime"], FormatRfc3339Micro(clock_.WallNow()));
  EXPECT_FALSE(json.contains("series"));
}

TEST_F(EventsTest, EventOfAClusterScopedObjectGoesToDefault) {
  Event event = About("node-1", "note");
  event.regarding.ns = "";
  Say(event);
  ASSERT_EQ(Written().size(), 1u);
  EXPECT_EQ(Written()[0]["metadata"]["namespace"], "default");
}

TEST_F(EventsTest, RepeatsBecomeASeriesThatIsRefreshedAtIntervals) {
  Say(About("a", "same"));
  Say(About("a", "same"));
  ASSERT_EQ(Written().size(), 1u);
  EXPECT_EQ(Written()[0]["series"]["count"], 2) << "the first repeat shows at once";
  for (int i = 0; i < 50; ++i) recorder_->Record(About("a", "same"));
  Say(About("b", "comes after the fifty"));
  clock_.AwaitTimers(1);
  clock_.Advance(299s);
  EXPECT_EQ(WriteRequests(), 3u);
  clock_.AwaitTimers(1);
  clock_.Advance(2s);
  AwaitOneMoreResult();
  EXPECT_EQ(Written()[0]["series"]["count"], 52);
  EXPECT_EQ(WriteRequests(), 4u);
}

TEST_F(EventsTest, EndedSeriesIsForgottenAndTheNextOneIsNew) {
  Say(About("a", "same"));
  clock_.AwaitTimers(1);
  clock_.Advance(6min);
  Say(About("a", "same"));
  EXPECT_EQ(Written().size(), 2u);
}

TEST_F(EventsTest, MoreThanTenDifferentNotesAreCombined) {
  for (int i = 0; i < 10; ++i) Say(About("a", "note " + std::to_string(i)));
  EXPECT_EQ(Written().size(), 10u);
  Say(About("a", "note 10"));
  Say(About("a", "note 11"));
  EXPECT_EQ(Written().size(), 11u);
  size_t combined = 0;
  for (const Json& event : Written()) {
    if (event["note"].get<std::string>().rfind("(combined from similar events): ", 0) != 0) continue;
    ++combined;
    EXPECT_EQ(event["series"]["count"], 2);
  }
  EXPECT_EQ(combined, 1u);
  // After the window the notes stand for themselves again.
  clock_.AwaitTimers(1);
  clock_.Advance(601s);
  Say(About("a", "fresh"));
  bool is_there = false;
  for (const Json& event : Written()) is_there |= event["note"] == "fresh";
  EXPECT_TRUE(is_there);
}

TEST_F(EventsTest, StormOfOneObjectIsCutAndOthersAreNot) {
  for (int i = 0; i < 40; ++i) {
    Event event = About("noisy", "x");
    event.reason = "Reason" + std::to_string(i);  // nothing to combine
    Say(event);
  }
  EXPECT_EQ(Written().size(), 25u);
  EXPECT_EQ(Result("dropped_rate"), 15);
  Say(About("quiet", "x"));
  EXPECT_EQ(Written().size(), 26u);
  clock_.AwaitTimers(1);
  clock_.Advance(300s);
  Event late = About("noisy", "x");
  late.reason = "Late";
  Say(late);
  EXPECT_EQ(Written().size(), 27u) << "one more each 300 s";
}

TEST_F(EventsTest, LongAndBrokenNotesAreCutBetweenCharacters) {
  std::string note(1022, 'x');
  note += "\xc3\xa9\xc3\xa9";  // two-byte characters over the limit
  Say(About("a", note));
  Say(About("b", std::string("bad \xff byte")));
  ASSERT_EQ(Written().size(), 2u);
  for (const Json& event : Written()) {
    const std::string written = event["note"];
    EXPECT_LE(written.size(), 1024u);
    EXPECT_TRUE(IsValidUtf8(written));
  }
  EXPECT_EQ(Written()[0]["note"].get<std::string>().size(), 1024u);
  EXPECT_EQ(Written()[1]["note"], "bad \xef\xbf\xbd byte");
}

TEST_F(EventsTest, CombinedNoteKeepsTheLimit) {
  for (int i = 0; i < 11; ++i) Say(About("a", std::to_string(i) + std::string(1100, 'x')));
  for (const Json& event : Written()) EXPECT_LE(event["note"].get<std::string>().size(), 1024u);
  EXPECT_EQ(Written().size(), 11u);
}

TEST_F(EventsTest, OutageIsRetriedAndThenGivenUp) {
  server_.Inject({.method = "POST", .times = 2, .status = 503});
  SayWithRetries(About("a", "x"), 10s);
  EXPECT_EQ(Written().size(), 1u);

  server_.Inject({.method = "POST", .times = -1, .status = 503});
  const TimePoint start = clock_.Now();
  SayWithRetries(About("b", "x"), 10s);
  EXPECT_GE(clock_.Now() - start, 110s) << "twelve tries";
  EXPECT_EQ(Result("dropped_failed"), 1);
  EXPECT_EQ(log_.Count("event not written, skipped"), 1u) << log_.Text();
}

TEST_F(EventsTest, ForbiddenEventIsDroppedWithoutRetry) {
  server_.Inject({.method = "POST", .times = 2, .status = 403});
  Say(About("a", "x"));
  Say(About("a", "x"));
  EXPECT_EQ(Result("dropped_failed"), 2) << "the second is a new try, not a count on an event that is not there";
  EXPECT_EQ(log_.Count("event not written, skipped"), 1u) << "at most one line a minute";
}

TEST_F(EventsTest, SeriesGoesOnWhenTheServerForgotTheEvent) {
  Say(About("a", "same"));
  server_.Erase(kEvents, {"team", Written()[0]["metadata"]["name"]});
  recorder_->Record(About("a", "same"));
  AwaitOneMoreResult();
  ASSERT_EQ(Written().size(), 1u);
  EXPECT_EQ(Written()[0]["series"]["count"], 2);
}

TEST_F(EventsTest, StopSendsQueuedEventsAndFinalCounts) {
  Say(About("a", "same"));
  Say(About("a", "same"));
  for (int i = 0; i < 3; ++i) recorder_->Record(About("a", "same"));
  recorder_->Record(About("b", "last words"));
  const Status stopped = recorder_->Stop(Deadline::After(clock_, 5s));
  EXPECT_TRUE(stopped.ok()) << stopped.ToString();
  ASSERT_EQ(Written().size(), 2u);
  EXPECT_EQ(Written()[0]["series"]["count"], 5);
  recorder_->Record(About("c", "too late"));
  EXPECT_EQ(Result("dropped_queue_full"), 1);
  EXPECT_EQ(Written().size(), 2u);
}

TEST_F(EventsTest, FullQueueDropsAndNeverBlocks) {
  recorder_.reset();
  EventRecorderOptions options;
  options.queue_capacity = 10;
  Start(options);
  server_.Inject({.method = "POST", .times = -1, .status = 503});
  recorder_->Record(About("first", "x"));
  clock_.AwaitTimers(1);  // the sender waits for its next try
  for (int i = 0; i < 15; ++i) recorder_->Record(About(std::to_string(i), "x"));
  EXPECT_EQ(Result("dropped_queue_full"), 5);
  EXPECT_FALSE(recorder_->Stop(Deadline::At(clock_.Now())).ok());
}

TEST(ObjectReference, ReadsAnObject) {
  const Json pod = {{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u"}, {"resourceVersion", "7"}}}};
  EXPECT_EQ(ReferenceTo(pod), (ObjectReference{"v1", "Pod", "n", "p", "u", "7"}));
  EXPECT_EQ(ReferenceTo(Json("nonsense")), ObjectReference{});
  EXPECT_EQ(ReferenceTo(Json{{"kind", 5}, {"metadata", "x"}}), ObjectReference{});
}

}  // namespace
}  // namespace paceline::kube
