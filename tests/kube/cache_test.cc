// Tests of lib/kube/cache.h and, through it, of lib/kube/reflector.h.
#include "lib/kube/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"
#include "tests/kube/scripted_transport.h"
#include "tests/kube/wire_builders.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<const PodView> MakePod(const char* ns, const char* name, const char* version, const char* node = "") {
  auto pod = std::make_shared<PodView>();
  pod->meta.ns = ns;
  pod->meta.name = name;
  pod->meta.uid = std::string(ns) + name;
  pod->meta.resource_version = version;
  pod->spec.node_name = node;
  return pod;
}

TEST(Store, FindsByKeyAndIndex) {
  Store<PodView> store({NodeNameIndex(), OwnerIndex<PodView>()});
  EXPECT_EQ(store.Set(MakePod("a", "x", "1")).before, nullptr);
  store.Set(MakePod("a", "y", "1", "n1"));
  store.Set(MakePod("b", "x", "1", "n1"));
  EXPECT_EQ(store.size(), 3u);
  EXPECT_EQ(store.Get("a", "x")->meta.uid, "ax");
  EXPECT_EQ(store.Get("c", "x"), nullptr);
  EXPECT_EQ(store.ListBy("node", "n1").size(), 2u);
  EXPECT_TRUE(store.ListBy("node", "n2").empty());
  EXPECT_TRUE(store.ListBy("owner", "").empty());

  const CacheChange<PodView> moved = store.Set(MakePod("a", "y", "2", "n2"));
  EXPECT_EQ(moved.before->meta.resource_version, "1");
  EXPECT_EQ(store.ListBy("node", "n1").size(), 1u);
  EXPECT_EQ(store.ListBy("node", "n2").size(), 1u);

  EXPECT_EQ(store.Remove("a", "y").before->meta.resource_version, "2");
  EXPECT_EQ(store.Remove("a", "y").before, nullptr);
  EXPECT_TRUE(store.ListBy("node", "n2").empty());
}

TEST(Store, ReplaceTellsOnlyWhatChanged) {
  Store<PodView> store({NodeNameIndex()});
  const auto same = MakePod("a", "same", "1", "n1");
  store.Set(same);
  store.Set(MakePod("a", "changed", "1", "n1"));
  store.Set(MakePod("a", "gone", "1", "n1"));
  auto changes =
      store.Replace({MakePod("a", "same", "1", "n1"), MakePod("a", "changed", "2", "n2"), MakePod("a", "new", "3")});
  std::sort(changes.begin(), changes.end(), [](const auto& x, const auto& y) { return x.meta().name < y.meta().name; });
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].meta().name, "changed");
  EXPECT_EQ(changes[0].before->meta.resource_version, "1");
  EXPECT_EQ(changes[1].meta().name, "gone");
  EXPECT_EQ(changes[1].after, nullptr);
  EXPECT_EQ(changes[2].meta().name, "new");
  EXPECT_EQ(changes[2].before, nullptr);
  EXPECT_EQ(store.Get("a", "same"), same);  // the old pointer
  EXPECT_EQ(store.ListBy("node", "n1").size(), 1u);
  EXPECT_EQ(store.ListBy("node", "n2").size(), 1u);
  EXPECT_EQ(store.size(), 3u);
}

// A cache of pods on a scripted server and a clock that stands still.
class CacheTest : public testing::Test {
 public:
  ~CacheTest() override {
    if (cache_ != nullptr) cache_->Stop();
  }

 protected:
  void Start(ReflectorOptions options = {}) {
    options.resource = kPods;
    options.random_seed = 1;
    cache_ = std::make_unique<PodCache>(options, CacheEnvironment{transport_, clock_, log_.logger(), *metrics_});
    cache_->AddHandler([this](const CacheChange<PodView>& change) {
      std::string line = change.before == nullptr ? "+" : change.after == nullptr ? "-" : "~";
      line += change.meta().name.str() + "@" + change.meta().resource_version.str();
      MutexLock lock(mutex_);
      changes_.push_back(line);
      changed_.NotifyAll();
    });
    cache_->Start();
  }

