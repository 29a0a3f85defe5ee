// A webhook of ours called by a real API server, with certificates that are renewed under load.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "lib/base/unique_fd.h"
#include "lib/kube/webhook.h"
#include "lib/kube/webhook_certificates.h"
#include "lib/net/url.h"
#include "tests/contract/bed.h"

namespace paceline::contract {
namespace {

using namespace std::chrono_literals;

// The address under which the API server can reach this process: the local end of a route to it. No packet is sent.
Result<std::string> AddressTowards(const std::string& server) {
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(server));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(url.host.c_str(), "443", &hints, &found) != 0) return UnavailableError("no address of " + url.host);
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int connected = connect(fd.get(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (connected != 0) return ErrnoStatus(errno, "connect");
  sockaddr_in local{};
  socklen_t size = sizeof local;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return ErrnoStatus(errno, "getsockname");
  char text[INET_ADDRSTRLEN];
  return std::string(inet_ntop(AF_INET, &local.sin_addr, text, sizeof text));
}

// The webhook needs a server that calls it: real only.
class WebhookContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    Result<std::string> address = AddressTowards(config_.server);
    ASSERT_TRUE(address.ok()) << address.status().ToString();
    address_ = *address;
    MakeSecret();
    StartServer();
    MakeConfiguration();
  }
  void TearDown() override {
    if (client_ != nullptr && !ns_.empty())
      client_->Delete(kube::kMutatingWebhooks, {"", ns_}, {}, Soon()).IgnoreError();
    if (server_ != nullptr) server_->Shutdown(1s);
    ContractTest::TearDown();
  }

  void MakeSecret() {
    const Json secret = {
        {"apiVersion", "v1"}, {"kind", "Secret"}, {"metadata", {{"name", "cert"}, {"namespace", ns_}}}};
    ASSERT_TRUE(client_->Create(kube::kSecrets, secret, {}, Soon()).ok());
  }

  void StartServer() {
    certificates_ = kube::WebhookCertificates::Create({.ns = ns_,
                                                       .secret_name = "cert",
                                                       .configurations = {ns_},
                                                       .dns_names = {"webhook.contract"},
                                                       .ip_addresses = {address_},
                                                       .trust_delay = 3s},
                                                      *client_, clock_, log_.logger());
    // The configuration is not there yet, so its part fails; the Secret is written.
    EXPECT_EQ(certificates_->Renew(Soon()).status().code(), StatusCode::kNotFound);
    ASSERT_TRUE(certificates_->Read(Soon()).ok());
    auto tls = std::make_unique<net::ServerTls>();
    tls->load = [this] { return certificates_->Current(); };
    tls->reload_period = 100ms;
    auto handler = kube::NewAdmissionHandler(
        "/mutate",
        [this](const kube::AdmissionRequest& request, Deadline) -> Result<kube::AdmissionResponse> {
          ++calls_;
          if (request.is_dry_run) ++dry_runs_;
          kube::AdmissionResponse response;
          response.patch = std::make_shared<Json>(
              Json::array({{{"op", "add"}, {"path", "/metadata/annotations"}, {"value", {{"seen-in", request.ns}}}}}));
          response.warnings = {"contract warning"};
          return response;
        },
        clock_, log_.logger(), *metrics_);
    auto server = net::HttpServer::Start({.threads = 2}, {{"/mutate", handler}}, std::move(tls), clock_, log_.logger());
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
  }

