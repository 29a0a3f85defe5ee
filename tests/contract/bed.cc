#include "tests/contract/bed.h"

#include <unistd.h>

#include <cstdlib>

#include "lib/kube/rest_client.h"

namespace paceline::contract {
namespace {

using namespace std::chrono_literals;

std::string RealKubeconfig() {
  for (const char* name : {"PACELINE_KUBECONFIG", "KUBECONFIG"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

Json WidgetDefinition() {
  const Json open = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
  const Json conditions = {{"type", "array"},
                           {"x-kubernetes-list-type", "map"},
                           {"x-kubernetes-list-map-keys", {"type"}},
                           {"items",
                            {{"type", "object"},
                             {"required", {"type"}},
                             {"x-kubernetes-preserve-unknown-fields", true},
                             {"properties", {{"type", {{"type", "string"}}}}}}}};
  Json status = open;
  status["properties"]["conditions"] = conditions;
  const Json schema = {{"type", "object"}, {"properties", {{"spec", open}, {"status", status}}}};
  const Json version = {{"name", kWidgets.version},
                        {"served", true},
                        {"storage", true},
                        {"subresources", {{"status", Json::object()}}},
                        {"schema", {{"openAPIV3Schema", schema}}}};
  return {
      {"apiVersion", kube::kCustomResourceDefinitions.ApiVersion()},
      {"kind", kube::kCustomResourceDefinitions.kind},
      {"metadata", {{"name", kWidgets.plural + "." + kWidgets.group}}},
      {"spec",
       {{"group", kWidgets.group},
        {"scope", "Namespaced"},
        {"names",
         {{"plural", kWidgets.plural}, {"singular", "widget"}, {"kind", kWidgets.kind}, {"listKind", "WidgetList"}}},
        {"versions", Json::array({version})}}}};
}

}  // namespace

void ContractTest::SetUp() {
  if (GetParam() == ServerKind::kFake) {
    fake_ = std::make_unique<fakes::ApiServer>(clock_);
  } else {
    const std::string path = RealKubeconfig();
    if (path.empty()) GTEST_SKIP() << "no real API server: neither PACELINE_KUBECONFIG nor KUBECONFIG is set";
    Result<kube::KubeConfig> config = kube::LoadKubeConfig({.kubeconfig = path});
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    config_ = *std::move(config);
  }
  client_ = NewClient();
  const Json made =
      client_
          ->Create(kube::kNamespaces,
                   {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"generateName", "contract-"}}}}, {},
                   Soon())
          .value();
  ns_ = made["metadata"]["name"];
}

void ContractTest::TearDown() {
  if (client_ != nullptr && !ns_.empty()) client_->Delete(kube::kNamespaces, {"", ns_}, {}, Soon()).IgnoreError();
  client_.reset();
  transports_.clear();
}

net::HttpTransport& ContractTest::Connect() {
  if (fake_ != nullptr) {
    transports_.push_back(fake_->Connect());
  } else {
    Result<std::unique_ptr<net::HttpTransport>> transport = kube::NewApiTransport(config_, {}, *metrics_, clock_);
    EXPECT_TRUE(transport.ok()) << transport.status().ToString();
    transports_.push_back(*std::move(transport));
  }
  return *transports_.back();
}

std::unique_ptr<Client> ContractTest::NewClient() { return kube::NewRestClient(Connect(), clock_); }

void ContractTest::ProvokeBookmark() {
  if (fake_ != nullptr) fake_->SendBookmarks();
}

void ContractTest::DefineWidgets() {
  const Status defined = client_->Create(kube::kCustomResourceDefinitions, WidgetDefinition(), {}, Soon()).status();
  ASSERT_TRUE(defined.ok() || defined.code() == StatusCode::kAlreadyExists) << defined.ToString();
  // Established comes a moment before the resource is really served.
  ASSERT_TRUE(Eventually([this] {
    kube::WriteOptions dry_run;
    dry_run.dry_run = true;
    return client_->Create(kWidgets, Widget("probe"), dry_run, Soon()).ok();
  }));
}

Result<Json> ContractTest::CreatePod(Json pod) {
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"]["namespace"] = ns_;
  pod["spec"]["schedulerName"] = "nobody";
  pod["spec"]["containers"] = {{{"name", "main"}, {"image", "none"}}};
  Result<Json> made = UnavailableError("not tried");
  Eventually([&] {
    made = client_->Create(kube::kPods, pod, {}, Soon());
    return made.status().code() != StatusCode::kPermissionDenied;  // until there is a service account
  });
  return made;
}

bool ContractTest::Eventually(const std::function<bool()>& is_met, Duration limit) {
  const Deadline deadline = Deadline::After(clock_, limit);
  do {
    if (is_met()) return true;
  } while (!deadline.Expired(clock_) && clock_.SleepFor(50ms, {}));
  return false;
}

Json ContractTest::ConfigMap(const std::string& name, Json data, Json labels) const {
  Json object = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}, {"namespace", ns_}}}};
  if (!data.empty()) object["data"] = std::move(data);
  if (!labels.empty()) object["metadata"]["labels"] = std::move(labels);
  return object;
}

Json ContractTest::Widget(const std::string& name, Json spec) const {
  return {{"apiVersion", kWidgets.ApiVersion()},
          {"kind", kWidgets.kind},
          {"metadata", {{"name", name}, {"namespace", ns_}}},
          {"spec", std::move(spec)}};
}

std::string ServerName(const ::testing::TestParamInfo<ServerKind>& info) {
  return info.param == ServerKind::kFake ? "Fake" : "Real";
}

}  // namespace paceline::contract
