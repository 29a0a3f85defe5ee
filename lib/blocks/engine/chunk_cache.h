// All layers on this disk, within a quota: what is used least goes first, and a full disk makes reads go through
// instead of failing. docs/formats/chunk-cache.md has the files.
//
// Callers: ChunkEngine. Thread-safe; calls block for the disk. One process per folder (a lock file says so).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"
#include "lib/blocks/engine/layer_cache.h"

namespace paceline::blocks {

struct ChunkCacheOptions {
  std::string folder;                                   // on a file system with holes: ext4, xfs, btrfs
  uint64_t quota_bytes = uint64_t{20} << 30;            // of chunk contents
  double low_watermark = 0.9;                           // eviction goes down to this share of the quota
  Duration full_disk_pause = std::chrono::seconds(10);  // no writes for so long after "no space"
};

struct ChunkCacheStats {
  uint64_t used_bytes = 0;
  uint64_t evicted_chunks = 0;
  uint64_t damaged_chunks = 0;   // found changed on disk, dropped and fetched again
  uint64_t mended_metadata = 0;  // times that changed metadata was written again
  uint64_t full_disk = 0;        // stores that the disk had no room for
};

class ChunkCache {
 public:
  // Makes the folder. kAborted when another process has it. `clock` is borrowed.
  static Result<std::unique_ptr<ChunkCache>> Open(const ChunkCacheOptions& options, const Clock& clock);
  ~ChunkCache();

  // The bytes of an index that an earlier run kept here, checked; kNotFound.
  Result<std::string> KeptIndex(const Digest& index_digest) const;

  // The layer of an index, which is kept on disk for the next start. The same object as long as anybody holds one; it
  // counts as in use until then. Failures are those of LayerCache::Open.
  Result<std::shared_ptr<LayerCache>> OpenLayer(const Digest& index_digest, std::shared_ptr<const std::string> index)
      EXCLUDES(mutex_);

  // A layer that is here, opened or kept by an earlier run; null. Whoever holds it keeps it in use.
  std::shared_ptr<LayerCache> FindLayer(const Digest& index_digest) const EXCLUDES(mutex_);

  // Checked content of a chunk, as LayerCache::Load.
  Result<std::string> Load(LayerCache& layer, uint32_t chunk);

  // Keeps checked content if there is room or room can be made; otherwise nothing happens but a count.
  void Store(LayerCache& layer, uint32_t chunk, std::string_view content) EXCLUDES(mutex_);

  // Saves times of use; called now and then and at the end.
  void SaveUseTimes() EXCLUDES(mutex_);

  ChunkCacheStats stats() const EXCLUDES(mutex_);

 private:
  ChunkCache(const ChunkCacheOptions& options, UniqueFd lock, const Clock& clock)
      : options_(options), lock_(std::move(lock)), clock_(clock) {}

  void AdoptKeptLayers();
  std::string FolderOf(const Digest& index_digest) const;
  std::vector<std::shared_ptr<LayerCache>> AllLayers() const EXCLUDES(mutex_);
  // Makes room for `bytes` more; false when there cannot be any.
  bool MakeRoom(uint64_t bytes) EXCLUDES(mutex_);

  const ChunkCacheOptions options_;
  const UniqueFd lock_;
  const Clock& clock_;
  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> evicted_{0}, damaged_{0}, full_disk_{0};
  mutable Mutex mutex_;
  std::map<Digest, std::shared_ptr<LayerCache>> layers_ GUARDED_BY(mutex_);
  bool is_evicting_ GUARDED_BY(mutex_) = false;
  TimePoint no_stores_before_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