  void MakeConfiguration() {
    const std::string url = "https://" + address_ + ":" + std::to_string(server_->port()) + "/mutate";
    const Json webhook = {{"name", "contract.paceline.dev"},
                          {"clientConfig", {{"url", url}}},
                          {"rules",
                           {{{"apiGroups", {""}},
                             {"apiVersions", {"v1"}},
                             {"operations", {"CREATE"}},
                             {"resources", {"pods"}},
                             {"scope", "Namespaced"}}}},
                          {"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", ns_}}}}},
                          {"failurePolicy", "Fail"},  // so that a lost admission shows
                          {"sideEffects", "None"},
                          {"timeoutSeconds", 5},
                          {"admissionReviewVersions", {"v1"}}};
    const Json configuration = {{"apiVersion", kube::kMutatingWebhooks.ApiVersion()},
                                {"kind", kube::kMutatingWebhooks.kind},
                                {"metadata", {{"name", ns_}}},
                                {"webhooks", Json::array({webhook})}};
    const Status made = client_->Create(kube::kMutatingWebhooks, configuration, {}, Soon()).status();
    ASSERT_TRUE(made.ok()) << made.ToString();
    const auto renewed = certificates_->Renew(Soon());
    ASSERT_TRUE(renewed.ok()) << renewed.status().ToString();
    // The API server notices the configuration and the CA within about a second.
    ASSERT_TRUE(Eventually([this] { return DryRunPod().ok(); })) << DryRunPod().ToString();
  }

  // Ok when a pod went through the webhook.
  Status DryRunPod() {
    const Json pod = {{"apiVersion", "v1"},
                      {"kind", "Pod"},
                      {"metadata", {{"name", "probe"}, {"namespace", ns_}}},
                      {"spec", {{"schedulerName", "nobody"}, {"containers", {{{"name", "main"}, {"image", "none"}}}}}}};
    kube::WriteOptions options;
    options.dry_run = true;
    ASSIGN_OR_RETURN(const Json made, client_->Create(kube::kPods, pod, options, Soon()));
    if (!made["metadata"].contains("annotations")) return InternalError("not mutated");
    if (made["metadata"].value("annotations", Json::object()).value("seen-in", "") != ns_)
      return InternalError("wrong namespace");
    return Status();
  }

  std::string address_;
  std::unique_ptr<kube::WebhookCertificates> certificates_;
  std::unique_ptr<net::HttpServer> server_;
  std::atomic<int> calls_ = 0;
  std::atomic<int> dry_runs_ = 0;
};

TEST_P(WebhookContract, IsCalledForPodsAndItsPatchIsApplied) {
  const Result<Json> pod = CreatePod({{"metadata", {{"generateName", "p-"}}}});
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  EXPECT_EQ((*pod)["metadata"]["annotations"]["seen-in"], ns_);
  EXPECT_GT(dry_runs_, 0);
  EXPECT_GT(calls_, dry_runs_);
}

TEST_P(WebhookContract, NoAdmissionIsLostWhileTheCaIsRenewed) {
  std::atomic<bool> is_done = false;
  std::atomic<int> admitted = 0;
  std::atomic<bool> has_failed = false;
  Status first_failure;
  std::thread admissions([&] {
    while (!is_done) {
      if (Status status = DryRunPod(); !status.ok()) {
        first_failure = status;
        has_failed = true;
        return;
      }
      ++admitted;
    }
  });
  for (int round = 0; round < 2; ++round) {
    const std::string before = certificates_->Current()->certificate_chain;
    certificates_->RequestNewCa();
    auto renewed = certificates_->Renew(Soon());
    EXPECT_TRUE(renewed.ok()) << renewed.status().ToString();
    EXPECT_EQ(*renewed, kube::RenewResult::kCaStaged);
    EXPECT_TRUE(Eventually([&] {
      renewed = certificates_->Renew(Soon());
      return renewed.ok() && *renewed == kube::RenewResult::kRenewed;
    }));
    EXPECT_NE(certificates_->Current()->certificate_chain, before);
    const int so_far = admitted;
    EXPECT_TRUE(Eventually([&] { return admitted > so_far + 20 || has_failed; }));
  }
  is_done = true;
  admissions.join();
  EXPECT_TRUE(first_failure.ok()) << first_failure.ToString() << " after " << admitted;
  EXPECT_GT(admitted, 40);
}

INSTANTIATE_TEST_SUITE_P(Server, WebhookContract, ::testing::Values(ServerKind::kReal), ServerName);

}  // namespace
}  // namespace paceline::contract
