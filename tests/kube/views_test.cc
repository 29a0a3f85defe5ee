#include "lib/kube/views.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "lib/kube/wire_proto.h"
#include "tests/kube/wire_builders.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;

// Objects written by the API's own Go types: `bench/kube_cache/peer fixtures tests/kube/data` makes them anew.
std::string Data(const std::string& name) {
  std::ifstream file(std::string(PACELINE_SOURCE_DIR) + "/tests/kube/data/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename View>
View Both(const std::string& name) {
  StringPool pool;
  const std::string binary = Data(name + ".pb");
  ProtoEnvelope envelope;
  EXPECT_TRUE(OpenEnvelope(binary, &envelope)) << name;
  EXPECT_EQ(envelope.kind, View::DefaultResource().kind);
  const auto protobuf = DecodeProtobuf<View>(envelope.raw, &pool);
  const auto json = DecodeJson<View>(Data(name + ".json"), nullptr);
  EXPECT_TRUE(protobuf.ok() && json.ok()) << protobuf.status().ToString() << json.status().ToString();
  EXPECT_TRUE(**protobuf == **json) << name << ": the two encodings give different views";
  return **protobuf;
}

const WallTime kCreated = *ParseRfc3339("2026-01-02T03:04:05Z");

TEST(PodView, IsEqualFromBothEncodings) {
  const PodView pod = Both<PodView>("pod_running");
  EXPECT_EQ(pod.meta.name.view().substr(0, 28), "llm-pretrain-00077-worker-02");
  EXPECT_EQ(pod.meta.ns, "team-17");
  EXPECT_EQ(pod.meta.creation_time, kCreated);
  EXPECT_FALSE(pod.meta.IsBeingDeleted());
  EXPECT_EQ(pod.meta.labels.Get("batch.kubernetes.io/job-name"), "llm-pretrain-00077");
  EXPECT_EQ(pod.meta.annotations.Get("paceline.dev/enabled"), "true");
  ASSERT_NE(pod.meta.Controller(), nullptr);
  EXPECT_EQ(pod.meta.Controller()->kind, "Job");
  EXPECT_EQ(pod.meta.Controller()->api_version, "batch/v1");
  EXPECT_EQ(pod.spec.node_name, "gpu-node-00034");
  ASSERT_EQ(pod.spec.containers.size(), 1u);
  EXPECT_EQ(pod.spec.containers[0].image, "registry.example.com/platform/pretrain:2026.01.2");
  EXPECT_EQ(pod.status.phase, "Running");
  EXPECT_TRUE(IsConditionTrue(pod.status.conditions, "Ready"));
  EXPECT_EQ(FindCondition(pod.status.conditions, "Ready")->last_transition_time, kCreated + 41s);
  ASSERT_EQ(pod.status.containers.size(), 1u);
  EXPECT_TRUE(pod.status.containers[0].is_ready);
  EXPECT_EQ(pod.status.containers[0].state.running->started_at, kCreated + 40s);
  EXPECT_EQ(pod.status.init_containers[0].state.terminated->finished_at, kCreated + 29s);
}

TEST(PodView, HasFailuresGatesAndFinalizers) {
  const PodView pod = Both<PodView>("pod_failed");
  EXPECT_EQ(pod.meta.deletion_time, kCreated + 900s);
  EXPECT_EQ(pod.meta.finalizers, (std::vector<SharedString>{"batch.kubernetes.io/job-tracking", "paceline.dev/trace"}));
  EXPECT_FALSE(pod.meta.annotations.Contains("kubectl.kubernetes.io/last-applied-configuration"));
  EXPECT_EQ(pod.meta.annotations.Get("note"),
            "tab\t, quote \", slash \\, line\nbreak, \u00fcn\u00ef\u00a9ode \U0001F680, angle <&>, nul-free");
  EXPECT_EQ(pod.spec.scheduling_gates, (std::vector<SharedString>{"example.com/quota", "example.com/topology"}));
  EXPECT_EQ(pod.spec.init_containers[0].restart_policy, "Always");
  EXPECT_EQ(pod.status.reason, "Evicted");
  const ContainerStatus& worker = pod.status.containers[0];
  EXPECT_EQ(worker.restart_count, 3);
  EXPECT_EQ(worker.state.terminated->exit_code, 137);
  EXPECT_EQ(worker.state.terminated->signal, 9);
  EXPECT_EQ(worker.last_state.terminated->exit_code, -1);
  EXPECT_FALSE(worker.state.running.has_value());
  EXPECT_EQ(pod.status.init_containers[0].state.waiting->reason, "ImagePullBackOff");
  EXPECT_EQ(FindCondition(pod.status.conditions, "DisruptionTarget")->reason, "PreemptionByScheduler");
}

TEST(PodView, OfAnEmptyPodIsEmpty) { EXPECT_TRUE(Both<PodView>("pod_empty") == PodView()); }

TEST(NodeView, IsEqualFromBothEncodings) {
  const NodeView node = Both<NodeView>("node");
  EXPECT_EQ(node.meta.name, "gpu-node-00007");
  EXPECT_EQ(node.spec.provider_id, "example://zone/gpu-node-00007");
  ASSERT_EQ(node.spec.taints.size(), 1u);
  EXPECT_EQ(node.spec.taints[0].key, "nvidia.com/gpu");
  EXPECT_EQ(node.spec.taints[0].time_added, kCreated);
  EXPECT_EQ(node.status.capacity.Get("memory"), "2Ti");
  EXPECT_EQ(node.status.allocatable.Get("nvidia.com/gpu"), "8");
  EXPECT_TRUE(IsConditionTrue(node.status.conditions, "Ready"));
  EXPECT_FALSE(IsConditionTrue(node.status.conditions, "DiskPressure"));
  EXPECT_EQ(node.status.addresses[1].address, "gpu-node-00007");
  EXPECT_EQ(node.status.info.kernel_version, "6.12.30");
  EXPECT_EQ(node.status.info.container_runtime_version, "containerd://2.4.2");
}

TEST(EventView, IsEqualFromBothEncodings) {
  const EventView event = Both<EventView>("event");
  EXPECT_EQ(event.involved_object.kind, "Pod");
  EXPECT_EQ(event.involved_object.field_path, "spec.containers{worker}");
  EXPECT_EQ(event.reason, "Pulled");
  EXPECT_EQ(event.Component(), "kubelet");
  EXPECT_EQ(event.count, 4);
  EXPECT_EQ(event.event_time, kCreated + 1234567us);
  EXPECT_EQ(event.When(), kCreated + 9s);
}

TEST(JobView, IsEqualFromBothEncodings) {
  const JobView job = Both<JobView>("job");
  EXPECT_EQ(job.meta.generation, 2);
  EXPECT_EQ(job.spec.completions, 16);
  EXPECT_EQ(job.spec.backoff_limit, 0);
  EXPECT_EQ(job.spec.completion_mode, "Indexed");
  EXPECT_TRUE(job.spec.is_suspended);
  EXPECT_EQ(job.spec.template_labels.Get("b"), "2");
  EXPECT_EQ(job.spec.template_annotations.Get("paceline.dev/trace"), "on");
  EXPECT_EQ(job.status.active, 3);
  EXPECT_EQ(job.status.ready, 2);
  EXPECT_EQ(job.status.succeeded, 5);
  EXPECT_EQ(job.status.failed, 1);
  EXPECT_EQ(job.status.completion_time, kCreated + 99s);
  EXPECT_EQ(job.status.completed_indexes, "0-3,7");
  EXPECT_TRUE(IsConditionTrue(job.status.conditions, "Failed"));
}

TEST(ObjectView, KeepsTheWholeObjectWithoutManagedFields) {
  const struct {
    const char* name;
    const char* text;
    const char* kept;
  } cases[] = {
      {"last", R"({"kind":"X","metadata":{"name":"a","managedFields":[{"manager":"m"}]},"spec":{"n":1}})",
       R"({"kind":"X","metadata":{"name":"a"},"spec":{"n":1}})"},
      {"first", R"({"kind":"X","metadata":{"managedFields":[{}] , "name":"a"},"spec":{"n":1}})",
       R"({"kind":"X","metadata":{ "name":"a"},"spec":{"n":1}})"},
      {"middle", R"({"kind":"X","metadata":{"x":1, "managedFields" : null,"name":"a"},"spec":{"n":1}})",
       R"({"kind":"X","metadata":{"x":1,"name":"a"},"spec":{"n":1}})"},
      {"alone", R"({"kind":"X","metadata":{"managedFields":[]},"spec":{"managedFields":[1]}})",
       R"({"kind":"X","metadata":{},"spec":{"managedFields":[1]}})"},
      {"none", R"({"kind":"X","metadata":{"name":"a"}})", R"({"kind":"X","metadata":{"name":"a"}})"},
  };
  for (const auto& c : cases) {
    const auto object = DecodeJson<ObjectView>(c.text, nullptr);
    ASSERT_TRUE(object.ok()) << c.name;
    EXPECT_EQ((*object)->json, c.kept) << c.name;
    EXPECT_EQ((*object)->kind, "X");
    ASSERT_TRUE((*object)->Body().ok()) << c.name;
  }
  EXPECT_EQ(DecodeProtobuf<ObjectView>("", nullptr).status().code(), StatusCode::kUnimplemented);
}

TEST(Views, TimesThatDoNotFitCountAsAbsent) {
  for (const char* text : {"null", "\"\"", "\"9999-01-01T00:00:00Z\"", "\"yesterday\""}) {
    const std::string json = R"({"metadata":{"name":"a","creationTimestamp":)" + std::string(text) + "}}";
    const auto pod = DecodeJson<PodView>(json, nullptr);
    ASSERT_TRUE(pod.ok()) << text;
    EXPECT_EQ((*pod)->meta.creation_time, kNoTime) << text;
  }
  const std::string far = BytesField(1, BytesField(8, VarintField(1, 253402300799)));
  const auto pod = DecodeProtobuf<PodView>(far, nullptr);
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ((*pod)->meta.creation_time, kNoTime);
}

TEST(Views, RefuseValuesOfTheWrongKind) {
  EXPECT_EQ(DecodeJson<PodView>(R"({"metadata":{"name":7}})", nullptr).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeJson<PodView>(R"({"metadata":[]})", nullptr).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeJson<PodView>("{} x", nullptr).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeProtobuf<PodView>(VarintField(1, 7), nullptr).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeProtobuf<PodView>(BytesField(1, VarintField(1, 7)), nullptr).status().code(), StatusCode::kDataLoss);
}

TEST(Views, AreMadeFromParsedObjectsToo) {
  const auto pod = ViewFromJson<PodView>(nlohmann::json{{"metadata", {{"name", "a"}}}, {"spec", {{"nodeName", "n1"}}}});
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(pod->spec.node_name, "n1");
}

template <typename View>
void DecodeBroken(const std::string& binary, const std::string& text, std::mt19937& random) {
  const auto damage = [&random](std::string bytes) {
    if (random() % 2 == 0) bytes.resize(random() % (bytes.size() + 1));
    for (int flips = random() % 5; flips > 0 && !bytes.empty(); --flips)
      bytes[random() % bytes.size()] ^= 1 << random() % 8;
    return bytes;
  };
  StringPool pool;
  ProtoEnvelope envelope;
  const std::string broken = damage(binary);
  if (OpenEnvelope(broken, &envelope)) DecodeProtobuf<View>(envelope.raw, &pool).status().IgnoreError();
  ASSERT_TRUE(OpenEnvelope(binary, &envelope));
  DecodeProtobuf<View>(damage(std::string(envelope.raw)), &pool).status().IgnoreError();
  DecodeJson<View>(damage(text), &pool).status().IgnoreError();
  DecodeJson<ObjectView>(damage(text), &pool).status().IgnoreError();
}

TEST(Views, SurviveBrokenBytes) {
  std::mt19937 random(2);
  const std::string pod[] = {Data("pod_failed.pb"), Data("pod_failed.json")};
  const std::string node[] = {Data("node.pb"), Data("node.json")};
  const std::string job[] = {Data("job.pb"), Data("job.json")};
  for (int round = 0; round < 500; ++round) {
    DecodeBroken<PodView>(pod[0], pod[1], random);
    DecodeBroken<NodeView>(node[0], node[1], random);
    DecodeBroken<JobView>(job[0], job[1], random);
  }
}

TEST(StringMap, IsSortedAndSearchable) {
  StringMap map{{"b", "2"}, {"a", "1"}, {"c", "3"}, {"b", "4"}};
  EXPECT_EQ(map.size(), 3u);
  EXPECT_EQ(map.Get("b"), "4");
  EXPECT_EQ(map.Get("x"), "");
  EXPECT_FALSE(map.Contains("x"));
  EXPECT_EQ(map.begin()->first, "a");
}

}  // namespace
}  // namespace paceline::kube
