// The agent on a real node: kubelet registers it, a pod gets its volume from it, and neither kill -9 nor a stop loses
// one. Needs the test bed (docs/testbed.md) and its environment; the agent runs as a process of node n1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lib/api/codec.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "tests/agent/node_folders.h"

extern char** environ;

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

struct Output {
  int code = -1;
  std::string text;  // stdout and stderr
};

// Runs a shell command for at most a minute.
Output Shell(const std::string& command) {
  Output output;
  FILE* pipe = popen(("timeout 60 sh -c '" + command + "' 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char piece[4096];
  for (size_t got; (got = fread(piece, 1, sizeof piece, pipe)) > 0;) output.text.append(piece, got);
  const int status = pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

Output Kubectl(const std::string& arguments) { return Shell("kubectl " + arguments); }

Output InNode(const std::string& command) {
  return Shell(std::string(PACELINE_SOURCE_DIR) + "/scripts/testbed exec n1 -- " + command);
}

const char* const kManifest = R"yaml(
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: csi.paceline.dev}
spec: {attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Ephemeral], fsGroupPolicy: None, requiresRepublish: true}
---
apiVersion: paceline.dev/v1alpha1
kind: NodePlan
metadata: {name: n1}
spec: {images: [{reference: "registry.test:5000/busybox:1"}]}
)yaml";

std::string PodManifest(const std::string& name, const std::string& attributes) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
         "}\nspec:\n  nodeName: n1\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n"
         "  imagePullSecrets: [{name: registry}]\n  containers:\n"
         "  - name: c\n    image: registry.test:5000/busybox:1\n"
         "    command: [sh, -c, \"echo kept > /scratch/file; echo first_step $(date +%s) >> /scratch/stage; exec sleep "
         "3600\"]\n"
         "    securityContext: {runAsUser: 1000}\n"
         "    volumeMounts: [{name: work, mountPath: /scratch}]\n"
         "  volumes: [{name: work, csi: {driver: csi.paceline.dev, volumeAttributes: " +
         attributes + "}}]\n";
}

