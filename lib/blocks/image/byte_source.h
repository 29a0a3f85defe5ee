// Streams of bytes that are pulled: a layer's blob from a file or a registry, the same decompressed, counted and
// hashed, or read ahead in a thread. The converter stacks them.
//
// One thread at a time uses a source; Read blocks for whatever is below. Errors are those of the layer below, and
// kDataLoss for compressed data that is damaged or cut short.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At least one byte, at most out.size(), which is not 0. 0 at the end, and again at each call after it.
  virtual Result<size_t> Read(std::span<char> out) = 0;
};

// Bytes of a file from `offset_bytes` on, at most `size_bytes` of them; kDataLoss when the file has fewer.
std::unique_ptr<ByteSource> NewFileSource(UniqueFd file, std::string path, uint64_t offset_bytes, uint64_t size_bytes);
// Opens the file and reads all of it.
Result<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);

// Of a string, which it keeps. For tests and small blobs.
std::unique_ptr<ByteSource> NewStringSource(std::string bytes);

// Decompresses what begins like gzip (any number of members) or zstd; passes anything else on as it is.
Result<std::unique_ptr<ByteSource>> NewDecompressedSource(std::unique_ptr<ByteSource> below);
// Used by it.
std::unique_ptr<ByteSource> NewGzipSource(std::unique_ptr<ByteSource> below);
std::unique_ptr<ByteSource> NewZstdSource(std::unique_ptr<ByteSource> below);

// Reads `below` in a thread of its own, some pieces ahead, so that decompressing and what comes after run side by side.
// Destruction stops the thread once its current Read returns.
std::unique_ptr<ByteSource> NewReadAheadSource(std::unique_ptr<ByteSource> below);

// What went through.
struct StreamTally {
  Sha256 hash;
  uint64_t bytes = 0;
};
// Counts and hashes into `tally`, which must outlive it.
std::unique_ptr<ByteSource> NewTallySource(std::unique_ptr<ByteSource> below, StreamTally* tally);

// Reads exactly out.size() bytes; kDataLoss when the stream ends before.
Status ReadFull(ByteSource& source, std::span<char> out);
// Reads to the end; kResourceExhausted when there is more than `max_bytes`.
Result<std::string> ReadAll(ByteSource& source, size_t max_bytes);

}  // namespace paceline::blocks
