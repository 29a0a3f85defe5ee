// What is to be fetched next, and together with what: chunks wait here by priority, and neighbours in a blob leave as
// one range. Demand goes before prefetch, prefetch before background, and the lower classes never take all the threads,
// so that a reader who comes later finds one free. What other nodes ask for has threads of its own: all others may be
// waiting for those very nodes.
//
// Pure and single-threaded: ChunkEngine locks around it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

enum class FetchPriority { kForOthers = 0, kDemand = 1, kPrefetch = 2, kBackground = 3 };
inline constexpr size_t kFetchPriorities = 4;

// Stored bytes of a data blob that one node owns among those that share chunks (docs/formats/peer-chunks.md).
inline constexpr uint64_t kStretchBytes = 4 << 20;

// A chunk of a layer; layers are known by the engine's numbers.
struct ChunkId {
  uint32_t layer = 0;
  uint32_t chunk = 0;
  friend auto operator<=>(const ChunkId&, const ChunkId&) = default;
};

struct FetchLimits {
  int threads = 8;  // ranges under way at once
  int prefetch_threads = 6;
  int background_threads = 2;
  int others_threads = 4;             // beside `threads`
  uint64_t max_gap_bytes = 64 << 10;  // bytes that are fetched for nothing to save a request
  uint64_t demand_range_bytes = 2 << 20;
  uint64_t range_bytes = 4 << 20;  // of the other classes
  // Ranges end at multiples of it; 0: anywhere. With peers it is kStretchBytes: what travels together has one owner,
  // and nobody waits for one owner with something in hand that another one waits for.
  uint64_t stretch_bytes = 0;
};

// Chunks of one layer and blob that one range of the blob holds, in the order of their offsets.
struct FetchBatch {
  FetchPriority priority = FetchPriority::kDemand;
  uint32_t layer = 0;
  uint32_t blob = 0;  // number in the index of the layer
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  std::vector<uint32_t> chunks;
};

class FetchQueue {
 public:
  explicit FetchQueue(const FetchLimits& limits) : limits_(limits) {}

  // Waits from now on with this priority; one that waits already with a lower one moves up, never down, and one that
  // waits for others goes to the front when a reader wants it, too. False when nothing changed.
  bool Add(ChunkId id, FetchPriority priority);
  // Nothing of a layer is wanted any more.
  void RemoveLayer(uint32_t layer);

  struct First {
    ChunkId id;
    FetchPriority priority = FetchPriority::kDemand;
  };
  // Takes the chunk that is next, or nothing when there is none or its class has its threads. Widen it, fetch the
  // batch, and end it with Done.
  std::optional<First> TakeFirst();
  // Takes along what waits beside `first` in the blob. `index` is that of its layer.
  FetchBatch Widen(const LayerIndex& index, const First& first);
  void Done(FetchPriority priority);

  size_t waiting() const { return waiting_.size(); }
  size_t waiting(FetchPriority priority) const;
  // But for others.
  int running() const { return running_[1] + running_[2] + running_[3]; }

 private:
  bool MayStart(FetchPriority priority) const;
  // Takes along waiting chunks of at most this class on one side of the batch.
  void WidenTo(const LayerIndex& index, int step, FetchBatch* batch);

  const FetchLimits limits_;
  std::array<std::deque<ChunkId>, kFetchPriorities> lines_;  // entries may be stale: waiting_ decides
  std::map<ChunkId, FetchPriority> waiting_;
  std::array<int, kFetchPriorities> running_{};
};

}  // namespace paceline::blocks