  // Blocks until that many changes have been told, and gives them.
  std::vector<std::string> AwaitChanges(size_t count) {
    MutexLock lock(mutex_);
    while (changes_.size() < count) changed_.Wait(lock);
    return changes_;
  }

  fakes::SimulatedClock clock_;
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  ScriptedTransport transport_{clock_};
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> changes_ GUARDED_BY(mutex_);
  std::unique_ptr<PodCache> cache_;
};

using Strings = std::vector<std::string>;

TEST_F(CacheTest, ListsThenFollowsTheWatch) {
  transport_.Add({.body = PodList({PodMessage("a", "x", "1"), PodMessage("a", "y", "2")}, "10")});
  transport_.Add({.body = Frame("ADDED", "Pod", PodMessage("a", "z", "11")) +
                          Frame("MODIFIED", "Pod", PodMessage("a", "x", "12", "Failed")) +
                          Frame("DELETED", "Pod", PodMessage("a", "y", "13")) + BookmarkFrame("20"),
                  .stays_open = true});
  Start();
  ASSERT_TRUE(cache_->WaitForSync(Deadline::Infinite()).ok());
  const Strings changes = AwaitChanges(5);
  EXPECT_EQ((Strings{changes.begin() + 2, changes.end()}), (Strings{"+z@11", "~x@12", "-y@13"}));
  EXPECT_EQ(cache_->store().Get("a", "x")->status.phase, "Failed");
  EXPECT_EQ(cache_->store().size(), 2u);
  transport_.AwaitReplies(2);
  EXPECT_EQ(cache_->State().resource_version, "20");
  const Strings requests = transport_.AwaitRequests(2);
  EXPECT_EQ(requests[0], "GET /api/v1/pods?resourceVersion=0");
  EXPECT_EQ(requests[1].substr(0, 63), "GET /api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSec");
  EXPECT_NE(requests[1].find("&resourceVersion=10"), std::string::npos);
}

TEST_F(CacheTest, GoesOnFromTheLastVersionWhenAWatchIsCut) {
  transport_.Add({.body = PodList({PodMessage("a", "x", "1")}, "10")});
  transport_.Add({.body = BookmarkFrame("20"), .stays_open = true});
  Start();
  transport_.AwaitReplies(2);
  clock_.Advance(2s);
  transport_.Add({.body = Frame("MODIFIED", "Pod", PodMessage("a", "x", "21")), .stays_open = true});
  transport_.Cut(UnavailableError("connection reset"));
  EXPECT_EQ(AwaitChanges(2).back(), "~x@21");
  EXPECT_NE(transport_.AwaitRequests(3)[2].find("&resourceVersion=20"), std::string::npos);
  EXPECT_EQ(cache_->State().lists, 1u);
}

TEST_F(CacheTest, SilenceMeansTroubleOnlyWhereBookmarksCome) {
  for (const bool has_bookmarks : {false, true}) {
    cache_.reset();
    const size_t before = transport_.AwaitRequests(0).size();
    transport_.Add({.body = PodList({}, "10")});
    transport_.Add({.body = has_bookmarks ? BookmarkFrame("20") : "", .stays_open = true});
    Start();
    transport_.AwaitReplies(before + 2);
    clock_.Advance(ReflectorOptions{}.watch_idle_timeout);
    transport_.Add({.stays_open = true});
    transport_.Cut(UnavailableError("idle: the server sent nothing for too long"));
    transport_.AwaitReplies(before + 3);
    EXPECT_EQ(cache_->State().last_error.ok(), !has_bookmarks);
    EXPECT_EQ(log_.Count("cache cannot follow the API server, retrying"), has_bookmarks ? 1u : 0u) << log_.Text();
    EXPECT_EQ(cache_->State().lists, 1u);
  }
}

