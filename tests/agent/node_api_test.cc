#include "agent/node_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "agent/state_lock.h"
#include "lib/base/json.h"
#include "tests/agent/node_folders.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

VolumeRecord SampleVolume(const std::string& uid) {
  VolumeRecord record;
  record.spec.volume_id = "csi-" + uid;
  record.spec.type = "scratch";
  record.spec.target =
      *ParseTargetPath("/var/lib/kubelet", "/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~csi/work/mount");
  record.spec.pod = {"team-a", "trainer-" + uid, uid};
  record.phase = VolumePhase::kPublished;
  record.requested_at = *ParseRfc3339("2026-01-02T03:04:05Z");
  record.published_at = *ParseRfc3339("2026-01-02T03:04:05.250Z");
  return record;
}

class NodeApiTest : public ::testing::Test {
 protected:
  NodeApiTest()
      : metrics_(MetricsRegistry::Create()),
        routes_(NodeRoutes(
            *metrics_,
            [this] {
              NodeView view;
              view.node_name = "n1";
              view.volumes = volumes_;
              view.state.facts.gpu.devices = {{"NVIDIA H200", "GPU-1", 5}};
              view.state.pods.emplace_back().pod = {"team-a", "trainer", "u1"};
              return view;
            },
            [this] { return why_not_ready_; })) {
    AddVolumeMetrics(*metrics_, [this] { return volumes_; });
  }

  net::ServerResponse Get(const std::string& path, const std::string& method = "GET") {
    net::ServerRequest request;
    request.method = method;
    request.path = path;
    return routes_.at(path)(request, Deadline::Infinite());
  }

  std::vector<VolumeRecord> volumes_;
  std::string why_not_ready_;
  const std::unique_ptr<MetricsRegistry> metrics_;
  const std::map<std::string, net::Handler> routes_;
};

TEST_F(NodeApiTest, ShowsTheNode) {
  volumes_ = {SampleVolume("u1")};
  net::ServerResponse response = Get("/v1/node");
  EXPECT_EQ(response.content_type, "application/json");
  Result<Json> body = ParseJson(response.body);
  ASSERT_TRUE(body.ok()) << body.status().ToString();
  EXPECT_EQ(*JsonString(*body, "node"), "n1");
  EXPECT_EQ(*JsonString(*body, "volumes.0.podUid"), "u1");
  EXPECT_EQ(*JsonString(*body, "volumes.0.publishedAt"), "2026-01-02T03:04:05.250000Z");
  EXPECT_DOUBLE_EQ(*JsonDouble(*body, "volumes.0.publishSeconds"), 0.25);
  EXPECT_EQ(*JsonString(*body, "facts.nvidia.gpus.0.model"), "NVIDIA H200");
  EXPECT_EQ(*JsonString(*body, "facts.erofs.support"), "unknown");
  EXPECT_EQ(*JsonString(*body, "pods.0.uid"), "u1");
  EXPECT_EQ(Get("/v1/node", "DELETE").status, 405);
}

TEST_F(NodeApiTest, SaysWhetherItIsReady) {
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/readyz").status, 200);
  why_not_ready_ = "kubelet has not registered the CSI driver";
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/readyz").body, "kubelet has not registered the CSI driver\n");
  EXPECT_EQ(Get("/healthz").status, 200) << "waiting for kubelet is no reason to be restarted";
}

TEST_F(NodeApiTest, CountsVolumesAndForgetsPodsThatWent) {
  volumes_ = {SampleVolume("u1"), SampleVolume("u2")};
  std::string page = Get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("paceline_volumes{type=\"scratch\"} 2"));
  EXPECT_THAT(page, HasSubstr("paceline_volume_publish_duration_seconds{namespace=\"team-a\",pod=\"trainer-u1\","
                              "pod_uid=\"u1\",type=\"scratch\",volume=\"work\"} 0.25"));
  volumes_ = {SampleVolume("u2")};
  page = Get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("paceline_volumes{type=\"scratch\"} 1"));
  EXPECT_THAT(page, Not(HasSubstr("pod_uid=\"u1\"")));
  EXPECT_THAT(page, HasSubstr("pod_uid=\"u2\""));
  volumes_.clear();
  EXPECT_THAT(Get("/metrics").body, HasSubstr("paceline_volumes{type=\"scratch\"} 0")) << "a known type stays, at 0";
}

TEST(StateLock, IsHeldByOneAgentAtATime) {
  const std::string folder = MakeTemporaryFolder();
  fakes::SimulatedClock clock;
  Result<UniqueFd> first = LockState(folder + "/state", clock, Deadline::At(clock.Now()), {});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(LockState(folder + "/state", clock, Deadline::At(clock.Now()), {}).status().code(),
            StatusCode::kUnavailable);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(LockState(folder + "/state", clock, Deadline::Infinite(), stopped.get_token()).status().code(),
            StatusCode::kCancelled);
  first->Reset();
  EXPECT_TRUE(LockState(folder + "/state", clock, Deadline::At(clock.Now()), {}).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace paceline::agent