class AgentOnNode : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* kubeconfig = std::getenv("PACELINE_KUBECONFIG");
    if (kubeconfig == nullptr) GTEST_SKIP() << "PACELINE_KUBECONFIG is not set: needs scripts/testbed up";
    if (Shell("test -x " PACELINE_AGENT).code != 0) GTEST_SKIP() << PACELINE_AGENT " is not built";
    kubeconfig_ = kubeconfig;
    Result<Json> crd = api::CustomResourceDefinition("NodePlan");
    ASSERT_TRUE(crd.ok()) << crd.status().ToString();
    Apply(DumpJson(*crd));
    Kubectl("wait --for=condition=Established --timeout=30s crd/nodeplans.paceline.dev");
    Apply(kManifest);
    StartAgent();
  }

  void TearDown() override {
    if (!kubeconfig_.empty()) EndAll();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void EndAll() {
    Kubectl("delete pod --ignore-not-found --wait=false scratch-memory scratch-disk scratch-bad");
    for (const char* pod : {"scratch-memory", "scratch-disk", "scratch-bad"}) AwaitGone(pod);
    Signal("TERM");
    AwaitEnd();
    Kubectl("delete csidriver csi.paceline.dev --ignore-not-found");
    Kubectl("delete nodeplan n1 --ignore-not-found");
  }

  void Apply(const std::string& manifest) {
    const std::string file = folder_ + "/manifest.yaml";
    WriteTextFile(file, manifest);
    const Output output = Kubectl("apply -f " + file);
    ASSERT_EQ(output.code, 0) << output.text;
  }

  void StartAgent() {
    const std::string script = folder_ + "/agent.sh";
    WriteTextFile(script, "#!/bin/sh\necho $$ > /run/paceline-agent.pid\nexec " PACELINE_AGENT
                          " --node-name n1 --kubeconfig " +
                              kubeconfig_ +
                              " --metrics-port 19464 --stage-period 500ms --clean-up-period 5s --log-level debug >> " +
                              folder_ + "/agent.log 2>&1\n");
    const std::string testbed = std::string(PACELINE_SOURCE_DIR) + "/scripts/testbed";
    const char* arguments[] = {testbed.c_str(), "exec", "n1", "--", "sh", script.c_str(), nullptr};
    ASSERT_EQ(posix_spawn(&agent_, testbed.c_str(), nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
    ASSERT_TRUE(Eventually([&] { return InNode("curl -sf http://127.0.0.1:19464/readyz").code == 0; }))
        << ReadTextFile(folder_ + "/agent.log");
  }

  static void Signal(const std::string& name) {
    InNode("sh -c \"kill -" + name + " \\$(cat /run/paceline-agent.pid)\"");
  }

  // The exit code of the agent, or -1 when it was killed.
  int AwaitEnd() {
    if (agent_ < 0) return -1;
    int status = 0;
    waitpid(agent_, &status, 0);
    agent_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Looks every half second, for at most a minute.
  bool Eventually(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::After(clock_, std::chrono::minutes(1));
    while (!condition()) {
      if (deadline.Expired(clock_)) return false;
      clock_.SleepFor(std::chrono::milliseconds(500), {});
    }
    return true;
  }

  bool AwaitGone(const std::string& pod) {
    return Eventually([&] { return Kubectl("get pod " + pod).text.find("NotFound") != std::string::npos; });
  }

  static Json Node() {
    Result<Json> node = ParseJson(InNode("curl -s http://127.0.0.1:19464/v1/node").text);
    return node.ok() ? *node : Json();
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(Eventually([] {
      return InNode(
                 "sh -c \"ls /var/lib/paceline/volumes /var/lib/paceline/scratch /var/lib/paceline/scratch-trash; "
                 "true\"")
                 .text.find("csi-") == std::string::npos;
    }));
    EXPECT_THAT(InNode("cat /proc/self/mounts").text, ::testing::Not(HasSubstr("kubernetes.io~csi/work")));
  }

  RealClock clock_;
  const std::string folder_ = MakeTemporaryFolder();
  std::string kubeconfig_;
  pid_t agent_ = -1;
};

TEST_F(AgentOnNode, PodsGetTheirVolumeAndKeepItOverAKill) {
  Apply(PodManifest("scratch-memory", "{type: scratch, medium: Memory, size: 1Mi}") + "---\n" +
        PodManifest("scratch-disk", "{type: scratch}"));
  for (const char* pod : {"scratch-memory", "scratch-disk"}) {
    const Output ready = Kubectl(std::string("wait --for=condition=Ready --timeout=50s pod/") + pod);
    ASSERT_EQ(ready.code, 0) << ready.text << Kubectl(std::string("describe pod ") + pod).text
                             << ReadTextFile(folder_ + "/agent.log");
  }
  EXPECT_EQ(Kubectl("exec scratch-memory -- cat /scratch/file").text, "kept\n");
  EXPECT_THAT(Kubectl("exec scratch-memory -- grep /scratch /proc/mounts").text, HasSubstr("size=1024k"));

  // What the operator reads: the stage that each pod wrote, in the node's plan.
  EXPECT_TRUE(Eventually([] {
    const std::string text = Kubectl("get nodeplan n1 -o json").text;
    const size_t first = text.find("first_step");
    return first != std::string::npos && text.find("first_step", first + 1) != std::string::npos;
  })) << Kubectl("get nodeplan n1 -o yaml").text;
  const Json plan = ParseJson(Kubectl("get nodeplan n1 -o json").text).value_or(Json());
  EXPECT_EQ(JsonInt(plan, "status.observedGeneration").value_or(-1), 1);
  EXPECT_EQ(JsonString(plan, "status.images.0.state").value_or(""), "Failed");
  EXPECT_NE(JsonString(plan, "status.facts.containerd").value_or(""), "");
  EXPECT_EQ(JsonString(Node(), "driver").value_or(""), "Registered");
  EXPECT_NE(JsonString(Node(), "volumes.1.publishedAt").value_or(""), "");

  Signal("KILL");
  AwaitEnd();
  EXPECT_EQ(Kubectl("exec scratch-disk -- cat /scratch/file").text, "kept\n") << "no agent, and the volume stays";
  Kubectl("delete pod scratch-memory --wait=false");  // its end waits for the next agent
  StartAgent();
  EXPECT_TRUE(AwaitGone("scratch-memory"));
  EXPECT_EQ(Kubectl("exec scratch-disk -- cat /scratch/file").text, "kept\n");
  EXPECT_EQ(Kubectl("exec scratch-disk -- sh -c \"echo more >> /scratch/file\"").code, 0);
  Kubectl("delete pod scratch-disk --wait=false");
  EXPECT_TRUE(AwaitGone("scratch-disk"));
  ExpectNothingLeft();
}

TEST_F(AgentOnNode, TellsThePodWhatIsWrongWithItsVolume) {
  Apply(PodManifest("scratch-bad", "{type: hdfs9}"));
  EXPECT_TRUE(Eventually([] {
    return Kubectl("get events --field-selector involvedObject.name=scratch-bad").text.find("known types: scratch") !=
           std::string::npos;
  })) << Kubectl("get events").text;
}

TEST_F(AgentOnNode, StopsCleanly) {
  Signal("TERM");
  EXPECT_EQ(AwaitEnd(), 0) << ReadTextFile(folder_ + "/agent.log");
  EXPECT_NE(InNode("test -e /var/lib/kubelet/plugins_registry/csi.paceline.dev-reg.sock").code, 0);
  StartAgent();
}

}  // namespace
}  // namespace paceline::agent
