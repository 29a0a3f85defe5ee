// Shares chunks with other nodes: serves this node's to those that show the peers' certificate, and asks those that the
// node's agent names. Off without certificates, which may come, change and go while the plugin runs; nothing else of
// the plugin waits for any of this.
//
// Made and ended by RunPlugin. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "lib/blocks/peers/chunk_giver.h"
#include "lib/blocks/peers/peer_client.h"
#include "lib/net/http_server.h"
#include "snapshotter/plugin/plugin_metrics.h"

namespace paceline::snapshotter {

struct PeerSharingOptions {
  std::string certificates;  // folder with ca.crt, tls.crt and tls.key; empty: nothing is ever shared
  std::string address = "0.0.0.0";
  int port = 9466;
  std::string server_name = "paceline-peers";
  double slack = 1.2;
  blocks::GiveLimits limits;
  Duration look_period = std::chrono::seconds(10);  // at the certificates
};

class PeerSharing {
 public:
  // Borrows the three.
  PeerSharing(const PeerSharingOptions& options, const Clock& clock, Logger& log, PluginMetrics& metrics);
  ~PeerSharing();  // as Stop

  // For the engine, which must go before this; null when nothing is ever shared.
  blocks::ChunkPeers* peers() { return client_.get(); }

  // Serves what `engine` has as soon as there are certificates, until Stop. `engine` is borrowed until then.
  void Serve(blocks::ChunkEngine& engine);
  // Blocks until nobody is served any more.
  void Stop();

  // The rest of the line "peers …" of docs/formats/snapshotter-status.md, and what is answered.
  std::string SetPeers(std::string_view text);
  // The member "peers" of the status; null when nothing is ever shared.
  Json Describe() const EXCLUDES(mutex_);

 private:
  // The certificates of the folder; kNotFound when one is missing.
  Result<blocks::PeerCredentials> Load() const;
  void Run(std::stop_token stop);
  // One look at the certificates.
  void Look(blocks::ChunkGiver& giver) EXCLUDES(mutex_);
  Status Start(const blocks::PeerCredentials& credentials, blocks::ChunkGiver& giver) EXCLUDES(mutex_);
  void SetState(const Status& status, int port) EXCLUDES(mutex_);

  const PeerSharingOptions options_;
  const Clock& clock_;
  Logger& log_;
  PluginMetrics& metrics_;
  std::unique_ptr<blocks::PeerClient> client_;
  blocks::ChunkEngine* engine_ = nullptr;
  std::optional<blocks::PeerCredentials> used_;  // by the looking thread alone, as the server
  std::unique_ptr<net::HttpServer> server_;
  std::jthread looking_;
  mutable Mutex mutex_;
  Status status_ GUARDED_BY(mutex_);  // ok: chunks are shared
  int port_ GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline::snapshotter
