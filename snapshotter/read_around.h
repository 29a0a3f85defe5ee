// Fetches what lies behind each read of an image of which nobody knows yet what its start reads: neighbours are parts
// of the same package, and without them every read of a cold start waits for a request of its own. What comes so is not
// counted as read, so the recorded hot set has none of it.
//
// ImageLayers and RemoteImages note reads; MountHotSet and HotSetRecorder begin and end it. Thread-safe; calls return
// at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/blocks/engine/chunk_engine.h"

namespace paceline::snapshotter {

class ReadAround {
 public:
  // Borrows the image. `window_bytes` of chunk contents behind each read; 0: nothing.
  ReadAround(blocks::ImageReader& image, uint64_t window_bytes);

  void Begin() { is_active_ = true; }
  void End() { is_active_ = false; }

  // The layer is about to be read from `offset_bytes` on.
  void Note(size_t layer, uint64_t offset_bytes, size_t bytes) EXCLUDES(mutex_);

 private:
  blocks::ImageReader& image_;
  const uint64_t window_bytes_;
  std::atomic<bool> is_active_{false};
  Mutex mutex_;
  std::vector<std::vector<bool>> is_asked_ GUARDED_BY(mutex_);  // by layer and chunk
};

}  // namespace paceline::snapshotter
