// Records what the first start of an image reads and keeps it beside the image; fetches it first where the image comes
// next. Nobody has to ask for either: a pull of an image looks for its set, and the first container of an image without
// one has its reads recorded for a while.
//
// RemoteImages tells what happens; one thread of its own does the work. Thread-safe; the calls return at once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "snapshotter/hot_set_use.h"
#include "snapshotter/plugin/image_table.h"
#include "snapshotter/plugin/plugin_metrics.h"

namespace paceline::snapshotter {

struct HotSetOptions {
  std::string folder;                               // sets recorded here
  Duration window = std::chrono::seconds(120);      // of reads, from the first container on
  uint64_t max_prefetch_bytes = uint64_t{4} << 30;  // of stored chunks, for one image
  uint64_t fill_below_bytes = uint64_t{8} << 20;    // images without a set whose stored chunks are less come whole
  Duration store_limit = std::chrono::seconds(60);
  bool is_shared = true;  // recorded sets go to the image's store
};

class HotSetRecorder {
 public:
  // Borrows what is passed by reference.
  HotSetRecorder(HotSetOptions options, ImageTable& images, const Clock& clock, Logger& log, PluginMetrics& metrics);

  // An image is being pulled: what its set names is fetched.
  void OnPull(const ImagePtr& image) EXCLUDES(mutex_);
  // A container of the image `chain.back()` is made; `chain` has the images of all its lazy layers, lowest first.
  void OnContainer(const std::vector<ImagePtr>& chain) EXCLUDES(mutex_);

  HotSetFacts FactsOf(const blocks::Digest& image) const EXCLUDES(mutex_);

  // The thread's work, until `stop`.
  void Run(std::stop_token stop) EXCLUDES(mutex_);

 private:
  enum class State { kUnknown, kAbsent, kRecording, kDone };
  struct Entry {
    std::vector<ImagePtr> chain;  // held while there is something to do
    State state = State::kUnknown;
    bool has_container = false;
    TimePoint due;
    HotSetFacts facts;  // but for kNone and kRecording, which follow from the state
  };
  struct Task {
    blocks::Digest image;
    std::vector<ImagePtr> chain;
    State state = State::kUnknown;
  };

  std::optional<Task> NextTask(std::stop_token stop) EXCLUDES(mutex_);
  // Looks for the set and fetches what it names. Nothing when there is none.
  std::optional<HotSetFacts> Fetch(const OpenedImage& image);
  HotSetFacts Prefetch(const OpenedImage& image, const HotSet& set);
  // What helps a first start: all of a small image, the neighbourhood of each read of a large one.
  void HelpFirstStart(const OpenedImage& image);
  HotSetFacts Record(const std::vector<ImagePtr>& chain);
  Status Share(const OpenedImage& image, const HotSet& set);
  void Count(const char* result) { metrics_.hot_sets.With({result}).Add(); }

  const HotSetOptions options_;
  ImageTable& images_;
  const Clock& clock_;
  Logger& log_;
  PluginMetrics& metrics_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<blocks::Digest, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace paceline::snapshotter
