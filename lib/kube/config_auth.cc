#include "lib/kube/config_auth.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/base64.h"
#include "lib/base/mutex.h"
#include "lib/kube/config_exec.h"
#include "lib/kube/config_file.h"

namespace paceline::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr minutes kTokenFileAge{1};   // kubelet rewrites a token at 80 % of its life
constexpr seconds kExpiryLeeway{30};  // a credential is not used in its last seconds
constexpr minutes kPluginTimeout{1};

Result<std::string> ReadPem(const PemSource& source) {
  return source.path.empty() ? Result<std::string>(source.data) : ReadConfigFile(source.path);
}

// Token and certificate that a plugin has given, and until when they may be used.
struct PluginCredential {
  std::string token;
  std::string certificate;
  std::string key;
  WallTime expires = WallTime::max();
};

Result<PluginCredential> ParseCredential(const std::string& output, const ExecPlugin& plugin) {
  PluginCredential credential;
  try {
    // YAML, of which JSON is a part: some plugins print it.
    const YAML::Node root = YAML::Load(output);
    const auto text = [](const YAML::Node& node, const char* key) {
      return node.IsMap() && node[key].IsDefined() && node[key].IsScalar() ? node[key].as<std::string>()
                                                                           : std::string();
    };
    if (text(root, "kind") != "ExecCredential") return InvalidArgumentError("it printed no ExecCredential");
    if (text(root, "apiVersion") != plugin.api_version) {
      return InvalidArgumentError("it printed " + text(root, "apiVersion") + ", expected " + plugin.api_version);
    }
    const YAML::Node status = root["status"];
    if (!status.IsDefined() || !status.IsMap()) return InvalidArgumentError("it printed no status");
    credential.token = text(status, "token");
    credential.certificate = text(status, "clientCertificateData");
    credential.key = text(status, "clientKeyData");
    if (const std::string expires = text(status, "expirationTimestamp"); !expires.empty()) {
      ASSIGN_OR_RETURN(credential.expires, ParseRfc3339(expires));
    }
  } catch (const YAML::Exception&) {
    return InvalidArgumentError("it printed neither JSON nor YAML");  // not what: it may hold a secret
  }
  if (credential.certificate.empty() != credential.key.empty())
    return InvalidArgumentError("it printed half a key pair");
  if (credential.token.empty() && credential.key.empty()) return InvalidArgumentError("it printed no credential");
  return credential;
}

