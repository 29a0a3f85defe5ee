#include "lib/blocks/registry/connection_pool.h"

#include "lib/base/filesystem.h"
#include "lib/net/client_tls_cache.h"
#include "lib/net/http_client.h"

namespace paceline::blocks {
namespace {

constexpr size_t kMaxPemBytes = 8 << 20;
// Redirects to storage may bring many host names over the months of a daemon's life.
constexpr size_t kMaxClients = 256;

// Debian and its kin, Red Hat and its kin, Alpine: where the distribution keeps what it trusts.
constexpr const char* kSystemBundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                          "/etc/ssl/cert.pem"};

Result<std::string> ReadBundle(const std::vector<std::string>& files) {
  const RealFileSystem disk;
  std::string bundle;
  for (const char* system : kSystemBundles) {
    const Result<std::string> text = disk.ReadFile(system, kMaxPemBytes);
    if (!text.ok()) continue;
    bundle = *text + "\n";
    break;
  }
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string text, disk.ReadFile(file, kMaxPemBytes));
    bundle += text + "\n";
  }
  return bundle;
}

net::ClientTls ClientTlsOf(const TlsFiles& files) {
  net::ClientTls tls;
  tls.skip_verification = files.skip_verification;
  if (!files.ca_files.empty()) tls.ca = [ca_files = files.ca_files] { return ReadBundle(ca_files); };
  if (files.client_files.empty()) return tls;
  const auto& [certificate, key] = files.client_files.front();
  tls.client_certificate = [path = certificate] { return RealFileSystem().ReadFile(path, kMaxPemBytes); };
  tls.client_key = [path = key] { return RealFileSystem().ReadFile(path, kMaxPemBytes); };
  return tls;
}

std::string KeyOf(const net::Url& origin, const TlsFiles& tls) {
  std::string key = (origin.is_https ? "https://" : "http://") + origin.HostHeader();
  if (tls.skip_verification) key += "\nskip";
  for (const std::string& file : tls.ca_files) key += "\nca " + file;
  for (const auto& [certificate, secret] : tls.client_files) key += "\nclient " + certificate + "\n" + secret;
  return key;
}

}  // namespace

std::shared_ptr<net::DirectClient> ConnectionPool::For(const net::Url& origin, const TlsFiles& tls) {
  net::Url bare = origin;
  bare.path.clear();
  const std::string key = KeyOf(bare, tls);
  MutexLock lock(mutex_);
  if (const auto found = clients_.find(key); found != clients_.end()) return found->second;
  if (clients_.size() >= kMaxClients) clients_.clear();  // calls in work hold theirs
  auto cache = std::make_shared<net::ClientTlsCache>(ClientTlsOf(tls), bare.host);
  auto client = std::make_shared<net::DirectClient>(bare, proxy_, std::move(cache), clock_);
  clients_.emplace(key, client);
  return client;
}

}  // namespace paceline::blocks
