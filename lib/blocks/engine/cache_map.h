// Which chunks of a layer are on this disk, and when each was last used: the in-memory form, the file that survives a
// crash, and the choice of what to give up when space is short. docs/formats/chunk-cache.md has the bytes.
//
// Pure: no I/O, no clock. Callers: LayerCache and ChunkCache. The functions may be called from any thread; CacheMap's
// entries are atomic, so readers and writers need no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

inline constexpr size_t kMapHeaderBytes = 64;
inline constexpr size_t kMapEntryBytes = 4;

// Whole seconds since 2020, from 2 on; 0 and 1 have meanings of their own.
uint32_t UseTime(WallTime now);

class CacheMap {
 public:
  explicit CacheMap(uint32_t chunk_count);

  uint32_t size() const { return size_; }
  bool IsPresent(uint32_t chunk) const { return Load(chunk) > kBusy; }
  uint32_t LastUse(uint32_t chunk) const { return Load(chunk); }

  // Takes a chunk out of use to write or to drop it; false when it is not in the state that this needs, or somebody
  // else has it. End it with Finish, within the same call chain.
  bool BeginStore(uint32_t chunk) { return Exchange(chunk, kAbsent); }
  bool BeginDrop(uint32_t chunk);
  void FinishPresent(uint32_t chunk, uint32_t use_time) { entries_[chunk].store(use_time); }
  void FinishAbsent(uint32_t chunk) { entries_[chunk].store(kAbsent); }
  // Nothing happens to a chunk that is not present.
  void Touch(uint32_t chunk, uint32_t use_time);

 private:
  static constexpr uint32_t kAbsent = 0, kBusy = 1;

  uint32_t Load(uint32_t chunk) const { return entries_[chunk].load(); }
  bool Exchange(uint32_t chunk, uint32_t expected) { return entries_[chunk].compare_exchange_strong(expected, kBusy); }

  uint32_t size_;
  std::unique_ptr<std::atomic<uint32_t>[]> entries_;
};

// The first kMapHeaderBytes of the file of a layer, named by the digest of its index.
std::string EncodeMapHeader(const Digest& index, uint32_t chunk_count);
// Four bytes of an entry; `use_time` 0 for absent.
std::string EncodeMapEntry(uint32_t use_time);
// The map in `bytes`, or nothing when they are not this layer's, of another version, or cut short: then the cache of
// the layer starts empty. Entries that a crash left half-written cost a check of the chunk, no more, since every chunk
// is checked against its digest when it is read.
std::unique_ptr<CacheMap> DecodeMap(std::string_view bytes, const Digest& index, uint32_t chunk_count);

// A chunk that could be given up.
struct EvictionCandidate {
  uint32_t layer = 0;  // the caller's number
  uint32_t chunk = 0;
  uint32_t last_use = 0;
  uint32_t bytes = 0;
  bool is_in_use = false;  // its layer is mounted
};

// Whom to drop so that at least `bytes` become free, in order: layers that nobody uses before mounted ones, and within
// these the longest unused first. All of them when that is not enough.
std::vector<EvictionCandidate> ChooseVictims(std::vector<EvictionCandidate> candidates, uint64_t bytes);

}  // namespace paceline::blocks
