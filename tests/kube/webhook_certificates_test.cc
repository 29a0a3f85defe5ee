#include "lib/kube/webhook_certificates.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/base64.h"
#include "lib/kube/rest_client.h"
#include "lib/net/tls_certificates.h"
#include "tests/fakes/api_server.h"
#include "tests/fakes/capture_log.h"
#include "tests/fakes/simulated_clock.h"

namespace paceline::kube {
namespace {

using namespace std::chrono_literals;
constexpr Duration kDay = 24h;

const ObjectKey kSecretKey{"paceline", "webhook-cert"};
const ObjectKey kConfiguration{"", "paceline-pods"};

class WebhookCertificatesTest : public ::testing::Test {
 protected:
  WebhookCertificatesTest() {
    server_.Put(kSecrets, {{"metadata", {{"name", kSecretKey.name}, {"namespace", kSecretKey.ns}}}});
    server_.Put(kMutatingWebhooks,
                {{"metadata", {{"name", kConfiguration.name}}},
                 {"webhooks",
                  {{{"name", "pods.paceline.dev"}, {"clientConfig", {{"service", {{"name", "operator"}}}}}},
                   {{"name", "jobs.paceline.dev"}, {"clientConfig", {{"url", "https://x"}, {"caBundle", "b2xk"}}}}}}});
  }

  std::unique_ptr<WebhookCertificates> Replica() {
    return WebhookCertificates::Create(options_, *client_, clock_, log_.logger());
  }
  RenewResult Renew(WebhookCertificates& certificates) {
    auto result = certificates.Renew(Deadline::After(clock_, 10s));
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.value_or(RenewResult::kNothingToDo);
  }
  std::string Data(const char* name) {
    return DecodeBase64(server_.Find(kSecrets, kSecretKey).value()["data"].value(name, "")).value();
  }
  // The bundle that the API server trusts, the same in both webhooks.
  std::string Trusted() {
    const Json webhooks = server_.Find(kMutatingWebhooks, kConfiguration).value()["webhooks"];
    EXPECT_EQ(webhooks[0]["clientConfig"]["caBundle"], webhooks[1]["clientConfig"]["caBundle"]);
    return DecodeBase64(webhooks[0]["clientConfig"]["caBundle"].get<std::string>()).value();
  }
  static size_t CountCas(const std::string& bundle) {
    size_t count = 0;
    for (size_t at = bundle.find("BEGIN CERT"); at != std::string::npos; at = bundle.find("BEGIN CERT", at + 1))
      ++count;
    return count;
  }
  // What every admission needs at this moment: the served leaf verifies against what is trusted.
  void ExpectAdmissionsWork(const WebhookCertificates& replica, const char* when) {
    const Result<net::TlsPair> pair = replica.Current();
    ASSERT_TRUE(pair.ok()) << when << ": " << pair.status().ToString();
    const Status verified = net::VerifyIssuedBy(pair->certificate_chain, Trusted(), clock_.WallNow());
    EXPECT_TRUE(verified.ok()) << when << ": " << verified.ToString();
  }