// The deletion of y and the change of x happen while no watch runs.
TEST_F(CacheTest, FindsWhatItMissedWhenTheVersionHasExpired) {
  for (const bool as_event : {false, true}) {
    cache_.reset();
    {
      MutexLock lock(mutex_);
      changes_.clear();
    }
    const size_t before = transport_.AwaitRequests(0).size();
    transport_.Add({.body = PodList({PodMessage("a", "x", "1"), PodMessage("a", "y", "2")}, "10")});
    if (as_event) {
      transport_.Add({.body = ErrorFrame(410, "Expired", "too old resource version: 10 (50)")});
    } else {
      transport_.Add({.status = 410, .body = R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})"});
    }
    transport_.Add({.body = PodList({PodMessage("a", "x", "55")}, "60")});
    transport_.Add({.stays_open = true});
    Start();
    Strings changes = AwaitChanges(4);
    std::sort(changes.begin() + 2, changes.end());
    EXPECT_EQ((Strings{changes.begin() + 2, changes.end()}), (Strings{"-y@2", "~x@55"}));
    const Strings requests = transport_.AwaitRequests(before + 4);
    EXPECT_EQ(requests[before + 2], "GET /api/v1/pods?resourceVersion=10");  // at least as new as what was seen
    EXPECT_NE(requests[before + 3].find("&resourceVersion=60"), std::string::npos);
    cache_->Stop();
  }
}

TEST_F(CacheTest, ListsTheNewestInPagesWhenItsVersionIsUnknown) {
  transport_.Add({.body = PodList({PodMessage("a", "x", "1")}, "10")});
  transport_.Add({.body = ErrorFrame(410, "Expired", "too old")});
  transport_.Add({.status = 410, .body = R"({"kind":"Status","code":410,"reason":"Expired"})"});
  transport_.Add({.body = PodList({PodMessage("a", "x", "1")}, "90", "next/page")});
  transport_.Add({.body = PodList({PodMessage("a", "y", "2")}, "90")});
  transport_.Add({.stays_open = true});
  Start();
  AwaitChanges(2);
  const Strings requests = transport_.AwaitRequests(6);
  EXPECT_EQ(requests[3], "GET /api/v1/pods?limit=500");
  EXPECT_EQ(requests[4], "GET /api/v1/pods?limit=500&continue=next%2Fpage");
  EXPECT_EQ(cache_->store().size(), 2u);
}

TEST_F(CacheTest, BacksOffAndWatchesAgainWhenTheServerIsBusy) {
  transport_.Add({.body = PodList({PodMessage("a", "x", "1")}, "10")});
  transport_.Add({.status = 429, .body = R"({"kind":"Status","code":429,"reason":"TooManyRequests"})"});
  transport_.Add({.end = UnavailableError("connection refused")});
  transport_.Add({.body = Frame("DELETED", "Pod", PodMessage("a", "x", "11")), .stays_open = true});
  Start();
  transport_.AwaitReplies(2);
  clock_.AwaitTimers(1);
  EXPECT_EQ(cache_->State().last_error.code(), StatusCode::kUnavailable);
  clock_.Advance(800ms - 1ns);
  EXPECT_EQ(transport_.AwaitRequests(2).size(), 2u);  // 800 ms at least
  clock_.Advance(801ms);                              // twice that at most
  transport_.AwaitReplies(3);
  clock_.AwaitTimers(1);
  clock_.Advance(3200ms);
  EXPECT_EQ(AwaitChanges(2).back(), "-x@11");
  EXPECT_EQ(cache_->State().lists, 1u);
  EXPECT_TRUE(cache_->State().last_error.ok());
}

