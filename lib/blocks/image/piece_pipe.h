// Bytes from a thread that has them to one that reads them, some ahead. Internal to lib/blocks/image. Thread-safe, for
// one writer and one reader.
#pragma once

#include <deque>
#include <span>
#include <stop_token>
#include <string>

#include "lib/base/mutex.h"
#include "lib/base/result.h"

namespace paceline::blocks {

class PiecePipe {
 public:
  // The writer waits while more than `max_waiting_bytes` have not been read.
  explicit PiecePipe(size_t max_waiting_bytes) : max_waiting_bytes_(max_waiting_bytes) {}

  // Blocks for the reader. kCancelled once `stop` is asked for and Wake was called.
  Status Put(std::string piece, const std::stop_token& stop) EXCLUDES(mutex_);
  // No more comes; the reader gets `end` behind the last piece when it is an error.
  void Finish(Status end) EXCLUDES(mutex_);
  // After stopping the writer: it looks at its stop token.
  void Wake() EXCLUDES(mutex_);

  // At most out.size() bytes; 0 at the end. Blocks for the writer.
  Result<size_t> Read(std::span<char> out) EXCLUDES(mutex_);

 private:
  const size_t max_waiting_bytes_;
  std::string piece_;  // the reader's own
  size_t at_ = 0;
  Mutex mutex_;
  CondVar has_piece_, has_room_;
  std::deque<std::string> ready_ GUARDED_BY(mutex_);
  size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  bool is_done_ GUARDED_BY(mutex_) = false;
  Status end_ GUARDED_BY(mutex_);
};

}  // namespace paceline::blocks
