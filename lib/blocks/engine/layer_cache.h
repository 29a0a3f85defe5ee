// One layer on this disk: its index, and its EROFS image as a sparse file in which chunks appear as they are fetched.
// Complete, the file is the plain image, which can be mounted without us.
//
// What is read from the disk is checked against its digest each time, so a flipped bit, a torn write or a stale map
// costs a fetch and nothing else; the map on disk is written after the data it speaks of. docs/formats/chunk-cache.md.
// Callers: ChunkCache, ChunkEngine. Thread-safe; calls block for the disk, under no lock.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"
#include "lib/blocks/engine/cache_map.h"
#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

class LayerCache {
 public:
  // The layer in `folder`, which exists; what a run before left there is taken over. A disk that takes nothing is no
  // failure: the layer is then served without it. kDataLoss when the metadata in the index is damaged.
  static Result<std::unique_ptr<LayerCache>> Open(std::string folder, const Digest& index_digest, LayerIndex index);

  const LayerIndex& index() const { return index_; }
  const Digest& index_digest() const { return index_digest_; }
  const std::string& folder() const { return folder_; }

  bool IsPresent(uint32_t chunk) const { return map_->IsPresent(chunk); }
  uint32_t LastUse(uint32_t chunk) const { return map_->LastUse(chunk); }
  void Touch(uint32_t chunk, uint32_t use_time) { map_->Touch(chunk, use_time); }

  // The content of a chunk that is present, checked. kNotFound when it is not there (any more); kDataLoss when what is
  // there is wrong: it has been dropped then.
  Result<std::string> Load(uint32_t chunk);

  // Keeps checked content. False when the chunk is there already or being written; kResourceExhausted when the disk is
  // full, and then nothing of it is there.
  Result<bool> Store(uint32_t chunk, std::string_view content, uint32_t use_time);

  // Gives a chunk up; false when it was not there.
  bool Drop(uint32_t chunk);

  // Fills `out` from the metadata part of the image; the range must lie in block 0 or behind the data blocks. Checked
  // by checksums that were taken when the digest was; mended from the index when the disk changed them.
  Status ReadMetadata(uint64_t image_offset, std::span<char> out);

  // Writes the times of use to disk. At the end, and now and then.
  void SaveUseTimes();

  uint64_t mended_metadata() const { return mended_metadata_; }

 private:
  LayerCache(std::string folder, const Digest& index_digest, LayerIndex index)
      : folder_(std::move(folder)), index_digest_(index_digest), index_(std::move(index)) {}

  Status OpenFiles();
  Status OpenMap();
  // Makes the metadata good: on disk, or in memory when the disk takes none.
  Status PrepareMetadata();
  Result<bool> DiskMetadataIsGood();
  Status UnpackToDisk();
  void WriteEntry(uint32_t chunk, uint32_t use_time);
  uint64_t ImageOffset(uint64_t metadata_offset) const;
  uint64_t MetadataOffset(uint64_t image_offset) const;
  Status ReadMetadataPiece(uint64_t metadata_offset, std::string* piece);

  const std::string folder_;
  const Digest index_digest_;
  const LayerIndex index_;
  UniqueFd image_, map_file_;
  std::unique_ptr<CacheMap> map_;
  std::vector<uint32_t> metadata_checksums_;  // of each kMetadataPieceBytes of the metadata
  std::string metadata_;                      // only when the disk took none
  Mutex mend_mutex_;                          // one thread rewrites the metadata at a time
  std::atomic<uint64_t> mended_metadata_{0};
};

}  // namespace paceline::blocks
