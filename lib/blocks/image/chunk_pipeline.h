// Compresses chunks on several threads and writes them, in the order they came, to a data blob; equal chunks once. The
// table of chunks is what remains.
//
// Fed by the layer converter from one thread, which also writes. Holds at most `window` chunks in memory. Waits for its
// own threads only, whose work is bounded; blocks for the blob writer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/result.h"
#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

// Chunks that a store holds already, in blobs of earlier layers. Immutable while a pipeline uses it.
struct KnownChunks {
  std::vector<BlobEntry> blobs;
  std::unordered_map<Digest, Chunk, DigestHash> chunks;  // their blob is a number in `blobs`
};

// Threads that compress, shared by the pipelines of a conversion.
class ChunkPipeline {
 public:
  using Writer = std::function<Status(std::string_view bytes)>;

  // `threads` >= 1. `known` is borrowed and may be null: its chunks are named, not written.
  ChunkPipeline(int threads, int zstd_level, Writer writer, const KnownChunks* known = nullptr);
  ~ChunkPipeline();

  // Takes a chunk's content; waits while the window is full. A failure of the writer is final.
  Status Push(std::string content);
  // Waits for all chunks and writes them.
  Status Finish();

  // After Finish: in the order of the image. Blob number 0 is what was written, kKnownBlobs + n the known blob n.
  std::vector<Chunk>& chunks() { return chunks_; }
  static constexpr uint32_t kKnownBlobs = 1U << 16;
  uint64_t stored_bytes() const { return stored_bytes_; }  // that were written

 private:
  struct Job {
    std::string content, stored;
    uint32_t blocks = 0;
    Digest digest;
    const Chunk* known = nullptr;  // where the store has it
    enum class State { kWaiting, kTaken, kDone };
    State state = State::kWaiting;  // guarded by the pipeline's mutex; the rest belongs to whoever has taken the job
  };

  void Run(const std::stop_token& stop);
  Status WriteFront();

  const int zstd_level_;
  const size_t window_;
  const Writer writer_;
  const KnownChunks* known_;
  std::vector<Chunk> chunks_;
  std::unordered_map<Digest, uint32_t, DigestHash> first_of_;  // number of the chunk that stored this content
  uint64_t stored_bytes_ = 0;

  Mutex mutex_;
  CondVar has_work_, has_done_;
  std::deque<std::unique_ptr<Job>> jobs_ GUARDED_BY(mutex_);
  std::deque<Job*> waiting_ GUARDED_BY(mutex_);
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace paceline::blocks
