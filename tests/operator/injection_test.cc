#include "operator/webhook/injection.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::operator_ {
namespace {

using Json = nlohmann::json;

RunIdentity Identity() { return {"JobSet", "llama", "u1", "", 2, 5}; }

Json Pod(std::string_view text) { return Json::parse(text); }

std::string EnvOf(const Json& container, std::string_view name) {
  for (const Json& entry : container["env"]) {
    if (entry["name"] == name) return entry.value("value", "(field)");
  }
  return "(absent)";
}

TEST(InjectionPatch, NamesTheRunAndGivesTheStageVolume) {
  const Json pod =
      Pod(R"({"metadata":{},"spec":{"initContainers":[{"name":"setup"}],"containers":[{"name":"main"}]}})");
  const Json after = pod.patch(InjectionPatch(pod, Identity(), {.stage = true}));
  const Json& labels = after["metadata"]["labels"];
  EXPECT_EQ(labels["paceline.dev/run"], Identity().Run());
  EXPECT_EQ(labels["paceline.dev/rank"], "5");
  EXPECT_EQ(labels["paceline.dev/generation"], "2");
  EXPECT_EQ(after["metadata"]["annotations"]["paceline.dev/injected"], "identity,stage");
  const Json& main = after["spec"]["containers"][0];
  EXPECT_EQ(EnvOf(main, "PACELINE_RUN"), Identity().Run());
  EXPECT_EQ(EnvOf(main, "PACELINE_NODE"), "(field)");
  EXPECT_EQ(EnvOf(main, "PACELINE_STAGE_FILE"), "/run/paceline/stage");
  EXPECT_EQ(main["volumeMounts"][0]["mountPath"], "/run/paceline");
  EXPECT_EQ(after["spec"]["volumes"][0]["csi"]["driver"], "csi.paceline.dev");
  EXPECT_EQ(EnvOf(after["spec"]["initContainers"][0], "PACELINE_JOB"), "llama");
  EXPECT_FALSE(after["spec"]["initContainers"][0].contains("volumeMounts"));
}

TEST(InjectionPatch, WritesDownTheGpusOfThePod) {
  struct Case {
    const char* resources;
    const char* gpus;
  };
  const Case cases[] = {
      {R"({})", "0"},
      {R"({"limits":{"cpu":"4","memory":"1Gi"}})", "0"},
      {R"({"limits":{"nvidia.com/gpu":"8"}})", "8"},
      {R"({"limits":{"nvidia.com/gpu":8}})", "8"},
      {R"({"limits":{"amd.com/gpu":"4","nvidia.com/mig-1g.10gb":"2"}})", "6"},
      {R"({"limits":{"nvidia.com/gpu":"x"}})", "0"},
      {R"({"limits":"none"})", "0"},
  };
  for (const Case& c : cases) {
    const Json pod =
        Pod(std::string(R"({"metadata":{},"spec":{"containers":[{"name":"side"},{"name":"main","resources":)") +
            c.resources + "}]}}");
    const Json after = pod.patch(InjectionPatch(pod, Identity(), {}));
    EXPECT_EQ(after["metadata"]["annotations"][std::string(kGpusAnnotation)], c.gpus) << c.resources;
  }
}

std::vector<api::Checkpoint> Checkpoints() {
  return {{.name = "model",
           .uri = "hdfs://ns/m",
           .mount_path = "/model",
           .read_only = true,
           .prefetch = {"step_1000", "tokenizer.json"},
           .secret_ref = api::SecretReference{"hdfs"}},
          {.name = "out",
           .uri = "hdfs://ns/o",
           .mount_path = "/out",
           .layout = api::CheckpointLayout::kStriped,
           .memory_limit = "2Gi",
           .create_directory = true}};
}

TEST(InjectionPatch, MountsCheckpointsInEveryContainer) {
  const Json pod = Pod(R"({"metadata":{},"spec":{"initContainers":[{"name":"setup"}],"containers":[{"name":"main"},
      {"name":"side","volumeMounts":[{"name":"v","mountPath":"/out"}]}]}})");
  const Json after = pod.patch(InjectionPatch(pod, Identity(), {.checkpoints = Checkpoints()}));
  const Json& spec = after["spec"];
  ASSERT_EQ(spec["volumes"].size(), 2u);
  EXPECT_EQ(spec["volumes"][0], Json::parse(R"({"name":"paceline-checkpoint-model","csi":{"driver":"csi.paceline.dev",
      "readOnly":true,"nodePublishSecretRef":{"name":"hdfs"},
      "volumeAttributes":{"type":"hdfs","uri":"hdfs://ns/m","layout":"plain",
      "prefetch":"step_1000,tokenizer.json"}}})"));
  EXPECT_EQ(spec["volumes"][1]["csi"]["volumeAttributes"],
            Json::parse(R"({"type":"hdfs","uri":"hdfs://ns/o","layout":"striped","memoryLimit":"2Gi",
                "createDirectory":"true"})"));
  EXPECT_EQ(spec["containers"][0]["volumeMounts"], Json::parse(R"([
      {"name":"paceline-checkpoint-model","mountPath":"/model","mountPropagation":"HostToContainer","readOnly":true},
      {"name":"paceline-checkpoint-out","mountPath":"/out","mountPropagation":"HostToContainer"}])"));
  EXPECT_EQ(spec["initContainers"][0]["volumeMounts"], spec["containers"][0]["volumeMounts"]);
  EXPECT_EQ(spec["containers"][1]["volumeMounts"][0]["name"], "v") << "the container's own mount stays";
  EXPECT_EQ(spec["containers"][1]["volumeMounts"].size(), 2u);
  EXPECT_EQ(InjectionPatch(after, Identity(), {.checkpoints = Checkpoints()}), Json::array());
}