  fakes::SimulatedClock clock_;
  fakes::ApiServer server_{clock_};
  fakes::CaptureLog log_;
  std::unique_ptr<net::HttpTransport> transport_ = server_.Connect();
  std::unique_ptr<Client> client_ = NewRestClient(*transport_, clock_);
  WebhookCertificateOptions options_{.ns = kSecretKey.ns,
                                     .secret_name = kSecretKey.name,
                                     .configurations = {kConfiguration.name},
                                     .dns_names = {"operator.paceline.svc", "operator.paceline.svc.cluster.local"}};
};

TEST_F(WebhookCertificatesTest, FirstRenewMakesEverythingAndTheSecondNothing) {
  auto leader = Replica();
  auto follower = Replica();
  EXPECT_FALSE(follower->IsReady());
  EXPECT_EQ(follower->Current().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(follower->Read(Deadline::After(clock_, 10s)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);
  ExpectAdmissionsWork(*leader, "leader");
  ASSERT_TRUE(follower->Read(Deadline::After(clock_, 10s)).ok());
  ExpectAdmissionsWork(*follower, "follower");
  const auto info = net::ParseCertificate(Data("tls.crt"));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->dns_names, options_.dns_names);
  EXPECT_NEAR(ToSeconds(info->not_after - clock_.WallNow()), ToSeconds(365 * kDay), 600);
  const auto ca = net::ParseCertificate(Data("ca.crt"));
  EXPECT_NEAR(ToSeconds(ca->not_after - clock_.WallNow()), ToSeconds(3650 * kDay), 600);
  server_.ForgetRequests();
  EXPECT_EQ(Renew(*leader), RenewResult::kNothingToDo);
  for (const std::string& request : server_.Requests()) EXPECT_EQ(request.rfind("GET", 0), 0u) << request;
}

TEST_F(WebhookCertificatesTest, LeafIsRenewedNinetyDaysBeforeItsEndWithoutTouchingTrust) {
  auto leader = Replica();
  Renew(*leader);
  const std::string first = Data("tls.crt");
  const std::string trusted = Trusted();
  clock_.Advance(274 * kDay);
  EXPECT_EQ(Renew(*leader), RenewResult::kNothingToDo);
  clock_.Advance(2 * kDay);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);
  EXPECT_NE(Data("tls.crt"), first);
  EXPECT_EQ(Trusted(), trusted);
  ExpectAdmissionsWork(*leader, "after renewal");
}

TEST_F(WebhookCertificatesTest, NewCaIsTrustedBeforeItsFirstLeafIsServed) {
  auto leader = Replica();
  auto follower = Replica();
  Renew(*leader);
  ASSERT_TRUE(follower->Read(Deadline::After(clock_, 10s)).ok());
  const std::string old_leaf = Data("tls.crt");

  leader->RequestNewCa();
  EXPECT_EQ(Renew(*leader), RenewResult::kCaStaged);
  EXPECT_EQ(Data("tls.crt"), old_leaf) << "API servers may not know the new CA yet";
  EXPECT_EQ(CountCas(Trusted()), 2u);
  ExpectAdmissionsWork(*leader, "staged");
  clock_.Advance(29s);
  EXPECT_EQ(Renew(*leader), RenewResult::kCaStaged);
  clock_.Advance(1s);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);
  EXPECT_NE(Data("tls.crt"), old_leaf);
  EXPECT_EQ(CountCas(Trusted()), 2u) << "a replica may serve the old leaf for a while";
  ExpectAdmissionsWork(*leader, "new leaf");
  ExpectAdmissionsWork(*follower, "follower with the old leaf");
  ASSERT_TRUE(follower->Read(Deadline::After(clock_, 10s)).ok());
  ExpectAdmissionsWork(*follower, "follower with the new leaf");
  EXPECT_EQ(Renew(*leader), RenewResult::kNothingToDo);

  leader->RequestNewCa();
  Renew(*leader);
  EXPECT_EQ(CountCas(Trusted()), 2u) << "the oldest one goes";
}

TEST_F(WebhookCertificatesTest, CaIsRenewedBeforeItsEnd) {
  options_.ca_validity = 500 * kDay;
  auto leader = Replica();
  Renew(*leader);
  clock_.Advance(276 * kDay);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed) << "the leaf";
  clock_.Advance(135 * kDay);
  EXPECT_EQ(Renew(*leader), RenewResult::kCaStaged);
  clock_.Advance(30s);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);
  ExpectAdmissionsWork(*leader, "new CA");
}

TEST_F(WebhookCertificatesTest, NewLeaderFinishesAStagedCa) {
  auto first = Replica();
  Renew(*first);
  first->RequestNewCa();
  ASSERT_EQ(Renew(*first), RenewResult::kCaStaged);
  auto second = Replica();
  EXPECT_EQ(Renew(*second), RenewResult::kCaStaged) << "it cannot know since when the CA is trusted";
  clock_.Advance(30s);
  EXPECT_EQ(Renew(*second), RenewResult::kRenewed);
  ExpectAdmissionsWork(*second, "second leader");
}

TEST_F(WebhookCertificatesTest, MendsTheConfigurationsAndOtherNames) {
  auto leader = Replica();
  Renew(*leader);
  Json wiped = *server_.Find(kMutatingWebhooks, kConfiguration);
  wiped["webhooks"][0]["clientConfig"].erase("caBundle");
  wiped["webhooks"][1]["clientConfig"]["caBundle"] = "";
  server_.Put(kMutatingWebhooks, wiped);
  EXPECT_EQ(Renew(*leader), RenewResult::kNothingToDo);
  ExpectAdmissionsWork(*leader, "mended");

  options_.dns_names.push_back("another.name");
  auto renamed = Replica();
  EXPECT_EQ(Renew(*renamed), RenewResult::kRenewed);
  EXPECT_EQ(net::ParseCertificate(Data("tls.crt"))->dns_names.size(), 3u);
}

