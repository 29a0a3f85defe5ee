// Asks other nodes for chunks, each chunk of the one that owns it, so that a run's nodes together fetch an image from
// its origin about once. A peer that is dead, slow, busy or lying costs one request with a small limit and is left
// alone for a while; one that is slower than the origin is not asked. Nothing here is ever needed: whatever a peer does
// not give, the origin does.
//
// Callers: ChunkEngine asks, the snapshotter's plugin says who the peers are. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/blocks/engine/chunk_engine.h"
#include "lib/blocks/peers/peer_choice.h"
#include "lib/net/http_client.h"

namespace paceline::blocks {

// PEM texts that both sides of a connection need; client and server use the same.
struct PeerCredentials {
  std::string ca;           // one or more, all trusted
  std::string certificate;  // chain
  std::string key;
  friend bool operator==(const PeerCredentials&, const PeerCredentials&) = default;
};

struct PeerClientOptions {
  std::string server_name = "paceline-peers";  // that peers' certificates must have
  Duration connect_limit = std::chrono::milliseconds(500);
  Duration ask_limit = std::chrono::seconds(2);  // of one request
  Duration list_life = std::chrono::minutes(5);  // peers of which nobody has spoken for so long are forgotten
  double slack = 1.2;                            // how much longer than the origin a peer may take
  std::function<void(PeerResult)> on_result;     // called for each request; must not block
  std::function<void()> on_skipped;              // a peer was too slow to be asked
};

class PeerClient final : public ChunkPeers {
 public:
  // Asks nobody before it has credentials and peers. `clock` is borrowed.
  PeerClient(PeerClientOptions options, const Clock& clock);
  ~PeerClient() override;

  // For connections from now on. Nothing: no peer is asked.
  void SetCredentials(std::optional<PeerCredentials> credentials) EXCLUDES(mutex_);

  // In place of the peers before; what is known of those that stay is kept. Addresses are "host:port", `own` as the
  // others have it in their lists. kInvalidArgument for an address that is none: then nothing changes.
  Status SetPeers(const std::string& own, const std::vector<std::string>& addresses) EXCLUDES(mutex_);

  // Of which somebody has spoken lately, and how many of these are left alone just now.
  size_t peer_count() const EXCLUDES(mutex_);
  size_t bad_count() const EXCLUDES(mutex_);

  void Fetch(const PeerWant& want, const Take& take, Deadline deadline) override EXCLUDES(mutex_);
  void NoteOrigin(uint64_t content_bytes, Duration elapsed) override EXCLUDES(mutex_);

 private:
  struct Peer;
  struct Material;
  struct Chosen {
    std::shared_ptr<Peer> peer;  // null: none
    bool is_owner = false;
    bool is_skipped = false;  // there is one, and it is too slow
  };
  struct Outcome {
    PeerResult result = PeerResult::kAbsent;
    bool lacks_layer = false;
    uint64_t given_bytes = 0;
    Duration waited{0};
  };

  Chosen Choose(const Digest& layer, const AskPart& part) EXCLUDES(mutex_);
  // True when the peer that was asked does not have the layer.
  bool AskOwner(const PeerWant& want, const AskPart& part, const Take& take, Deadline deadline) EXCLUDES(mutex_);
  Outcome Ask(net::HttpTransport& peer, const ChunkAsk& ask, const PeerWant& want, const AskPart& part,
              const Take& take, Deadline deadline);
  void Note(Peer& peer, const Outcome& outcome, const Digest& layer, Duration elapsed) EXCLUDES(mutex_);
  bool HasPeers(TimePoint now) const REQUIRES(mutex_);

  const PeerClientOptions options_;
  const Clock& clock_;
  const std::shared_ptr<Material> material_;  // outlives us in connections that were given up
  mutable Mutex mutex_;
  std::string own_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Peer>> peers_ GUARDED_BY(mutex_);
  std::vector<std::string> addresses_ GUARDED_BY(mutex_);
  TimePoint told_at_ GUARDED_BY(mutex_){};
  CostEstimate origin_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
