#include "snapshotter/plugin/peer_sharing.h"

#include <nlohmann/json.hpp>

#include "lib/base/filesystem.h"
#include "lib/net/tls_certificates.h"

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxPemBytes = 1 << 20;
constexpr size_t kMaxPeers = 256;
constexpr int kMaxPeersDepth = 4;
// Each may hold an answer in memory until the other side has read it.
constexpr int kMaxConnections = 128;

std::string Refusal(const std::string& why) { return DumpJson({{"error", why}}) + "\n"; }

}  // namespace

PeerSharing::PeerSharing(const PeerSharingOptions& options, const Clock& clock, Logger& log, PluginMetrics& metrics)
    : options_(options), clock_(clock), log_(log), metrics_(metrics), status_(NotFoundError("not looked for yet")) {
  metrics_.sharing.With({}).Set(0);
  if (options_.certificates.empty()) return;
  blocks::PeerClientOptions client;
  client.server_name = options_.server_name;
  client.slack = options_.slack;
  client.on_result = [this](blocks::PeerResult result) {
    metrics_.peer_requests.With({std::string(blocks::PeerResultText(result))}).Add();
  };
  client.on_skipped = [this] { metrics_.peer_requests.With({"skipped"}).Add(); };
  client_ = std::make_unique<blocks::PeerClient>(client, clock);
}

PeerSharing::~PeerSharing() { Stop(); }

void PeerSharing::Serve(blocks::ChunkEngine& engine) {
  if (client_ == nullptr) {
    log_.Info("chunks are not shared with other nodes", {{"reason", "peers.certificates is empty"}});
    return;
  }
  engine_ = &engine;
  looking_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

void PeerSharing::Stop() {
  looking_.request_stop();
  if (looking_.joinable()) looking_.join();
}

void PeerSharing::Run(std::stop_token stop) {
  blocks::ChunkGiver::Options giving;
  giving.limits = options_.limits;
  giving.client_name = options_.server_name;
  giving.on_result = [this](blocks::GiveResult result, uint64_t bytes) {
    metrics_.peer_answers.With({std::string(blocks::GiveResultText(result))}).Add();
    metrics_.peer_given_bytes.With({}).Add(static_cast<double>(bytes));
  };
  blocks::ChunkGiver giver(giving, *engine_, clock_);
  do {
    Look(giver);
    metrics_.peers.With({"bad"}).Set(static_cast<double>(client_->bad_count()));
    metrics_.peers.With({"known"}).Set(static_cast<double>(client_->peer_count()));
  } while (clock_.SleepFor(options_.look_period, stop));
  if (server_ != nullptr) server_->Shutdown(std::chrono::seconds(1));
  server_.reset();
}

Result<blocks::PeerCredentials> PeerSharing::Load() const {
  const RealFileSystem files;
  blocks::PeerCredentials credentials;
  const std::pair<const char*, std::string*> parts[] = {
      {"ca.crt", &credentials.ca}, {"tls.crt", &credentials.certificate}, {"tls.key", &credentials.key}};
  for (const auto& [name, text] : parts) {
    Result<std::string> read = files.ReadFile(options_.certificates + "/" + name, kMaxPemBytes);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  // A CA and a leaf of different age are replaced one after the other: wait for both.
  RETURN_IF_ERROR(net::CheckKeyMatches(credentials.certificate, credentials.key));
  RETURN_IF_ERROR(net::VerifyIssuedBy(credentials.certificate, credentials.ca, clock_.WallNow()));
  return credentials;
}

void PeerSharing::Look(blocks::ChunkGiver& giver) {
  Result<blocks::PeerCredentials> credentials = Load();
  if (!credentials.ok()) {
    // What is in use stays in use while it is good: files are being replaced, or the disk does not answer.
    const bool is_good = used_ && net::VerifyIssuedBy(used_->certificate, used_->ca, clock_.WallNow()).ok();
    if (is_good) return;
    client_->SetCredentials(std::nullopt);
    if (server_ != nullptr) server_->Shutdown(std::chrono::seconds(1));
    server_.reset();
    used_.reset();
    SetState(credentials.status(), 0);
    return;
  }
  if (used_ && *used_ == *credentials && server_ != nullptr) return;
  const Status started = Start(*credentials, giver);
  used_ = started.ok() ? std::optional(*credentials) : std::nullopt;
  // Without being served others are still asked.
  client_->SetCredentials(*std::move(credentials));
  SetState(started, server_ != nullptr ? server_->port() : 0);
}

Status PeerSharing::Start(const blocks::PeerCredentials& credentials, blocks::ChunkGiver& giver) {
  // The port is one, so the old one goes first; whoever finds it closed asks the origin.
  const uint16_t port = server_ != nullptr ? server_->port() : static_cast<uint16_t>(options_.port);
  if (server_ != nullptr) server_->Shutdown(std::chrono::seconds(1));
  server_.reset();
  net::ServerOptions options;
  options.address = options_.address;
  options.port = port;
  options.threads = options_.limits.requests + 2;  // two to say no
  options.max_connections = kMaxConnections;
  options.max_body_bytes = 0;
  auto tls = std::make_unique<net::ServerTls>();
  tls->load = [credentials]() -> Result<net::TlsPair> {
    return net::TlsPair{credentials.certificate, credentials.key};
  };
  tls->client_ca = credentials.ca;
  std::map<std::string, net::Handler> routes;
  routes["GET " + std::string(blocks::kPeerPathPrefix)] =
      [&giver](const net::ServerRequest& request, Deadline deadline) { return giver.Handle(request, deadline); };
  ASSIGN_OR_RETURN(server_, net::HttpServer::Start(options, std::move(routes), std::move(tls), clock_, log_));
  return Status();
}

void PeerSharing::SetState(const Status& status, int port) {
  Status before;
  bool is_same_port = false;
  {
    MutexLock lock(mutex_);
    before = std::exchange(status_, status);
    is_same_port = std::exchange(port_, port) == port;
  }
  metrics_.sharing.With({}).Set(status.ok() ? 1 : 0);
  if (before == status && is_same_port) return;
  if (status.ok()) {
    log_.Info("chunks are shared with other nodes", {{"port", port}});
  } else {
    log_.Warn("chunks are not shared with other nodes, retrying", {{"error", status}});
  }
}

std::string PeerSharing::SetPeers(std::string_view text) {
  if (client_ == nullptr) return Refusal("chunks are not shared: peers.certificates is empty");
  const Result<Json> json = ParseJson(text, kMaxPeersDepth);
  if (!json.ok()) return Refusal(json.status().message());
  const Json* list = FindJson(*json, "peers");
  const std::string own = JsonStringOr(*json, "own", "").value_or("");
  if (own.empty() || list == nullptr || !list->is_array() || list->size() > kMaxPeers) {
    return Refusal("not the peers of a node");
  }
  std::vector<std::string> addresses;
  for (const Json& address : *list) {
    if (!address.is_string()) return Refusal("not the address of a peer");
    addresses.push_back(address.get<std::string>());
  }
  const Status set = client_->SetPeers(own, addresses);
  if (!set.ok()) return Refusal(set.message());
  return DumpJson({{"peers", client_->peer_count()}}) + "\n";
}

Json PeerSharing::Describe() const {
  if (client_ == nullptr) return nullptr;
  Json json = {{"count", client_->peer_count()}, {"bad", client_->bad_count()}};
  MutexLock lock(mutex_);
  json["state"] = status_.ok() ? "Sharing" : "NotSharing";
  if (port_ != 0) json["port"] = port_;
  if (!status_.ok()) json["message"] = status_.message();
  return json;
}

}  // namespace paceline::snapshotter
