// Tests of lib/kube/config.h and lib/kube/config_auth.h.
#include "lib/kube/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/kube/config_auth.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class ConfigTest : public testing::Test {
 public:
  ~ConfigTest() override { fs::remove_all(folder_); }

 protected:
  ConfigTest() : folder_(fs::path(testing::TempDir()) / ("kube_config_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    options_.getenv = [this](const char* name) { return env_[name]; };
    options_.root = (folder_ / "root").string();
  }

  std::string Write(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  const fs::path folder_;
  std::map<std::string, std::string> env_;
  LoadOptions options_;
};

constexpr char kFull[] = R"(
apiVersion: v1
kind: Config
current-context: two
clusters:
- name: c1
  cluster: {server: "https://c1:6443", certificate-authority-data: "UEVNIQ=="}
- name: c2
  cluster:
    server: https://c2:6443
    certificate-authority: pki/ca.crt
    tls-server-name: kubernetes.default.svc
    proxy-url: http://proxy:3128
contexts:
- name: one
  context: {cluster: c1, user: u1}
- name: two
  context: {cluster: c2, user: u2, namespace: training}
users:
- name: u1
  user: {token: secret, as: jane, as-groups: [devs]}
- name: u2
  user: {client-certificate: /abs/client.crt, client-key: client.key}
)";

TEST_F(ConfigTest, ReadsTheCurrentContext) {
  options_.kubeconfig = Write("full", kFull);
  const auto config = LoadKubeConfig(options_);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->server, "https://c2:6443");
  EXPECT_EQ(config->ns, "training");
  EXPECT_EQ(config->ca.path, (folder_ / "pki/ca.crt").string());
  EXPECT_EQ(config->client_certificate.path, "/abs/client.crt");
  EXPECT_EQ(config->client_key.path, (folder_ / "client.key").string());
  EXPECT_EQ(config->tls_server_name, "kubernetes.default.svc");
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
}

TEST_F(ConfigTest, TheContextCanBeChosen) {
  options_.kubeconfig = Write("full", kFull);
  options_.context = "one";
  const auto config = LoadKubeConfig(options_);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->ca.data, "PEM!");
  EXPECT_EQ(config->token, "secret");
  EXPECT_EQ(config->impersonate_user, "jane");
  options_.context = "three";
  EXPECT_EQ(LoadKubeConfig(options_).status().message(), "kubeconfig: no entry named \"three\" in contexts");
}

TEST_F(ConfigTest, MergesTheFilesOfKubeconfigFirstOneWinning) {
  const std::string first =
      Write("a/first",
            "clusters: [{name: c1, cluster: {server: 'https://first', certificate-authority: x}}]\n"
            "contexts: [{name: one, context: {cluster: c1, user: u1}}]\n");
  env_["KUBECONFIG"] = first + ":" + (folder_ / "missing").string() + ":" + Write("b/second", kFull);
  options_.context = "one";
  const auto config = LoadKubeConfig(options_);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->server, "https://first");
  EXPECT_EQ(config->token, "secret");  // from the second file
  EXPECT_EQ(config->ca.path, (folder_ / "a/x").string());
}

TEST_F(ConfigTest, LooksInTheHomeFolderThenInThePod) {
  EXPECT_EQ(LoadKubeConfig(options_).status().code(), StatusCode::kNotFound);
  env_["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  env_["KUBERNETES_SERVICE_PORT"] = "443";
  EXPECT_EQ(LoadKubeConfig(options_).status().code(), StatusCode::kNotFound);  // no token
  Write("root/var/run/secrets/kubernetes.io/serviceaccount/token", "t1\n");
  Write("root/var/run/secrets/kubernetes.io/serviceaccount/namespace", "paceline-system\n");
  const auto pod = LoadKubeConfig(options_);
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  EXPECT_EQ(pod->server, "https://[fd00::1]:443");
  EXPECT_EQ(pod->ns, "paceline-system");
  Write("home/.kube/config", kFull);
  env_["HOME"] = (folder_ / "home").string();
  EXPECT_EQ(LoadKubeConfig(options_)->server, "https://c2:6443");
}

TEST_F(ConfigTest, SaysWhatIsWrongWithAFile) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"- a\n", "not a kubeconfig"},
      {"{", "end of map"},
      {"clusters: []\n", "no current-context"},
      {"current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n", "no entry named \"b\" in clusters"},
      {"current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: [{name: b, cluster: {}}]\n",
       "has no server"},
      {"current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: [{name: b, cluster: {server: x, "
       "certificate-authority-data: '%'}}]\n",
       "certificate-authority-data"},
      {"current-context: a\ncontexts: [{name: a, context: {cluster: b, user: u}}]\nclusters: [{name: b, cluster: "
       "{server: x}}]\n"
       "users: [{name: u, user: {exec: {command: x, apiVersion: v0}}}]\n",
       "exec apiVersion"},
  };
  for (const auto& c : cases) {
    options_.kubeconfig = Write("broken", c.text);
    const Status status = LoadKubeConfig(options_).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << status.ToString();
  }
  options_.kubeconfig = (folder_ / "missing").string();
  EXPECT_EQ(LoadKubeConfig(options_).status().code(), StatusCode::kNotFound);
}