TEST_F(CacheTest, ShowsWhyItCannotListAndKeepsTrying) {
  transport_.Add({.status = 404, .body = "404 page not found\n"});
  transport_.Add(
      {.status = 403, .body = R"({"kind":"Status","code":403,"reason":"Forbidden","message":"pods is forbidden"})"});
  transport_.Add({.body = PodList({}, "10")});
  transport_.Add({.stays_open = true});
  Start();
  clock_.AwaitTimers(1);
  EXPECT_EQ(cache_->State().last_error, NotFoundError("list pods: 404 page not found"));
  EXPECT_FALSE(cache_->HasSynced());
  clock_.Advance(1600ms);
  transport_.AwaitReplies(2);
  clock_.AwaitTimers(1);
  EXPECT_EQ(cache_->WaitForSync(Deadline::At(clock_.Now())).message(),
            "the cache of pods has not synced: list pods: pods is forbidden");
  EXPECT_EQ(log_.Count("cache cannot follow the API server, retrying"), 2u) << log_.Text();
  clock_.Advance(3200ms);
  EXPECT_TRUE(cache_->WaitForSync(Deadline::Infinite()).ok());
}

TEST_F(CacheTest, PollsWhenWatchesEndAtOnce) {
  transport_.Add({.body = PodList({PodMessage("a", "x", "1")}, "10")});
  transport_.Add({});  // an empty watch
  transport_.Add({.body = PodList({PodMessage("a", "x", "2")}, "11")});
  transport_.Add({.stays_open = true});
  Start();
  transport_.AwaitReplies(2);
  clock_.AwaitTimers(1);
  clock_.Advance(1600ms);
  EXPECT_EQ(AwaitChanges(2).back(), "~x@2");
}

