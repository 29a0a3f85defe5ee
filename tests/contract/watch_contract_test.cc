// Watches as the reflector needs them, over the bare transport.
#include <gmock/gmock.h>

#include <thread>

#include "lib/base/mutex.h"
#include "tests/contract/bed.h"

namespace paceline::contract {
namespace {

using namespace std::chrono_literals;
using kube::kConfigMaps;

// A real server sends one about once a minute.
constexpr Duration kBookmarkPeriod = 90s;

// A watch on a thread of its own that keeps what it receives.
class Watch {
 public:
  Watch(net::HttpTransport& transport, const Clock& clock, std::string target)
      : transport_(transport),
        clock_(clock),
        target_(std::move(target)),
        thread_([this](std::stop_token stop) { Run(stop); }) {}

  // "ADDED a", "MODIFIED a", ...; blocks until there are `count` of them or the watch is over.
  std::vector<std::string> Await(size_t count, Duration limit = 30s) {
    const Deadline deadline = Deadline::After(clock_, limit);
    MutexLock lock(mutex_);
    while (lines_.size() < count && !is_over_ && !deadline.Expired(clock_)) {
      changed_.WaitUntil(lock, clock_, deadline.when());
    }
    return lines_;
  }
  // How it ended: the transport's status, and the response's HTTP status when there was one.
  std::pair<Status, int> AwaitEnd() {
    const Deadline deadline = Deadline::After(clock_, 60s);
    MutexLock lock(mutex_);
    while (!is_over_ && !deadline.Expired(clock_)) changed_.WaitUntil(lock, clock_, deadline.when());
    return {is_over_ ? end_ : InternalError("still running"), http_status_};
  }
  bool IsOver() {
    MutexLock lock(mutex_);
    return is_over_;
  }
  std::vector<Json> Objects() {
    MutexLock lock(mutex_);
    return objects_;
  }

 private:
  void Run(const std::stop_token& stop) {
    std::string rest;
    net::HttpRequest request;
    request.target = target_;
    request.headers["Accept"] = "application/json";
    const auto response = transport_.Stream(
        request,
        [&](std::string_view piece) {
          rest += piece;
          for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
            Take(Json::parse(rest.substr(0, end)));
            rest.erase(0, end + 1);
          }
          return Status();
        },
        100s, Deadline::Infinite(), stop);
    MutexLock lock(mutex_);
    end_ = response.status();
    http_status_ = response.ok() ? response->status : 0;
    is_over_ = true;
    changed_.NotifyAll();
  }

  void Take(const Json& frame) {
    const Json& object = frame["object"];
    std::string name = "?";
    if (frame["type"] == "ERROR") {
      name = std::to_string(object["code"].get<int>());
    } else if (frame["type"] == "BOOKMARK") {
      const Json annotations = object["metadata"].value("annotations", Json::object());
      name = annotations.contains("k8s.io/initial-events-end") ? "initial-end" : "progress";
    } else {
      name = object["metadata"]["name"];
      if (name == "kube-root-ca.crt") return;  // a real cluster puts it into every namespace
    }
    MutexLock lock(mutex_);
    lines_.push_back(frame["type"].get<std::string>() + " " + name);
    objects_.push_back(object);
    changed_.NotifyAll();
  }