std::string ExecInfo(const KubeConfig& config, const std::string& ca) {
  nlohmann::json info = {
      {"apiVersion", config.exec->api_version}, {"kind", "ExecCredential"}, {"spec", {{"interactive", false}}}};
  if (config.exec->provides_cluster_info) {
    nlohmann::json cluster = {{"server", config.server}};
    if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
    if (config.skip_tls_verify) cluster["insecure-skip-tls-verify"] = true;
    if (!config.proxy_url.empty()) cluster["proxy-url"] = config.proxy_url;
    if (!ca.empty()) cluster["certificate-authority-data"] = EncodeBase64(ca);
    info["spec"]["cluster"] = std::move(cluster);
  }
  return info.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class CredentialsImpl final : public Credentials {
 public:
  CredentialsImpl(KubeConfig config, const Clock& clock) : config_(std::move(config)), clock_(clock) {}

  Status Authorize(net::Headers& headers, bool was_rejected) override {
    std::string token;
    if (config_.exec.has_value()) {
      ASSIGN_OR_RETURN(const PluginCredential credential, FromPlugin(was_rejected));
      token = credential.token;
    } else if (!config_.token_file.empty()) {
      ASSIGN_OR_RETURN(token, FromTokenFile(was_rejected));
    } else {
      token = config_.token;
    }
    if (!token.empty()) headers["Authorization"] = "Bearer " + token;
    if (!config_.impersonate_user.empty()) headers["Impersonate-User"] = config_.impersonate_user;
    if (!config_.impersonate_groups.empty()) headers["Impersonate-Group"] = config_.impersonate_groups[0];
    return {};
  }

  Result<std::string> CertificateAuthority() override { return ReadPem(config_.ca).Annotate("certificate authority"); }

  Result<std::string> ClientCertificate() override {
    if (!config_.exec.has_value() || !config_.client_certificate.empty()) {
      return ReadPem(config_.client_certificate).Annotate("client certificate");
    }
    ASSIGN_OR_RETURN(const PluginCredential credential, FromPlugin(/*was_rejected=*/false));
    return credential.certificate;
  }

  Result<std::string> ClientKey() override {
    if (!config_.exec.has_value() || !config_.client_key.empty())
      return ReadPem(config_.client_key).Annotate("client key");
    ASSIGN_OR_RETURN(const PluginCredential credential, FromPlugin(/*was_rejected=*/false));
    return credential.key;
  }

 private:
  Result<std::string> FromTokenFile(bool was_rejected) {
    const TimePoint now = clock_.Now();
    {
      MutexLock lock(mutex_);
      if (!was_rejected && !token_.empty() && now - token_read_ < kTokenFileAge) return token_;
    }
    Result<std::string> text = ReadConfigFile(config_.token_file);
    MutexLock lock(mutex_);
    if (!text.ok()) {
      // Between two reads of a healthy file a failure is a moment's; the old token most likely still works.
      if (!was_rejected && !token_.empty()) return token_;
      return text.status().Annotate("token");
    }
    token_ = text->substr(0, text->find_last_not_of(" \r\n\t") + 1);
    token_read_ = now;
    if (token_.empty()) return UnavailableError("token: " + config_.token_file + " is empty");
    return token_;
  }

  // One thread runs the plugin; others wait for what it gets.
  Result<PluginCredential> FromPlugin(bool was_rejected) {
    {
      MutexLock lock(mutex_);
      if (was_rejected && !is_running_) credential_.reset();
      while (is_running_) changed_.Wait(lock);
      if (credential_.has_value() && clock_.WallNow() + kExpiryLeeway < credential_->expires) return *credential_;
      is_running_ = true;
    }
    Result<PluginCredential> fresh = RunPlugin();
    MutexLock lock(mutex_);
    is_running_ = false;
    changed_.NotifyAll();
    if (fresh.ok()) credential_ = *fresh;
    return fresh;
  }

  Result<PluginCredential> RunPlugin() {
    const ExecPlugin& plugin = *config_.exec;
    ASSIGN_OR_RETURN(const std::string ca, ReadPem(config_.ca));
    std::vector<std::pair<std::string, std::string>> env = plugin.env;
    env.emplace_back("KUBERNETES_EXEC_INFO", ExecInfo(config_, ca));
    Result<std::string> output =
        RunProgram(plugin.command, plugin.args, env, Deadline::After(clock_, kPluginTimeout), clock_);
    if (!output.ok()) {
      const std::string hint = plugin.install_hint.empty() ? "" : " (" + plugin.install_hint + ")";
      return Status(output.status().code(), "credential plugin: " + output.status().message() + hint);
    }
    return ParseCredential(*output, plugin).Annotate("credential plugin " + plugin.command);
  }

  const KubeConfig config_;
  const Clock& clock_;

  Mutex mutex_;
  CondVar changed_;
  std::string token_ GUARDED_BY(mutex_);
  TimePoint token_read_ GUARDED_BY(mutex_);
  bool is_running_ GUARDED_BY(mutex_) = false;
  std::optional<PluginCredential> credential_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::shared_ptr<Credentials>> Credentials::Create(const KubeConfig& config, const Clock& clock) {
  if (config.client_certificate.empty() != config.client_key.empty()) {
    return InvalidArgumentError(config.source + ": a client certificate needs its key, and the other way round");
  }
  if (config.exec.has_value() && config.exec->is_interactive) {
    return InvalidArgumentError(config.source + ": the credential plugin needs a terminal (interactiveMode: Always)");
  }
  if (config.impersonate_groups.size() > 1) {
    return InvalidArgumentError(config.source + ": as-groups with more than one group is not supported");
  }
  if (config.skip_tls_verify && !config.ca.empty()) {
    return InvalidArgumentError(config.source +
                                ": insecure-skip-tls-verify and a certificate authority exclude each other");
  }
  return std::shared_ptr<Credentials>(std::make_shared<CredentialsImpl>(config, clock));
}

net::HttpClientOptions HttpOptionsFor(const KubeConfig& config, std::shared_ptr<Credentials> credentials,
                                      std::string user_agent) {
  net::HttpClientOptions options;
  options.base_url = config.server;
  options.user_agent = std::move(user_agent);
  options.proxy_url = config.proxy_url;
  options.tls.server_name = config.tls_server_name;
  options.tls.skip_verification = config.skip_tls_verify;
  if (!config.ca.empty()) options.tls.ca = [credentials] { return credentials->CertificateAuthority(); };
  if (!config.client_certificate.empty() || config.exec.has_value()) {
    options.tls.client_certificate = [credentials] { return credentials->ClientCertificate(); };
    options.tls.client_key = [credentials] { return credentials->ClientKey(); };
  }
  options.authorize = [credentials](net::Headers& headers, bool was_rejected) {
    return credentials->Authorize(headers, was_rejected);
  };
  return options;
}

}  // namespace paceline::kube