TEST_F(CacheTest, StreamsTheListWhenAskedTo) {
  transport_.Add(
      {.body = Frame("ADDED", "Pod", PodMessage("a", "x", "1")) + Frame("ADDED", "Pod", PodMessage("a", "y", "2")) +
               BookmarkFrame("30", /*ends_initial_events=*/true) + Frame("DELETED", "Pod", PodMessage("a", "y", "31")),
       .stays_open = true});
  Start({.list_mode = ListMode::kStream});
  const Strings changes = AwaitChanges(3);
  EXPECT_EQ(changes.back(), "-y@31");
  EXPECT_TRUE(cache_->HasSynced());
  EXPECT_EQ(cache_->State().lists, 0u);
  EXPECT_NE(transport_.AwaitRequests(1)[0].find("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            std::string::npos);
}

TEST_F(CacheTest, FallsBackToAListWhenStreamsAreRefused) {
  transport_.Add(
      {.status = 422,
       .body = R"({"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden"})"});
  transport_.Add({.body = PodList({PodMessage("a", "x", "1")}, "10")});
  transport_.Add({.stays_open = true});
  Start({.list_mode = ListMode::kStream});
  EXPECT_TRUE(cache_->WaitForSync(Deadline::Infinite()).ok());
  EXPECT_EQ(transport_.AwaitRequests(2)[1], "GET /api/v1/pods?resourceVersion=0");
}

TEST_F(CacheTest, FallsBackToAListWhenAStreamFailsInItsMiddle) {
  transport_.Add({.body = Frame("ADDED", "Pod", PodMessage("a", "gone", "1")) +
                          Frame("ADDED", "Pod", PodMessage("a", "x", "2")) +
                          ErrorFrame(500, "InternalError", "the storage gives no initial events"),
                  .stays_open = true});
  transport_.Add({.body = PodList({PodMessage("a", "x", "3")}, "10")});
  transport_.Add({.body = ErrorFrame(410, "Expired", "too old resource version: 10 (50)")});
  transport_.Add({.body = PodList({PodMessage("a", "x", "55")}, "60")});
  transport_.Add({.stays_open = true});
  Start({.list_mode = ListMode::kStream});
  // At once, since the clock stands still; nothing of what the stream had told is left.
  EXPECT_EQ(AwaitChanges(2), (Strings{"+x@3", "~x@55"}));
  const Strings requests = transport_.AwaitRequests(5);
  EXPECT_NE(requests[0].find("sendInitialEvents=true"), std::string::npos);
  EXPECT_EQ(requests[1], "GET /api/v1/pods?resourceVersion=0");
  EXPECT_EQ(requests[3], "GET /api/v1/pods?resourceVersion=10") << "it asks for a stream again";
  EXPECT_EQ(cache_->State().lists, 2u);
  EXPECT_EQ(cache_->store().size(), 1u);
}

// The same by a server that keeps its rules whatever it is asked, in JSON.
TEST(Cache, HoldsTheSameWhateverBecomesOfItsStreamingList) {
  const std::pair<fakes::StreamingLists, uint64_t> cases[] = {
      {fakes::StreamingLists::kServed, 0}, {fakes::StreamingLists::kRefused, 1}, {fakes::StreamingLists::kFailed, 1}};
  for (const auto& [how, lists] : cases) {
    const fakes::SimulatedClock clock;
    fakes::ApiServer server(clock);
    server.SetStreamingLists(how);
    for (const char* name : {"a", "b"})
      server.Put(kConfigMaps, {{"metadata", {{"name", name}, {"namespace", "default"}}}});
    fakes::CaptureLog log;
    const auto metrics = MetricsRegistry::Create();
    const auto transport = server.Connect();
    ObjectCache cache({.resource = kConfigMaps, .list_mode = ListMode::kStream},
                      CacheEnvironment{*transport, clock, log.logger(), *metrics});
    cache.Start();
    ASSERT_TRUE(cache.WaitForSync(Deadline::Infinite()).ok()) << log.Text();
    EXPECT_EQ(cache.store().size(), 2u);
    EXPECT_EQ(cache.State().lists, lists) << log.Text();
    cache.Stop();
  }
}

TEST_F(CacheTest, SkipsAnObjectThatItCannotRead) {
  transport_.Add({.body = PodList({PodMessage("a", "x", "1"), "\x0f"}, "10")});
  transport_.Add({.body = Frame("MODIFIED", "Pod", "\x0f") + Frame("MODIFIED", "Pod", PodMessage("a", "x", "12")),
                  .stays_open = true});
  Start();
  EXPECT_EQ(AwaitChanges(2), (Strings{"+x@1", "~x@12"}));
  EXPECT_EQ(cache_->State().skipped, 2u);
  EXPECT_NE(metrics_->Render().find("paceline_cache_skipped_objects_total{resource=\"pods\"} 2"), std::string::npos);
}

TEST_F(CacheTest, ReadsJsonFromServersWithoutProtobuf) {
  transport_.Add(
      {.body =
           R"({"kind":"PodList","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"namespace":"a","name":"x","resourceVersion":"1"}}]})"});
  transport_.Add({.body = "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"namespace\":\"a\",\"name\":\"x\","
                          "\"resourceVersion\":\"11\"}}}\n"
                          "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"15\"}}}\n",
                  .stays_open = true});
  Start({.ns = "a b", .label_selector = "x in (y,z)", .field_selector = "spec.nodeName=n"});
  EXPECT_EQ(AwaitChanges(2).back(), "~x@11");
  transport_.AwaitReplies(2);
  EXPECT_EQ(cache_->State().resource_version, "15");
  EXPECT_EQ(transport_.AwaitRequests(1)[0],
            "GET "
            "/api/v1/namespaces/a%20b/"
            "pods?resourceVersion=0&labelSelector=x%20in%20%28y%2Cz%29&fieldSelector=spec.nodeName%3Dn");
}

TEST_F(CacheTest, StopsAtOnce) {
  Start();  // waits for the answer to its list
  transport_.AwaitRequests(1);
  cache_->Stop();
  EXPECT_FALSE(cache_->HasSynced());
}

}  // namespace
}  // namespace paceline::kube
