// The webhook's serving certificate without cert-manager: a CA of our own and a leaf, kept in a Secret that the chart
// creates empty, and the CA written into the webhook configurations. Every replica serves what the Secret holds; the
// leader alone renews.
//
// No admission is lost on renewal: a new CA is trusted (beside the old one) before the first leaf that it signs is
// served. With cert-manager none of this runs: TlsPairFromFiles serves what it mounts. The certificate with which
// programs on nodes know each other is kept in the same way, with no configuration to write it into. Callers:
// operator's main. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/kube/client.h"
#include "lib/net/http_server.h"

namespace paceline::kube {

// kPeers: of the programs that mount the Secret, for both ends of their connections.
enum class CertificateUse { kWebhook, kPeers };

struct WebhookCertificateOptions {
  CertificateUse use = CertificateUse::kWebhook;
  std::string ns;
  std::string secret_name;
  std::vector<std::string> configurations;  // names of MutatingWebhookConfigurations
  std::vector<std::string> dns_names;       // "<service>.<namespace>.svc", ...; kPeers: the one name
  std::vector<std::string> ip_addresses;    // for tests and out-of-cluster runs
  Duration ca_validity = std::chrono::hours(24 * 3650);
  Duration leaf_validity = std::chrono::hours(24 * 365);
  Duration renew_before = std::chrono::hours(24 * 90);
  Duration check_period = std::chrono::hours(12);
  Duration read_period = std::chrono::seconds(10);  // how soon a replica sees a new leaf
  // From the new CA being in the configurations to the first leaf by it: time for every API server to notice.
  Duration trust_delay = std::chrono::seconds(30);
};

// Where a call of WebhookCertificates::Renew left things.
enum class RenewResult {
  kNothingToDo,
  kRenewed,   // a leaf was written
  kCaStaged,  // a new CA is trusted; call again after trust_delay for the leaf
};

class WebhookCertificates {
 public:
  // Does not read anything yet. References must outlive it.
  static std::unique_ptr<WebhookCertificates> Create(const WebhookCertificateOptions& options, Client& client,
                                                     const Clock& clock, Logger& log);
  virtual ~WebhookCertificates() = default;

  // The pair to serve, for net::ServerTls::load; kUnavailable before the Secret was first read with one in it.
  virtual Result<net::TlsPair> Current() const = 0;
  // True once Current works; for readiness.
  virtual bool IsReady() const = 0;

  // Reads the Secret. Blocks until `deadline`.
  virtual Status Read(Deadline deadline) = 0;
  // The leader's step: makes or renews what is missing or nearly over, and mends the configurations' caBundle.
  // kNotFound when the Secret is not there; kAborted when another replica wrote it at the same time. Blocks until
  // `deadline`.
  virtual Result<RenewResult> Renew(Deadline deadline) = 0;
  // Makes the next Renew make a new CA and, in its second step, a new leaf, whatever their age (pacectl, tests).
  virtual void RequestNewCa() = 0;

  // Read every read_period and, while `is_leader()` (called on this thread), Renew every check_period. Blocks until
  // `stop`.
  virtual void Run(const std::function<bool()>& is_leader, std::stop_token stop) = 0;
};

// Loads a PEM pair from files, as cert-manager or a mounted Secret gives them; for net::ServerTls::load.
std::function<Result<net::TlsPair>()> TlsPairFromFiles(const std::string& certificate_path,
                                                       const std::string& key_path);

}  // namespace paceline::kube