TEST_F(WebhookCertificatesTest, BrokenSecretIsMadeAnewAndAReaderKeepsItsLastGoodPair) {
  auto leader = Replica();
  auto follower = Replica();
  Renew(*leader);
  ASSERT_TRUE(follower->Read(Deadline::After(clock_, 10s)).ok());
  const std::string good = follower->Current()->certificate_chain;
  for (const char* field : {"tls.crt", "tls.key", "ca.crt", "ca.key"}) {
    Json broken = *server_.Find(kSecrets, kSecretKey);
    broken["data"][field] = EncodeBase64("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
    server_.Put(kSecrets, broken);
    const Status read = follower->Read(Deadline::After(clock_, 10s));
    EXPECT_EQ(read.ok(), std::string(field).rfind("tls", 0) != 0) << field;
    EXPECT_TRUE(follower->Current().ok());
    RenewResult renewed = Renew(*leader);
    clock_.Advance(30s);
    if (renewed == RenewResult::kCaStaged) renewed = Renew(*leader);
    EXPECT_EQ(renewed, RenewResult::kRenewed) << field;
    ExpectAdmissionsWork(*leader, field);
  }
}

TEST_F(WebhookCertificatesTest, SecondWriterLosesAndMissingObjectsAreNamed) {
  auto leader = Replica();
  bool is_done = false;
  server_.SetRequestHook([&](const net::HttpRequest& request) {
    if (request.method != "PUT" || std::exchange(is_done, true)) return;
    Json raced = *server_.Find(kSecrets, kSecretKey);
    raced["metadata"]["labels"]["raced"] = "yes";
    server_.Put(kSecrets, raced);
  });
  EXPECT_EQ(leader->Renew(Deadline::After(clock_, 10s)).status().code(), StatusCode::kAborted);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);

  options_.configurations.push_back("not-there");
  auto other = Replica();
  const auto missing = other->Renew(Deadline::After(clock_, 10s));
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("not-there"), std::string::npos) << missing.status().ToString();
  options_.secret_name = "no-secret";
  EXPECT_EQ(Replica()->Renew(Deadline::After(clock_, 10s)).status().code(), StatusCode::kNotFound);
}

TEST_F(WebhookCertificatesTest, RunReadsAsAFollowerAndRenewsAsTheLeader) {
  auto follower = Replica();
  auto leader = Replica();
  std::atomic<bool> leads = false;
  std::jthread leading([&](std::stop_token stop) { leader->Run([&] { return leads.load(); }, stop); });
  std::jthread following([&](std::stop_token stop) { follower->Run([] { return false; }, stop); });
  clock_.AwaitTimers(2);
  EXPECT_FALSE(leader->IsReady());
  leads = true;
  clock_.Advance(10s);
  clock_.AwaitTimers(2);
  EXPECT_TRUE(leader->IsReady());
  clock_.Advance(10s);
  clock_.AwaitTimers(2);
  EXPECT_TRUE(follower->IsReady());
  EXPECT_EQ(log_.Count("webhook certificate renewed"), 1u) << log_.Text();

  Json wiped = *server_.Find(kMutatingWebhooks, kConfiguration);
  for (Json& webhook : wiped["webhooks"]) webhook["clientConfig"]["caBundle"] = "";
  server_.Put(kMutatingWebhooks, wiped);
  for (int i = 0; i < 7; ++i) {
    clock_.Advance(10s);
    clock_.AwaitTimers(2);
  }
  ExpectAdmissionsWork(*follower, "a wiped bundle is mended within a minute or so");
}

TEST(TlsPairFromFiles, ReadsWhatIsThereNow) {
  const std::string folder = ::testing::TempDir();
  const std::string certificate = folder + "/pair.crt";
  const std::string key = folder + "/pair.key";
  std::remove(certificate.c_str());
  const auto load = TlsPairFromFiles(certificate, key);
  EXPECT_EQ(load().status().code(), StatusCode::kUnavailable);
  std::ofstream(certificate) << "one";
  std::ofstream(key) << "two";
  EXPECT_EQ(load()->certificate_chain, "one");
  EXPECT_EQ(load()->private_key, "two");
  std::ofstream(certificate) << "three";
  EXPECT_EQ(load()->certificate_chain, "three");
}

// Of the programs that share chunks of images: no webhook knows of it.
TEST_F(WebhookCertificatesTest, ACertificateOfPeersIsForBothEnds) {
  options_.use = CertificateUse::kPeers;
  options_.configurations = {};
  options_.dns_names = {"paceline-peers"};
  options_.trust_delay = 300s;
  auto leader = Replica();
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);
  EXPECT_EQ(Renew(*leader), RenewResult::kNothingToDo);
  const auto info = net::ParseCertificate(Data("tls.crt"));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->common_name, "paceline-peers");
  EXPECT_EQ(info->issuer_common_name, "paceline-peers-ca");
  // A new CA is in everybody's hands before anybody has a leaf by it.
  const std::string first = Data("tls.crt");
  leader->RequestNewCa();
  Renew(*leader);
  EXPECT_EQ(Data("tls.crt"), first);
  EXPECT_TRUE(net::VerifyIssuedBy(first, Data("ca.crt"), clock_.WallNow()).ok());
  clock_.Advance(300s);
  EXPECT_EQ(Renew(*leader), RenewResult::kRenewed);
  EXPECT_NE(Data("tls.crt"), first);
  EXPECT_TRUE(net::VerifyIssuedBy(Data("tls.crt"), Data("ca.crt"), clock_.WallNow()).ok());
}

}  // namespace
}  // namespace paceline::kube
