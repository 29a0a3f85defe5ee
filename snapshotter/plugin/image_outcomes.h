// How the images that the runtime asked for came to this node, and why not lazily: for the node's agent and for people.
// The latest are kept, in memory.
//
// RemoteImages tells, DescribeImages reads. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/blocks/format/digest.h"

namespace paceline::snapshotter {

struct ImageOutcome {
  std::string name, manifest;               // as the runtime named them
  std::optional<blocks::Digest> converted;  // opened lazily
  std::string reason, message;              // else why not: "NotConverted", or the name of a status code
  WallTime asked_at;
  std::optional<WallTime> ready_at;  // of a lazy one: a container could be made
};

// "NotConverted" for kNotFound, else the name of the code.
std::string FallBackReason(const Status& why);

class ImageOutcomes {
 public:
  static constexpr size_t kMaxKept = 64;

  explicit ImageOutcomes(const Clock& clock) : clock_(clock) {}

  // When a request arrives, for what follows.
  WallTime Now() const { return clock_.WallNow(); }
  void Opened(const std::string& name, const std::string& manifest, const blocks::Digest& converted, WallTime asked_at)
      EXCLUDES(mutex_);
  void Pulled(const std::string& name, const std::string& manifest, const Status& why, WallTime asked_at)
      EXCLUDES(mutex_);
  // A layer could not be mounted, so the runtime pulls it; nothing for an image that containers have been made of.
  void NotMounted(const blocks::Digest& converted, const Status& why) EXCLUDES(mutex_);
  // A container of the image is made.
  void Ready(const blocks::Digest& converted) EXCLUDES(mutex_);

  // Oldest first.
  std::vector<ImageOutcome> All() const EXCLUDES(mutex_);

 private:
  // In place of what is known of the image; a pull that goes on keeps its beginning.
  void Put(ImageOutcome outcome) EXCLUDES(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::vector<ImageOutcome> outcomes_ GUARDED_BY(mutex_);
};

}  // namespace paceline::snapshotter
