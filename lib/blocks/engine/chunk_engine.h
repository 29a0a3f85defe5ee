// Gives mounted images their bytes: from memory, from this disk, from peers, from the store that the image came from,
// in this order; each chunk is fetched once however many wait for it, and no byte is given or kept before its digest
// was right.
//
// Reads go before prefetch and prefetch before background filling, and neighbours travel in one range (fetch_queue.h).
// A read ends at its limit with a failure, never later. Callers: the snapshotter's file server, prefetch. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/blocks/engine/access_log.h"
#include "lib/blocks/engine/chunk_cache.h"
#include "lib/blocks/engine/chunk_peers.h"
#include "lib/blocks/engine/image_stats.h"
#include "lib/blocks/engine/memory_cache.h"
#include "lib/blocks/format/blob_store.h"

namespace paceline::blocks {

// On what terms another node is given chunks.
struct GiveTerms {
  bool may_fetch = false;  // from the origin, what is not here
  uint64_t max_bytes = 0;  // of several chunks together
  Deadline origin_deadline = Deadline::Infinite();
};

struct EngineOptions {
  FetchLimits fetch;
  size_t memory_bytes = 32 << 20;                   // of decoded chunks
  Duration read_limit = std::chrono::seconds(30);   // of one read
  Duration fetch_limit = std::chrono::seconds(60);  // of one range, with all its attempts
};

class ChunkEngine;

// A layer of an image that is to be opened.
struct LayerSource {
  Digest index_digest;
  std::shared_ptr<const std::string> index;  // checked against the digest
};

// One mounted image. Its layers are shared with other images that have the same. Thread-safe; must go before its
// engine.
class ImageReader {
 public:
  ~ImageReader();

  size_t layer_count() const { return layers_.size(); }
  const LayerIndex& index(size_t layer) const;

  // Fills `out` from the EROFS image of a layer (0 is the bottom). kInvalidArgument beyond its end; kDeadlineExceeded
  // after the engine's read_limit, kUnavailable and the like when no source could give the bytes, kDataLoss when all
  // that came were wrong.
  Status Read(size_t layer, uint64_t offset_bytes, std::span<char> out);

  // Fetches what is not there yet, in this order, without anybody waiting for it. Returns at once.
  void Prefetch(const std::vector<ChunkId>& chunks, FetchPriority priority);

  // Contents of a layer's chunks that are on this disk now; in time proportional to their number.
  uint64_t KeptBytes(size_t layer) const;

  ImageStats stats() const { return counters_->Read(); }
  AccessLog& accesses() { return accesses_; }

 private:
  friend class ChunkEngine;
  ImageReader(ChunkEngine& engine, std::vector<uint32_t> layers, std::vector<std::shared_ptr<LayerCache>> caches,
              std::shared_ptr<BlobStore> origin, const Clock& clock);

  ChunkEngine& engine_;
  const std::vector<uint32_t> layers_;  // the engine's numbers
  const std::vector<std::shared_ptr<LayerCache>> caches_;
  const std::shared_ptr<BlobStore> origin_;
  const std::shared_ptr<ImageCounters> counters_;
  AccessLog accesses_;
};

class ChunkEngine {
 public:
  // Starts the threads that fetch. `cache`, `peers` (may be null) and `clock` are borrowed.
  ChunkEngine(const EngineOptions& options, ChunkCache& cache, ChunkPeers* peers, const Clock& clock);
  // Waits for the ranges under way; what waits in line is dropped.
  ~ChunkEngine();

  // Opens the layers, bottom first. `origin` has their data blobs. Blocks for the disk. Failures are those of
  // ChunkCache::OpenLayer.
  Result<std::unique_ptr<ImageReader>> Open(const std::vector<LayerSource>& layers, std::shared_ptr<BlobStore> origin);

  using Content = std::shared_ptr<const std::string>;

  struct Given {
    std::vector<Content> contents;  // at the places of what was asked for; null: not here, or not in time
    Duration waited{0};             // for the origin
  };
  // Checked contents of chunks for another node. What is fetched for others comes from the origin and never from peers:
  // a request of a peer is not passed on. kNotFound when the layer is neither open nor kept here, kInvalidArgument for
  // a number that it has no chunk for and for more than may be given. Blocks for the disk, and for the origin when it
  // may.
  Result<Given> Give(const Digest& index_digest, const std::vector<uint32_t>& chunks, const GiveTerms& terms)
      EXCLUDES(mutex_);

