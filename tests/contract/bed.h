// What the contract suite runs against: the fake API server, or a real one. Each test gets a bed of its own with a
// fresh namespace. The real one is used when PACELINE_KUBECONFIG (or KUBECONFIG) names a kubeconfig with full rights.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/kube/client.h"
#include "lib/kube/config.h"
#include "lib/net/http.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"

namespace paceline::contract {

using kube::Client;
using kube::Json;
using kube::ObjectKey;
using kube::Resource;

enum class ServerKind { kFake, kReal };

// A custom resource that the suite defines: spec is free, status.conditions merges by type.
inline const Resource kWidgets{"contract.paceline.dev", "v1", "widgets", "Widget", true};

class ContractTest : public ::testing::TestWithParam<ServerKind> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // One more connection to the server; lives as long as the test.
  net::HttpTransport& Connect();
  std::unique_ptr<Client> NewClient();
  // Makes the fake send its bookmarks now; a real server does so in its own time.
  void ProvokeBookmark();
  // Defines kWidgets and waits until it is served.
  void DefineWidgets();
  // Creates a pod that no kubelet will ever start; waits for the namespace's service account.
  Result<Json> CreatePod(Json pod);

  Deadline Soon() const { return Deadline::After(clock_, std::chrono::seconds(30)); }
  // Looks again and again until `is_met`; false when that takes more than `limit`.
  bool Eventually(const std::function<bool()>& is_met, Duration limit = std::chrono::seconds(30));

  Json ConfigMap(const std::string& name, Json data = Json::object(), Json labels = Json::object()) const;
  Json Widget(const std::string& name, Json spec = Json::object()) const;
  ObjectKey Key(const std::string& name) const { return {ns_, name}; }

  RealClock clock_;
  fakes::CaptureLog log_;
  std::unique_ptr<MetricsRegistry> metrics_ = MetricsRegistry::Create();
  std::string ns_;
  std::unique_ptr<Client> client_;
  kube::KubeConfig config_;  // of the real server

 private:
  std::unique_ptr<fakes::ApiServer> fake_;
  std::vector<std::unique_ptr<net::HttpTransport>> transports_;
};

std::string ServerName(const ::testing::TestParamInfo<ServerKind>& info);

}  // namespace paceline::contract

#define PACELINE_CONTRACT(Suite) \
  INSTANTIATE_TEST_SUITE_P(Server, Suite, ::testing::Values(ServerKind::kFake, ServerKind::kReal), ServerName)
