// Converts one layer: a tar stream in, data and index blobs in a store out. Bounded memory: the tree of names and
// attributes, some chunks, the index. docs/formats/block-image.md.
//
// Called by the image converter; the agent's dependency snapshots use it for a tree of their own. Blocks for the source
// and the store. Independent conversions may run at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/byte_source.h"
#include "lib/blocks/image/chunk_pipeline.h"
#include "lib/blocks/image/layer_tree.h"

namespace paceline::blocks {

struct ConvertOptions {
  uint32_t max_chunk_blocks = 16;  // 64 KiB
  int zstd_level = 3;
  int threads = 1;                                 // that compress
  Duration store_limit = std::chrono::minutes(2);  // of one call to the store
  const KnownChunks* known = nullptr;              // borrowed: what need not be stored again
};

// What a person who waits wants to see. Written by the conversion, read by anybody.
struct ConvertProgress {
  std::atomic<uint64_t> source_bytes{0};  // read of the original, compressed blobs
  std::atomic<uint64_t> tar_bytes{0};     // decompressed
  std::atomic<uint64_t> stored_bytes{0};  // of data blobs
};

struct SourceBlob {
  std::unique_ptr<ByteSource> blob;
  Digest digest;            // of the blob
  uint64_t size_bytes = 0;  // of the blob
  Digest diff_id;           // of what it decompresses to
};

struct ConvertedLayer {
  BlockLayer layer;
  // Whether the result holds only above the same lower layers: LayerTree::needs_lower.
  bool needs_lower = false;
  uint64_t tar_bytes = 0;
  uint64_t stored_bytes = 0;  // of the data blob that was written, if any
  uint64_t inodes = 0, file_bytes = 0, chunks = 0;
  uint64_t dropped = 0;  // attributes and names that were left out
};

// kDataLoss when the blob's digest, size or DiffID is not as said, or the archive is damaged; kUnimplemented and
// kInvalidArgument for what a block image cannot hold (the image is then used as it is); kCancelled. After a failure
// the store holds nothing that a reader could find.
Result<ConvertedLayer> ConvertLayer(SourceBlob source, LowerTree* lower, BlobStore& store,
                                    const ConvertOptions& options, const Clock& clock, ConvertProgress* progress,
                                    std::stop_token stop);

// The same for a plain tar stream that is made on the spot and whose digest nobody knows before: a tree of our own. The
// layer's DiffID is that of the stream, and `source` is absent.
Result<ConvertedLayer> ConvertTree(std::unique_ptr<ByteSource> tar, BlobStore& store, const ConvertOptions& options,
                                   const Clock& clock, ConvertProgress* progress, std::stop_token stop);

}  // namespace paceline::blocks