  net::HttpTransport& transport_;
  const Clock& clock_;
  const std::string target_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ GUARDED_BY(mutex_);
  std::vector<Json> objects_ GUARDED_BY(mutex_);
  bool is_over_ GUARDED_BY(mutex_) = false;
  Status end_ GUARDED_BY(mutex_);
  int http_status_ GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

class WatchContract : public ContractTest {
 protected:
  std::unique_ptr<Watch> Start(const std::string& query) {
    return std::make_unique<Watch>(Connect(), clock_, "/api/v1/namespaces/" + ns_ + "/configmaps?watch=1&" + query);
  }
  std::string Now() {
    const auto list = client_->List(kConfigMaps, {.ns = ns_}, Soon());
    EXPECT_TRUE(list.ok()) << list.status().ToString();
    return list.ok() ? list->resource_version : "";
  }
  void Set(const std::string& name, const std::string& value, Json labels = Json::object()) {
    const Json object = ConfigMap(name, {{"n", value}}, std::move(labels));
    Status done = client_->Create(kConfigMaps, object, {}, Soon()).status();
    if (done.code() == StatusCode::kAlreadyExists) done = client_->Update(kConfigMaps, object, {}, Soon()).status();
    ASSERT_TRUE(done.ok()) << done.ToString();
  }
  void Delete(const std::string& name) {
    const Status done = client_->Delete(kConfigMaps, Key(name), {}, Soon());
    ASSERT_TRUE(done.ok()) << done.ToString();
  }
};

TEST_P(WatchContract, SeesEveryChangeAfterItsVersionInOrder) {
  Set("before", "0");
  auto watch = Start("resourceVersion=" + Now());
  Set("a", "1");
  Set("a", "2");
  Set("b", "1");
  Delete("a");
  EXPECT_THAT(watch->Await(4), ::testing::ElementsAre("ADDED a", "MODIFIED a", "ADDED b", "DELETED a"));
  const std::vector<Json> objects = watch->Objects();
  EXPECT_EQ(objects[3]["data"]["n"], "2") << "a deletion carries the last state";
  EXPECT_NE(objects[3]["metadata"]["resourceVersion"], objects[1]["metadata"]["resourceVersion"])
      << "with the version of the deletion";
  EXPECT_EQ(objects[0]["kind"], "ConfigMap");
}

TEST_P(WatchContract, GoesOnFromTheVersionOfTheLastEvent) {
  auto first = Start("resourceVersion=" + Now());
  Set("a", "1");
  ASSERT_EQ(first->Await(1).size(), 1u);
  const std::string last = first->Objects()[0]["metadata"]["resourceVersion"];
  first.reset();
  Set("a", "2");
  auto second = Start("resourceVersion=" + last);
  EXPECT_THAT(second->Await(1), ::testing::ElementsAre("MODIFIED a"));
}

TEST_P(WatchContract, SelectorTurnsChangesIntoAdditionsAndDeletions) {
  auto watch = Start("labelSelector=in%3Dyes&resourceVersion=" + Now());
  Set("a", "1");
  Set("a", "2", {{"in", "yes"}});
  Set("a", "3", {{"in", "yes"}});
  Set("a", "4");
  Set("b", "1", {{"in", "yes"}});
  EXPECT_THAT(watch->Await(4), ::testing::ElementsAre("ADDED a", "MODIFIED a", "DELETED a", "ADDED b"));
  EXPECT_EQ(watch->Objects()[2]["data"]["n"], "3") << "the last state that matched";
}

TEST_P(WatchContract, WithoutAVersionItBeginsWithWhatIsThere) {
  Set("a", "1");
  Set("b", "1");
  auto watch = Start("");
  EXPECT_THAT(watch->Await(2), ::testing::UnorderedElementsAre("ADDED a", "ADDED b"));
  Delete("b");
  EXPECT_EQ(watch->Await(3).back(), "DELETED b");
}

TEST_P(WatchContract, StreamingListEndsWithAMarkedBookmark) {
  Set("a", "1");
  Set("b", "1");
  auto watch = Start("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
  const std::vector<std::string> lines = watch->Await(3);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(std::vector<std::string>(lines.begin(), lines.begin() + 2),
              ::testing::UnorderedElementsAre("ADDED a", "ADDED b"));
  EXPECT_EQ(lines[2], "BOOKMARK initial-end");
  EXPECT_FALSE(watch->Objects()[2]["metadata"]["resourceVersion"].get<std::string>().empty());
  Set("c", "1");
  EXPECT_EQ(watch->Await(4).back(), "ADDED c");
}

TEST_P(WatchContract, StreamingListNeedsAMatchRule) {
  auto watch = Start("sendInitialEvents=true&allowWatchBookmarks=true");
  EXPECT_EQ(watch->AwaitEnd().second, 422);
}

TEST_P(WatchContract, TooOldVersionIsGone) {
  auto watch = Start("resourceVersion=1");
  const std::vector<std::string> lines = watch->Await(1, 5s);
  if (lines.empty() && GetParam() == ServerKind::kReal && !watch->IsOver()) {
    GTEST_SKIP() << "this server is so young that it still knows its first versions";
  }
  // Both ways of saying it are allowed; the reflector takes either.
  if (lines.empty()) {
    EXPECT_EQ(watch->AwaitEnd().second, 410);
  } else {
    EXPECT_THAT(lines, ::testing::ElementsAre("ERROR 410"));
  }
}

TEST_P(WatchContract, EndsByItselfAfterTheTimeAskedFor) {
  const TimePoint start = clock_.Now();
  auto watch = Start("timeoutSeconds=2&resourceVersion=" + Now());
  Set("a", "1");
  const auto [end, http_status] = watch->AwaitEnd();
  EXPECT_TRUE(end.ok()) << end.ToString();
  EXPECT_EQ(http_status, 200);
  EXPECT_GE(clock_.Now() - start, 1500ms);
  EXPECT_THAT(watch->Await(1), ::testing::ElementsAre("ADDED a"));
}

TEST_P(WatchContract, BookmarkCarriesAVersionToGoOnFrom) {
  auto watch = Start("allowWatchBookmarks=true&resourceVersion=" + Now());
  Set("a", "1");
  ASSERT_EQ(watch->Await(1).size(), 1u);
  ProvokeBookmark();
  ASSERT_THAT(watch->Await(2, kBookmarkPeriod), ::testing::ElementsAre("ADDED a", "BOOKMARK progress"));
  auto version = [&watch](size_t i) {
    return std::stoull(watch->Objects()[i]["metadata"]["resourceVersion"].get<std::string>());
  };
  EXPECT_GE(version(1), version(0));
}

TEST_P(WatchContract, StopEndsItAtOnce) {
  auto watch = Start("resourceVersion=" + Now());
  Set("a", "1");
  ASSERT_EQ(watch->Await(1).size(), 1u);
  const TimePoint start = clock_.Now();
  watch.reset();
  EXPECT_LT(clock_.Now() - start, 5s);
}

PACELINE_CONTRACT(WatchContract);

}  // namespace
}  // namespace paceline::contract
