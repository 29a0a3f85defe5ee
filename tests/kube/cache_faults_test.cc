// The caches against a real API server that crashes under them: whatever happens, in the end a cache holds what a full
// list says, and its handlers were told of every step there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/kube/cache.h"
#include "lib/kube/rest_client.h"
#include "tests/fakes/capture_log.h"
#include "tests/kube/local_api_server.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

Json Pod(const std::string& name, int generation) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name}, {"namespace", "default"}, {"annotations", {{"generation", std::to_string(generation)}}}}},
          {"spec", {{"containers", {{{"name", "c"}, {"image", "x"}}}}}}};
}

Json ConfigMap(const std::string& name, int generation) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"namespace", "default"}}},
          {"data", {{"generation", std::to_string(generation)}}}};
}

class CacheFaults : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("cache_faults_" + std::to_string(::getpid()));
    auto server = LocalApiServer::Start(folder_.string(), clock_);
    if (!server.ok() && server.status().code() == StatusCode::kNotFound) GTEST_SKIP() << server.status().message();
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    transport_ = *NewApiTransport(server_->config(), {.qps = 0}, *metrics_, clock_);
    client_ = NewRestClient(*transport_, clock_);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Creates, changes and deletes objects until told to stop; what fails while the server is away does not matter.
  void Churn(std::stop_token stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const std::string name = "x" + std::to_string(i * 7 % 40);
      for (const auto& [resource, object] :
           {std::pair(kPods, Pod(name, i)), std::pair(kConfigMaps, ConfigMap(name, i))}) {
        const Deadline soon = Deadline::After(clock_, 5s);
        const ObjectKey key{"default", name};
        if (i % 5 == 4) {
          client_->Delete(resource, key, {.grace_period_seconds = 0}, soon).IgnoreError();
        } else if (client_->Patch(resource, key, PatchType::kMerge, object, {}, soon).status().code() ==
                   StatusCode::kNotFound) {
          client_->Create(resource, object, {}, soon).status().IgnoreError();
        }
      }
    }
  }

  // name -> resourceVersion, by a list that asks the database.
  std::map<std::string, std::string> Listed(const Resource& resource) {
    std::map<std::string, std::string> out;
    auto list = client_->List(resource, {.ns = "default"}, Deadline::After(clock_, 1min));
    EXPECT_TRUE(list.ok()) << list.status().ToString();
    if (!list.ok()) return out;
    for (const Json& item : list->items) out[item["metadata"]["name"]] = item["metadata"]["resourceVersion"];
    return out;
  }

  RealClock clock_;
  std::filesystem::path folder_;
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  std::unique_ptr<LocalApiServer> server_;
  std::unique_ptr<net::HttpTransport> transport_;
  std::unique_ptr<Client> client_;
};

// A cache and the state that its handlers' reports add up to.
template <typename T>
struct Follower {
  Follower(const Resource& resource, CacheEnvironment environment, Encoding encoding)
      : cache({.resource = resource, .ns = "default", .preferred_encoding = encoding, .max_backoff = 2s}, environment) {
    cache.AddHandler([this](const CacheChange<T>& change) {
      const std::string name = change.meta().name.str();
      MutexLock lock(mutex);
      if (change.before == nullptr && told.count(name) != 0) ++contradictions;
      if (change.before != nullptr && told.count(name) == 0) ++contradictions;
      if (change.after == nullptr) {
        told.erase(name);
      } else {
        told[name] = change.after->meta.resource_version.str();
      }
    });
    cache.Start();
  }

  std::map<std::string, std::string> Held() const {
    std::map<std::string, std::string> out;
    for (const auto& object : cache.store().List()) out[object->meta.name.str()] = object->meta.resource_version.str();
    return out;
  }
  std::map<std::string, std::string> Told() {
    MutexLock lock(mutex);
    return told;
  }

  Mutex mutex;
  std::map<std::string, std::string> told GUARDED_BY(mutex);
  int contradictions GUARDED_BY(mutex) = 0;
  Cache<T> cache;
};