TEST_F(ConfigTest, ATokenFileIsReadAgainEachMinuteAndWhenRefused) {
  fakes::SimulatedClock clock;
  KubeConfig config;
  config.token_file = Write("token", "one\n");
  const auto credentials = *Credentials::Create(config, clock);
  const auto token = [&](bool was_rejected) {
    net::Headers headers;
    EXPECT_TRUE(credentials->Authorize(headers, was_rejected).ok());
    return headers["Authorization"];
  };
  EXPECT_EQ(token(false), "Bearer one");
  Write("token", "two");
  EXPECT_EQ(token(false), "Bearer one");
  clock.Advance(61s);
  EXPECT_EQ(token(false), "Bearer two");
  Write("token", "three");
  EXPECT_EQ(token(true), "Bearer three");
  fs::remove(config.token_file);
  clock.Advance(61s);
  EXPECT_EQ(token(false), "Bearer three");  // most likely still good
  net::Headers headers;
  EXPECT_EQ(credentials->Authorize(headers, /*was_rejected=*/true).code(), StatusCode::kNotFound);
}

class PluginTest : public ConfigTest {
 protected:
  // A plugin that counts its runs in a file and prints `output`, in which RUN is the count.
  std::shared_ptr<Credentials> Plugin(const std::string& output, const std::string& more = "") {
    const std::string path =
        Write("plugin.sh", "#!/bin/sh\necho run >> " + (folder_ / "runs").string() + "\n" + more + "\nn=$(wc -l < " +
                               (folder_ / "runs").string() + ")\ncat <<EOF\n" + output + "\nEOF\n");
    ::chmod(path.c_str(), 0755);
    options_.kubeconfig = Write("kubeconfig", R"(
current-context: a
clusters: [{name: c, cluster: {server: "https://c", certificate-authority-data: "UEVNIQ=="}}]
contexts: [{name: a, context: {cluster: c, user: u}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./plugin.sh
      args: [get]
      env: [{name: EXTRA, value: more}]
      provideClusterInfo: true
      installHint: install it
      interactiveMode: Never
)");
    auto config = LoadKubeConfig(options_);
    EXPECT_TRUE(config.ok()) << config.status().ToString();
    return *Credentials::Create(*config, clock_);
  }

  fakes::SimulatedClock clock_;
};

TEST_F(PluginTest, RunsWhenNeededAndKeepsWhatItGot) {
  const auto credentials =
      Plugin(R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
    "status":{"token":"t$n","expirationTimestamp":"2026-01-02T04:00:00Z"}})",
             "test \"$1$EXTRA\" = getmore && echo $KUBERNETES_EXEC_INFO | grep -q UEVNIQ== || exit 1");
  net::Headers headers;
  for (const auto& [rejected, token] :
       std::vector<std::pair<bool, std::string>>{{false, "t1"}, {false, "t1"}, {true, "t2"}}) {
    const Status status = credentials->Authorize(headers, rejected);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(headers["Authorization"], "Bearer " + token);
  }
  clock_.StepWall(1h);  // past the expiration
  ASSERT_TRUE(credentials->Authorize(headers, false).ok());
  EXPECT_EQ(headers["Authorization"], "Bearer t3");
}

TEST_F(PluginTest, GivesCertificatesAndYamlToo) {
  const auto credentials = Plugin(
      "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus:\n  clientCertificateData: CERT\n  "
      "clientKeyData: KEY");
  EXPECT_EQ(*credentials->ClientCertificate(), "CERT");
  EXPECT_EQ(*credentials->ClientKey(), "KEY");
  net::Headers headers;
  ASSERT_TRUE(credentials->Authorize(headers, false).ok());
  EXPECT_TRUE(headers.empty());
}

TEST_F(PluginTest, FailuresSayWhatToDo) {
  net::Headers headers;
  Status status = Plugin("{}", "echo no login >&2; exit 3")->Authorize(headers, false);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("exit status 3: no login (install it)"), std::string::npos) << status.ToString();
  EXPECT_FALSE(Plugin("{}")->Authorize(headers, false).ok());
  EXPECT_FALSE(Plugin("secret: [")->Authorize(headers, false).ok());
}

TEST_F(ConfigTest, RefusesWhatCannotWork) {
  fakes::SimulatedClock clock;
  KubeConfig half;
  half.client_key.data = "KEY";
  EXPECT_EQ(Credentials::Create(half, clock).status().code(), StatusCode::kInvalidArgument);
  KubeConfig interactive;
  interactive.exec = ExecPlugin{.command = "x", .is_interactive = true};
  EXPECT_EQ(Credentials::Create(interactive, clock).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline::kube
