// Lays file contents out in the image's data blocks and cuts these into chunks, so that a change in one file or
// directory leaves the chunks elsewhere as they were: docs/formats/block-image.md, sections 2 and 3.4.
//
// Fed by the layer converter, file after file; gives chunks to a sink in the order of the image. Pure but for the sink.
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::blocks {

class ChunkCutter {
 public:
  // Gets each chunk's content: whole blocks.
  using Sink = std::function<Status(std::string content)>;

  ChunkCutter(uint32_t max_chunk_blocks, Sink sink);

  // Starts a file of about `size_bytes` (more is fine, too) that lies in `directory`.
  Status BeginFile(std::string_view directory, uint64_t size_bytes);
  // Adds to the file; each call starts at a block, so all but the last of a file bring whole blocks. Returns the first
  // block. kResourceExhausted when the image is full.
  Result<uint32_t> Append(std::string_view bytes);
  // After the last file.
  Status Finish();

  // Blocks given out so far; the first is block 1.
  uint32_t data_blocks() const { return next_block_ - 1; }

 private:
  Status Cut();

  const uint64_t max_bytes_;
  const Sink sink_;
  std::string open_;  // the chunk that grows
  std::string directory_;
  uint32_t next_block_ = 1;
};

}  // namespace paceline::blocks