  // Blocks until nothing waits or is under way. For tests and for a prefetch that somebody wants to see the end of;
  // false when `deadline` came first.
  bool AwaitIdle(Deadline deadline) EXCLUDES(mutex_);

 private:
  friend class ImageReader;

  struct Layer {
    std::shared_ptr<LayerCache> cache;
    std::vector<std::shared_ptr<BlobStore>> origins;  // of the images that have it open
    std::shared_ptr<ImageCounters> prefetches_for;    // at first, those of the image that opened it
  };
  // A chunk that somebody waits for.
  struct Flight {
    bool is_done = false;
    Status status;
    Content content;
    std::shared_ptr<ImageCounters> counters;
    mutable CondVar changed;
  };
  // A batch with all that its thread needs.
  struct Job {
    FetchBatch batch;
    std::vector<uint32_t> at_peers;  // of its chunks: those that peers are asked for first
    Layer layer;
    std::shared_ptr<ImageCounters> counters;
  };
  // A chunk that another node waits for.
  struct Awaited {
    size_t place = 0;
    std::shared_ptr<Flight> flight;  // null: it has come meanwhile
  };

  // The content of a chunk for a reader.
  Result<Content> Get(ImageReader& image, size_t layer, uint32_t chunk, Deadline deadline) EXCLUDES(mutex_);
  // Lets a reader's later chunks travel while it waits for its first.
  void Announce(ImageReader& image, size_t layer, uint32_t first, uint32_t last) EXCLUDES(mutex_);
  void Prefetch(ImageReader& image, const std::vector<ChunkId>& chunks, FetchPriority priority) EXCLUDES(mutex_);
  void Close(ImageReader& image) EXCLUDES(mutex_);

  Result<Content> LoadLocal(ImageReader& image, size_t layer, ChunkId id);
  bool IsLocal(LayerCache& cache, ChunkId id);
  Result<Content> AwaitFlight(ChunkId id, const std::shared_ptr<Flight>& flight, Deadline deadline) EXCLUDES(mutex_);

  // The layer as it is open or kept, and its number while it is open.
  std::shared_ptr<LayerCache> FindLayer(const Digest& index_digest, std::optional<uint32_t>* number) EXCLUDES(mutex_);
  Content Held(LayerCache& cache, std::optional<uint32_t> number, uint32_t chunk);
  // Has chunks of an open layer fetched from the origin.
  std::vector<Awaited> FetchForOthers(uint32_t number, const std::vector<uint32_t>& chunks,
                                      const std::vector<Content>& held) EXCLUDES(mutex_);
  Content AwaitForOthers(const Flight& flight, Deadline deadline) EXCLUDES(mutex_);

  void Work(std::stop_token stop);
  std::optional<Job> TakeJob(std::stop_token stop) EXCLUDES(mutex_);
  void Run(Job job);
  void AskPeers(Job& job) EXCLUDES(mutex_);
  void AskOrigins(const Job& job);
  void AskOriginsFor(const Job& job, std::span<const uint32_t> numbers, Deadline deadline);
  // One range from the first origin that has it.
  Status ReadRange(const Job& job, uint64_t offset_bytes, std::span<char> out, Deadline deadline);
  // A chunk whose bytes were wrong, once more and alone.
  Result<std::string> FetchAgain(const Job& job, uint32_t chunk, Deadline deadline);
  void Deliver(const Job& job, uint32_t chunk, Result<std::string> content) EXCLUDES(mutex_);
  void Finish(ChunkId id, const Status& status, const Content& content) REQUIRES(mutex_);

  const EngineOptions options_;
  ChunkCache& cache_;
  ChunkPeers* const peers_;
  const Clock& clock_;
  MemoryCache memory_;

  Mutex mutex_;
  CondVar work_;  // something to fetch, or a thread free for a class
  CondVar idle_;
  FetchQueue queue_ GUARDED_BY(mutex_);
  std::map<uint32_t, Layer> layers_ GUARDED_BY(mutex_);
  std::map<Digest, uint32_t> numbers_ GUARDED_BY(mutex_);
  uint32_t next_number_ GUARDED_BY(mutex_) = 0;
  std::map<ChunkId, std::shared_ptr<Flight>> flights_ GUARDED_BY(mutex_);
  std::set<ChunkId> running_ GUARDED_BY(mutex_);
  std::set<ChunkId> for_others_ GUARDED_BY(mutex_);  // asked of us by a peer: the origin's alone to give
  std::vector<std::jthread> threads_;
};

}  // namespace paceline::blocks
