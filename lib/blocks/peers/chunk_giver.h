// Gives chunks to other nodes: the answering side of docs/formats/peer-chunks.md. The node's own training goes first,
// so requests and bytes per second are bounded, and what is over is turned away at once: whoever asked has an origin.
//
// Caller: the snapshotter's plugin, as a route of its HTTPS server, whose TLS has checked the other side's certificate.
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "lib/base/mutex.h"
#include "lib/blocks/engine/chunk_engine.h"
#include "lib/net/http_server.h"

namespace paceline::blocks {

struct GiveLimits {
  int requests = 32;  // under way at once; those for which nobody waits get half of it
  uint64_t bytes_per_second = uint64_t{256} << 20;
  Duration origin_wait = std::chrono::milliseconds(1500);  // for one request
};

// So many bytes per second and, after a pause, those of one second at once. Single-threaded; time is given to it.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t bytes_per_second) : rate_(static_cast<double>(bytes_per_second)), left_(rate_) {}
  // Whether anything is left.
  bool IsOpen(TimePoint now);
  // May go below zero: the next ones wait for it.
  void Spend(uint64_t bytes) { left_ -= static_cast<double>(bytes); }

 private:
  const double rate_;
  double left_;
  std::optional<TimePoint> filled_at_;
};

enum class GiveResult { kGiven, kAbsent, kBusy, kRefused };
// "given", as in metrics.
std::string_view GiveResultText(GiveResult result);
inline constexpr GiveResult kGiveResults[] = {GiveResult::kGiven, GiveResult::kAbsent, GiveResult::kBusy,
                                              GiveResult::kRefused};

class ChunkGiver {
 public:
  struct Options {
    GiveLimits limits;
    std::string client_name = "paceline-peers";                 // common name that others must show
    std::function<void(GiveResult, uint64_t bytes)> on_result;  // called for each request; must not block
  };

  // Borrows both.
  ChunkGiver(Options options, ChunkEngine& engine, const Clock& clock);

  // The handler of "GET /v1/layers/". Blocks for the disk, and for the origin when it may, within `deadline`.
  net::ServerResponse Handle(const net::ServerRequest& request, Deadline deadline) EXCLUDES(mutex_);

 private:
  net::ServerResponse Answer(const net::ServerRequest& request, Deadline deadline, uint64_t* given_bytes)
      EXCLUDES(mutex_);
  bool HasRoom(bool is_demand, int under_way) EXCLUDES(mutex_);

  const Options options_;
  ChunkEngine& engine_;
  const Clock& clock_;
  std::atomic<int> under_way_{0};
  Mutex mutex_;
  ByteBudget budget_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