TEST_F(CacheFaults, NoChangeIsMissedWhenTheServerCrashes) {
  const CacheEnvironment environment{*transport_, clock_, log_.logger(), *metrics_};
  Follower<PodView> pods(kPods, environment, Encoding::kProtobuf);
  Follower<ObjectView> maps(kConfigMaps, environment, Encoding::kJson);
  ASSERT_TRUE(pods.cache.WaitForSync(Deadline::After(clock_, 1min)).ok());
  ASSERT_TRUE(maps.cache.WaitForSync(Deadline::After(clock_, 1min)).ok());
  {
    std::jthread churn([this](std::stop_token stop) { Churn(std::move(stop)); });
    for (int crash = 0; crash < 3; ++crash) {
      clock_.SleepFor(1s, {});  // some writes in between; the outcome does not depend on how many
      server_->KillApiServer();
      const Status restarted = server_->StartApiServer();
      ASSERT_TRUE(restarted.ok()) << restarted.ToString();
    }
    clock_.SleepFor(1s, {});
  }
  const auto listed_pods = Listed(kPods), listed_maps = Listed(kConfigMaps);
  const TimePoint limit = clock_.Now() + 1min;
  while ((pods.Told() != listed_pods || maps.Told() != listed_maps) && clock_.Now() < limit) clock_.SleepFor(50ms, {});
  EXPECT_FALSE(listed_pods.empty());
  EXPECT_EQ(pods.Told(), listed_pods) << log_.Text();
  EXPECT_EQ(maps.Told(), listed_maps) << log_.Text();
  EXPECT_EQ(pods.Held(), listed_pods);
  EXPECT_EQ(maps.Held(), listed_maps);
  pods.cache.Stop();
  maps.cache.Stop();
  MutexLock lock(pods.mutex);
  EXPECT_EQ(pods.contradictions, 0);
  EXPECT_GT(pods.cache.State().watches, 1u);
  // A server that comes back has forgotten the versions from before: without that the test is about a cut watch only.
  EXPECT_GT(log_.Count("watch expired, listing again"), 0u) << log_.Text();
  EXPECT_GT(pods.cache.State().lists, 1u);
  EXPECT_GT(maps.cache.State().lists, 1u);
  RecordProperty("pod_events", static_cast<int>(pods.cache.State().events));
  RecordProperty("pod_lists", static_cast<int>(pods.cache.State().lists));
}

// Both encodings, both ways to list, give the same views of everything that a fresh cluster has.
TEST_F(CacheFaults, EncodingsAndListModesAgree) {
  for (int i = 0; i < 20; ++i) {
    const auto made = client_->Create(kPods, Pod("p" + std::to_string(i), i), {}, Deadline::After(clock_, 30s));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
  }
  const CacheEnvironment environment{*transport_, clock_, log_.logger(), *metrics_};
  std::vector<std::map<std::string, PodView>> views;
  for (const Encoding encoding : {Encoding::kProtobuf, Encoding::kJson}) {
    for (const ListMode mode : {ListMode::kList, ListMode::kStream}) {
      PodCache cache({.resource = kPods, .preferred_encoding = encoding, .list_mode = mode}, environment);
      cache.Start();
      const Status synced = cache.WaitForSync(Deadline::After(clock_, 1min));
      ASSERT_TRUE(synced.ok()) << synced.ToString();
      EXPECT_EQ(cache.State().lists, mode == ListMode::kList ? 1u : 0u);  // the server can stream
      EXPECT_EQ(cache.State().skipped, 0u);
      auto& seen = views.emplace_back();
      for (const auto& pod : cache.store().List()) seen[pod->meta.name.str()] = *pod;
    }
  }
  ASSERT_EQ(views[0].size(), 20u);
  for (const auto& view : views) EXPECT_TRUE(view == views[0]);
}

}  // namespace
}  // namespace paceline::kube
