#include "lib/kube/webhook_certificates.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "lib/base/base64.h"
#include "lib/base/mutex.h"
#include "lib/kube/json_fields.h"
#include "lib/net/tls_certificates.h"

namespace paceline::kube {
namespace {

constexpr const char* kCaCertificate = "ca.crt";  // newest first: the one that signs, then the one before
constexpr const char* kCaKey = "ca.key";
constexpr const char* kLeafCertificate = "tls.crt";
constexpr const char* kLeafKey = "tls.key";
constexpr std::string_view kCaName = "paceline-webhook-ca";
constexpr std::string_view kPeersCaName = "paceline-peers-ca";
constexpr size_t kTrustedCas = 2;
constexpr Duration kCertificateTimeout = std::chrono::seconds(10);
constexpr Duration kRetryDelay = std::chrono::seconds(10);
// An upgrade of the chart may wipe caBundle; the leader looks that often.
constexpr Duration kMendPeriod = std::chrono::minutes(1);

// What the Secret holds, decoded. Empty strings for what is missing.
struct Material {
  std::vector<std::string> cas;
  std::string ca_key;
  net::TlsPair leaf;
};

std::string DataOf(const Json& secret, const char* name) {
  const Json* data = ObjectField(secret, "data");
  return data == nullptr ? "" : DecodeBase64(StringField(*data, name)).value_or("");
}

std::vector<std::string> SplitPem(const std::string& bundle) {
  static constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  std::vector<std::string> parts;
  for (size_t at = bundle.find(kBegin); at != std::string::npos;) {
    const size_t next = bundle.find(kBegin, at + 1);
    parts.push_back(bundle.substr(at, next == std::string::npos ? next : next - at));
    at = next;
  }
  return parts;
}

std::string JoinPem(const std::vector<std::string>& parts) {
  std::string bundle;
  for (const std::string& part : parts) bundle += part + (part.ends_with('\n') ? "" : "\n");
  return bundle;
}

Material MaterialOf(const Json& secret) {
  return {SplitPem(DataOf(secret, kCaCertificate)),
          DataOf(secret, kCaKey),
          {DataOf(secret, kLeafCertificate), DataOf(secret, kLeafKey)}};
}

bool IsSameSet(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

class Certificates final : public WebhookCertificates {
 public:
  Certificates(const WebhookCertificateOptions& options, Client& client, const Clock& clock, Logger& log)
      : options_(options), client_(client), clock_(clock), log_(log), key_{options.ns, options.secret_name} {}

  Result<net::TlsPair> Current() const override {
    MutexLock lock(mutex_);
    if (!current_) return UnavailableError(fmt::format("no certificate in secret {} yet", key_.ToString()));
    return *current_;
  }

  bool IsReady() const override {
    MutexLock lock(mutex_);
    return current_.has_value();
  }

  Status Read(Deadline deadline) override {
    ASSIGN_OR_RETURN(const Material material, Load(deadline));
    return Adopt(material.leaf);
  }

  void RequestNewCa() override { is_new_ca_wanted_ = true; }

  Result<RenewResult> Renew(Deadline deadline) override {
    ASSIGN_OR_RETURN(Json secret, client_.Get(kSecrets, key_, deadline));
    Material material = MaterialOf(secret);
    RenewResult result = RenewResult::kNothingToDo;
    if (NeedsCa(material)) {
      ASSIGN_OR_RETURN(const net::CertificateAndKey ca,
                       net::CreateCa(is_for_peers() ? kPeersCaName : kCaName, options_.ca_validity, clock_));
      material.cas.insert(material.cas.begin(), ca.certificate);
      material.ca_key = ca.private_key;
      DropUselessCas(material);
      // Nothing in use means no admission to lose: CA and leaf in one step.
      if (!IsInUse(material)) RETURN_IF_ERROR(IssueLeaf(material));
      RETURN_IF_ERROR(Store(secret, material, deadline));
      is_new_ca_wanted_ = false;
      trusted_since_.reset();
      result = RenewResult::kRenewed;
    }
    RETURN_IF_ERROR(TrustBundle(material, deadline));
    if (!trusted_since_) trusted_since_ = clock_.Now();
    if (!NeedsLeaf(material)) {
      RETURN_IF_ERROR(Adopt(material.leaf));
      return result;
    }
    const bool may_wait = IsInUse(material) && !IsByNewestCa(material);
    if (may_wait && clock_.Now() - *trusted_since_ < options_.trust_delay) return RenewResult::kCaStaged;
    RETURN_IF_ERROR(IssueLeaf(material));
    RETURN_IF_ERROR(Store(secret, material, deadline));
    RETURN_IF_ERROR(Adopt(material.leaf));
    return RenewResult::kRenewed;
  }

  void Run(const std::function<bool()>& is_leader, std::stop_token stop) override {
    Schedule schedule{clock_.Now(), clock_.Now()};
    bool is_failing = false;
    do {
      const Status last = is_leader() ? Lead(schedule) : Read(Deadline::After(clock_, kCertificateTimeout));
      if (!last.ok() && !is_failing) {
        log_.Warn(is_for_peers() ? "certificate of peers not up to date, retrying"
                                 : "webhook certificate not up to date, retrying",
                  {{"secret", key_.ToString()}, {"error", last}});
      }
      is_failing = !last.ok();
    } while (clock_.SleepFor(options_.read_period, stop));
  }

 private:
  struct Schedule {
    TimePoint renew;
    TimePoint mend;
  };

  // One round of the leader.
  Status Lead(Schedule& schedule) {
    const Deadline deadline = Deadline::After(clock_, kCertificateTimeout);
    if (clock_.Now() < schedule.renew && !is_new_ca_wanted_) {
      ASSIGN_OR_RETURN(const Material material, Load(deadline));
      RETURN_IF_ERROR(Adopt(material.leaf));
      if (clock_.Now() < schedule.mend) return Status();
      schedule.mend = clock_.Now() + kMendPeriod;
      return TrustBundle(material, deadline);
    }
    const Result<RenewResult> renewed = Renew(deadline);
    schedule.renew = clock_.Now() + DelayAfter(renewed);
    schedule.mend = clock_.Now() + kMendPeriod;
    if (!renewed.ok()) return renewed.status();
    if (*renewed != RenewResult::kNothingToDo) {
      const bool is_leaf = *renewed == RenewResult::kRenewed;
      const char* const of_webhook = is_leaf ? "webhook certificate renewed" : "new webhook CA trusted";
      const char* const of_peers = is_leaf ? "certificate of peers renewed" : "new CA of peers trusted";
      log_.Info(is_for_peers() ? of_peers : of_webhook, {{"secret", key_.ToString()}});
    }
    return Status();
  }

  bool is_for_peers() const { return options_.use == CertificateUse::kPeers; }

  Result<Material> Load(Deadline deadline) {
    ASSIGN_OR_RETURN(const Json secret, client_.Get(kSecrets, key_, deadline));
    return MaterialOf(secret);
  }

  Duration DelayAfter(const Result<RenewResult>& renewed) const {
    if (!renewed.ok()) return kRetryDelay;
    return *renewed == RenewResult::kCaStaged ? options_.trust_delay : options_.check_period;
  }

  // The last good pair stays in use when the new one is none.
  Status Adopt(const net::TlsPair& leaf) {
    if (leaf.certificate_chain.empty()) {
      return UnavailableError(fmt::format("no certificate in secret {} yet", key_.ToString()));
    }
    RETURN_IF_ERROR(net::CheckKeyMatches(leaf.certificate_chain, leaf.private_key).Annotate(key_.ToString()));
    MutexLock lock(mutex_);
    current_ = leaf;
    return Status();
  }

  bool IsNearlyOver(const net::CertificateInfo& info) const {
    return clock_.WallNow() + options_.renew_before >= info.not_after;
  }

  bool NeedsCa(const Material& material) const {
    if (is_new_ca_wanted_ || material.cas.empty()) return true;
    const Result<net::CertificateInfo> info = net::ParseCertificate(material.cas.front());
    return !info.ok() || !info->is_ca || IsNearlyOver(*info) ||
           !net::CheckKeyMatches(material.cas.front(), material.ca_key).ok();
  }

  bool IsByNewestCa(const Material& material) const {
    return net::VerifyIssuedBy(material.leaf.certificate_chain, material.cas.front(), clock_.WallNow()).ok();
  }

  // Parses, matches its key, and is not over.
  bool IsServable(const net::TlsPair& leaf) const {
    const Result<net::CertificateInfo> info = net::ParseCertificate(leaf.certificate_chain);
    return info.ok() && info->not_after > clock_.WallNow() &&
           net::CheckKeyMatches(leaf.certificate_chain, leaf.private_key).ok();
  }

  // Served and, by one of the CAs, trusted.
  bool IsInUse(const Material& material) const {
    return IsServable(material.leaf) &&
           net::VerifyIssuedBy(material.leaf.certificate_chain, JoinPem(material.cas), clock_.WallNow()).ok();
  }

  bool NeedsLeaf(const Material& material) const {
    if (!IsServable(material.leaf) || !IsByNewestCa(material)) return true;
    const Result<net::CertificateInfo> info = net::ParseCertificate(material.leaf.certificate_chain);
    return !info.ok() || IsNearlyOver(*info) || !IsSameSet(info->dns_names, options_.dns_names) ||
           !IsSameSet(info->ip_addresses, options_.ip_addresses);
  }

  Status IssueLeaf(Material& material) const {
    const net::CertificateAndKey ca{material.cas.front(), material.ca_key};
    ASSIGN_OR_RETURN(net::CertificateAndKey leaf,
                     is_for_peers() && !options_.dns_names.empty()
                         ? net::IssuePeerCertificate(ca, options_.dns_names.front(), options_.leaf_validity, clock_)
                         : net::IssueServerCertificate(ca, options_.dns_names, options_.ip_addresses,
                                                       options_.leaf_validity, clock_));
    material.leaf = {std::move(leaf.certificate), std::move(leaf.private_key)};
    return Status();
  }

  // Keeps the newest CA and the one that may still have leaves in use.
  void DropUselessCas(Material& material) const {
    auto is_over = [this](const std::string& pem) {
      const Result<net::CertificateInfo> info = net::ParseCertificate(pem);
      return !info.ok() || info->not_after <= clock_.WallNow();
    };
    material.cas.erase(std::remove_if(material.cas.begin(), material.cas.end(), is_over), material.cas.end());
    if (material.cas.size() > kTrustedCas) material.cas.resize(kTrustedCas);
  }

  // Writes the Secret that was read as `secret`; its resourceVersion makes a second writer lose.
  Status Store(Json& secret, const Material& material, Deadline deadline) {
    Json& data = secret["data"];
    if (!data.is_object()) data = Json::object();
    data[kCaCertificate] = EncodeBase64(JoinPem(material.cas));
    data[kCaKey] = EncodeBase64(material.ca_key);
    data[kLeafCertificate] = EncodeBase64(material.leaf.certificate_chain);
    data[kLeafKey] = EncodeBase64(material.leaf.private_key);
    ASSIGN_OR_RETURN(secret, client_.Update(kSecrets, secret, {}, deadline));
    return Status();
  }

  // Puts the bundle in every configuration; all are tried, the first error is returned.
  Status TrustBundle(const Material& material, Deadline deadline) {
    const std::string bundle = EncodeBase64(JoinPem(material.cas));
    Status first;
    for (const std::string& name : options_.configurations) {
      const Status patched = TrustBundleIn(name, bundle, deadline);
      if (first.ok()) first = patched;
    }
    return first;
  }

  Status TrustBundleIn(const std::string& name, const std::string& bundle, Deadline deadline) {
    const ObjectKey key{"", name};
    ASSIGN_OR_RETURN(const Json configuration, client_.Get(kMutatingWebhooks, key, deadline));
    Json patch = Json::array();
    const Json* webhooks = ArrayField(configuration, "webhooks");
    for (size_t i = 0; webhooks != nullptr && i < webhooks->size(); ++i) {
      const Json& webhook = (*webhooks)[i];
      const Json* client_config = ObjectField(webhook, "clientConfig");
      if (client_config == nullptr || StringField(*client_config, "caBundle") == bundle) continue;
      const std::string path = fmt::format("/webhooks/{}", i);
      patch.push_back({{"op", "test"}, {"path", path + "/name"}, {"value", StringField(webhook, "name")}});
      patch.push_back({{"op", "add"}, {"path", path + "/clientConfig/caBundle"}, {"value", bundle}});
    }
    if (patch.empty()) return Status();
    trusted_since_.reset();
    const Status sent = client_.Patch(kMutatingWebhooks, key, PatchType::kJson, patch, {}, deadline).status();
    // A failed `test`: somebody changed the list meanwhile.
    if (sent.code() == StatusCode::kInvalidArgument) return AbortedError(sent.message());
    return sent;
  }

  const WebhookCertificateOptions options_;
  Client& client_;
  const Clock& clock_;
  Logger& log_;
  const ObjectKey key_;
  std::atomic<bool> is_new_ca_wanted_ = false;
  // Since when every configuration is known to trust the newest CA. Used by Renew alone.
  std::optional<TimePoint> trusted_since_;

  mutable Mutex mutex_;
  std::optional<net::TlsPair> current_ GUARDED_BY(mutex_);
};

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return UnavailableError("cannot read " + path);
  return text.str();
}

}  // namespace

std::unique_ptr<WebhookCertificates> WebhookCertificates::Create(const WebhookCertificateOptions& options,
                                                                 Client& client, const Clock& clock, Logger& log) {
  return std::make_unique<Certificates>(options, client, clock, log);
}

std::function<Result<net::TlsPair>()> TlsPairFromFiles(const std::string& certificate_path,
                                                       const std::string& key_path) {
  return [certificate_path, key_path]() -> Result<net::TlsPair> {
    net::TlsPair pair;
    ASSIGN_OR_RETURN(pair.certificate_chain, ReadFile(certificate_path));
    ASSIGN_OR_RETURN(pair.private_key, ReadFile(key_path));
    return pair;
  };
}

}  // namespace paceline::kube
