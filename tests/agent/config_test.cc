#include "agent/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

Result<AgentConfig> Parse(std::vector<std::string> args, const std::map<std::string, std::string>& env = {}) {
  AgentConfig config;
  ConfigSpec spec = DescribeAgentConfig(&config);
  ConfigSources sources;
  sources.args = std::move(args);
  sources.env = [&env](const std::string& name) -> std::optional<std::string> {
    auto it = env.find(name);
    if (it == env.end()) return std::nullopt;
    return it->second;
  };
  sources.read_file = [](const std::string& path) -> Result<std::string> { return NotFoundError(path); };
  Result<ParseOutcome> outcome = spec.Parse(sources);
  if (!outcome.ok()) return outcome.status();
  CompleteAgentConfig(&config);
  return config;
}

TEST(AgentConfig, FillsInWhatFollows) {
  Result<AgentConfig> config = Parse({"--kubelet-dir", "/srv/kubelet"}, {{"NODE_NAME", "n1"}});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->node_name, "n1");
  EXPECT_EQ(config->csi_socket, "/srv/kubelet/plugins/csi.paceline.dev/csi.sock");
  EXPECT_EQ(config->registration_socket, "/srv/kubelet/plugins_registry/csi.paceline.dev-reg.sock");
  EXPECT_EQ(config->metrics_port, 9464);
  EXPECT_EQ(config->heartbeat, std::chrono::minutes(5));
  EXPECT_FALSE(config->uses_plan_file());
}

TEST(AgentConfig, NeedsNoNodeNameWithAPlanFile) {
  Result<AgentConfig> config = Parse({"--plan", "plan.yaml"});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_TRUE(config->uses_plan_file());
  EXPECT_FALSE(config->node_name.empty());
}

TEST(AgentConfig, RefusesWhatCannotWork) {
  const struct {
    std::vector<std::string> args;
    const char* text;
  } cases[] = {
      {{}, "nodeName"},
      {{"--node-name", "n1", "--kubelet-dir", "kubelet"}, "kubeletDir"},
      {{"--node-name", "n1", "--state-dir", "/var/lib/paceline/"}, "stateDir"},
      {{"--node-name", "n1", "--state-dir", "/"}, "stateDir"},
      {{"--node-name", "n1", "--facts-host-root", "host"}, "hostRoot"},
      {{"--node-name", "n1", "--metrics-port", "70000"}, "metrics-port"},
      {{"--node-name", "n1", "--heartbeat", "0s"}, "heartbeat"},
      {{"--node-name", "n1", "--dependencies-require-signatures"}, "dependencies.signingKey"},
      {{"--plan", "p", "--kubeconfig", "k"}, "give one of the two"},
      {{"--node-name", "n1", "--no-such-flag", "x"}, "no-such-flag"},
  };
  for (const auto& c : cases) {
    Result<AgentConfig> config = Parse(c.args);
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(config.status().message(), HasSubstr(c.text));
  }
}

}  // namespace
}  // namespace paceline::agent
