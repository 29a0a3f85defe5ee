// The hot set of one image that `serve` mounts: has fetched first what an earlier mount has recorded, and records what
// this one reads where there is no set yet or a much smaller one. Sets lie beside the image in its store, or on this
// node when the store takes none. docs/formats/dependency-snapshot.md, section 7.
//
// Made by the serve command. A thread of its own does the work, so that no mount waits for a store. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "lib/blocks/format/folder_store.h"
#include "snapshotter/hot_set_store.h"
#include "snapshotter/hot_set_use.h"

namespace paceline::snapshotter {

class ReadAround;

enum class HotSetUse { kNone, kFetch, kRecord };  // kRecord: fetch as well

struct MountHotSetOptions {
  HotSetUse use = HotSetUse::kFetch;
  std::optional<HotSet> given;                      // taken in place of the image's; then nothing is recorded
  std::string folder;                               // of sets of this node
  size_t max_kept = 64;                             // there
  Duration window = std::chrono::seconds(120);      // of reads, from the first one on
  uint64_t max_prefetch_bytes = uint64_t{4} << 30;  // of stored chunks
  Duration store_limit = std::chrono::seconds(15);
  Duration last_limit = std::chrono::seconds(5);  // of what is done at the end of the mount
};

// The mounted image; borrowed.
struct HotSetImage {
  blocks::Digest digest;  // of the converted image's manifest
  std::vector<blocks::Digest> indexes;
  blocks::ImageReader& reader;
  ReadAround& around;
};

class MountHotSet {
 public:
  using OpenStore = std::function<Result<std::shared_ptr<blocks::BlobStore>>(blocks::StoreAccess access)>;

  // Begins to look for the set. Borrows `clock`, `log` and what `image` refers to.
  MountHotSet(MountHotSetOptions options, HotSetImage image, OpenStore open_store, const Clock& clock, Logger& log);
  // Drops what was not kept yet.
  ~MountHotSet();

  // To be called once the image is unmounted: keeps what was recorded until then, within `last_limit`. Nothing when
  // called again.
  void Finish() EXCLUDES(mutex_);

  HotSetFacts facts() const EXCLUDES(mutex_);

 private:
  void Run(const std::stop_token& stop);
  // Looks for the set and has it fetched; false when nothing is to be recorded after that.
  bool Begin();
  Result<HotSet> Find(Deadline deadline);
  Result<HotSet> FindOnNode() const;
  // True at the end of the window, false when the mount ended before.
  bool AwaitWindow(const std::stop_token& stop) const;
  // What was read, if it is worth to be kept.
  void Record(Deadline deadline);
  Status Share(const HotSet& set, Deadline deadline);
  Status KeepOnNode(const HotSet& set) const;
  std::string PathOnNode() const { return options_.folder + "/" + image_.digest.Hex() + ".json"; }
  void Tell(HotSetPhase phase, const HotSet& set) EXCLUDES(mutex_);

  const MountHotSetOptions options_;
  const HotSetImage image_;
  const OpenStore open_store_;
  const Clock& clock_;
  Logger& log_;
  // Of the thread, and of Finish after its end.
  HotSet known_;
  HotSetSave save_mode_ = HotSetSave::kFirst;
  bool is_recording_ = false;
  mutable Mutex mutex_;
  HotSetFacts facts_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace paceline::snapshotter
