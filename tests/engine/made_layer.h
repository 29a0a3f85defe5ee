// A layer made up for tests of the chunk engine: chunks of known contents in one blob, an index over them, and a store
// that gives the blob and can be told to fail. Metadata are bytes that nobody parses here.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/blocks/engine/chunk_engine.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

struct MadeLayer {
  // `blocks_of` gives the blocks of each chunk; every third chunk does not compress. `seed` tells layers apart.
  MadeLayer(const std::vector<uint32_t>& blocks_of, uint64_t seed);

  std::string blob;
  Digest blob_digest;
  std::shared_ptr<const std::string> index;
  Digest index_digest;
  std::string image;  // the whole EROFS image, as readers see it

  LayerSource source() const { return {index_digest, index}; }
};

// Gives the blobs of layers. Thread-safe.
class MadeStore final : public BlobStore {
 public:
  struct Read {
    Digest blob;
    uint64_t offset_bytes = 0, length_bytes = 0;
  };
  // Runs before each answer and may change it, fail, or block.
  using Fault = std::function<Status(const Read& read, std::span<char> out)>;

  void Add(const MadeLayer& layer);
  void SetFault(Fault fault) EXCLUDES(mutex_);
  std::vector<Read> reads() const EXCLUDES(mutex_);
  uint64_t read_bytes() const EXCLUDES(mutex_);

  Result<uint64_t> StatBlob(const Digest& digest, Deadline deadline) override;
  Status ReadBlob(const Digest& digest, uint64_t offset_bytes, std::span<char> out, Deadline deadline) override;
  Result<std::unique_ptr<BlobWriter>> NewBlob(Deadline) override { return UnimplementedError("read only"); }
  Result<StoredManifest> GetManifest(const std::string&, Deadline) override { return NotFoundError("no manifests"); }
  Result<Descriptor> PutManifest(const std::string&, const std::string&, std::string_view, Deadline) override {
    return UnimplementedError("read only");
  }
  std::string Describe() const override { return "made"; }

 private:
  mutable Mutex mutex_;
  std::map<Digest, std::string> blobs_ GUARDED_BY(mutex_);
  std::vector<Read> reads_ GUARDED_BY(mutex_);
  Fault fault_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