TEST(InjectionPatch, GivesTracedContainersThePlugin) {
  const Json pod = Pod(R"({"metadata":{},"spec":{"initContainers":[{"name":"setup"}],"containers":[{"name":"main"},
      {"name":"own","env":[{"name":"NCCL_PROFILER_PLUGIN","value":"mine"}]}]}})");
  const Json after = pod.patch(InjectionPatch(pod, Identity(), {.stage = true, .trace = true}));
  EXPECT_EQ(after["metadata"]["annotations"]["paceline.dev/injected"], "identity,stage,trace");
  const Json& main = after["spec"]["containers"][0];
  EXPECT_EQ(EnvOf(main, "PACELINE_TRACE_DIR"), "/run/paceline/trace");
  EXPECT_EQ(EnvOf(main, "NCCL_PROFILER_PLUGIN"), "/run/paceline/trace/libnccl-profiler-paceline.so");
  EXPECT_EQ(main["volumeMounts"][1], Json::parse(R"({"name":"paceline-trace","mountPath":"/run/paceline/trace"})"));
  EXPECT_EQ(EnvOf(after["spec"]["containers"][1], "NCCL_PROFILER_PLUGIN"), "mine");
  EXPECT_FALSE(after["spec"]["initContainers"][0].contains("volumeMounts"));
  EXPECT_EQ(after["spec"]["volumes"][1], Json::parse(R"({"name":"paceline-trace","csi":{"driver":"csi.paceline.dev",
      "volumeAttributes":{"type":"trace"}}})"));
}

TEST(InjectionPatch, IsEmptyTheSecondTime) {
  const Json pod = Pod(R"({"metadata":{"labels":{"a":"b"}},"spec":{"volumes":[{"name":"v"}],"containers":[
      {"name":"main","env":[{"name":"X","value":"1"}],"volumeMounts":[{"name":"v","mountPath":"/v"}]},{"name":"side"}]}})");
  for (const bool has_volumes : {true, false}) {
    const InjectedVolumes volumes{.stage = has_volumes, .trace = has_volumes};
    const Json once = pod.patch(InjectionPatch(pod, Identity(), volumes));
    EXPECT_EQ(InjectionPatch(once, Identity(), volumes), Json::array());
    // The nodes changed in between: what the first call decided stays.
    EXPECT_EQ(InjectionPatch(once, Identity(), {.stage = !has_volumes, .trace = !has_volumes}), Json::array());
  }
}

TEST(InjectionPatch, ChangesNothingThatIsThere) {
  const Json pod = Pod(R"({"metadata":{"labels":{"paceline.dev/run":"mine","keep":"me"},"annotations":{"note":"x"}},
      "spec":{"volumes":[{"name":"own","emptyDir":{}}],"containers":[{"name":"main",
      "env":[{"name":"PACELINE_RUN","value":"mine"}],"volumeMounts":[{"name":"own","mountPath":"/run/paceline"}]}]}})");
  const Json patch = InjectionPatch(pod, Identity(), {.stage = true});
  for (const Json& operation : patch) EXPECT_EQ(operation["op"], "add");
  const Json after = pod.patch(patch);
  EXPECT_EQ(after["metadata"]["labels"]["paceline.dev/run"], "mine");
  EXPECT_EQ(after["metadata"]["labels"]["keep"], "me");
  const Json& main = after["spec"]["containers"][0];
  EXPECT_EQ(main["env"][0], pod["spec"]["containers"][0]["env"][0]);
  EXPECT_EQ(EnvOf(main, "PACELINE_RUN"), "mine");
  EXPECT_EQ(main["volumeMounts"], pod["spec"]["containers"][0]["volumeMounts"]);
  EXPECT_EQ(after["spec"]["volumes"][0], pod["spec"]["volumes"][0]);
}

TEST(InjectionPatch, LeavesMalformedPodsAlone) {
  const std::string pods[] = {
      "null",
      "[]",
      R"("pod")",
      "{}",
      R"({"metadata":[],"spec":{}})",
      R"({"metadata":{},"spec":[]})",
      R"({"metadata":{"labels":[],"annotations":7},"spec":{"containers":"x","volumes":{}}})",
      R"({"metadata":{},"spec":{"containers":[1,null,{"env":{},"volumeMounts":"no"},{"env":[1,{"name":3},{}]}]}})",
      R"({"metadata":{"annotations":{"paceline.dev/injected":5}},"spec":{"containers":[]}})"};
  for (const std::string& text : pods) {
    const Json pod = Json::parse(text);
    const Json patch = InjectionPatch(pod, Identity(), {.stage = true});
    EXPECT_TRUE(patch.is_array()) << text;
    for (const Json& operation : patch) EXPECT_EQ(operation["op"], "add") << text;
    EXPECT_NO_THROW(pod.patch(patch)) << text << " " << patch.dump();
  }
}

TEST(RunIdentity, LeavesOutANameThatIsNoLabelValue) {
  RunIdentity identity = Identity();
  identity.job_name = std::string(80, 'a');
  EXPECT_EQ(IdentityLabels(identity).count("paceline.dev/job-name"), 0u);
  for (const auto& [key, value] : IdentityLabels(identity)) EXPECT_LE(value.size(), 63u) << key;
}

}  // namespace
}  // namespace paceline::operator_
