// What a recorded hot set means for an image that is open: which of its chunks are fetched, and what is told of that.
// Shared by the plugin (HotSetRecorder) and by single mounts (MountHotSet). Thread-safe: no state; calls return at
// once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/blocks/engine/chunk_engine.h"
#include "lib/blocks/format/manifest.h"
#include "snapshotter/hot_set.h"

namespace paceline::snapshotter {

// What is known of the hot set of an image.
enum class HotSetPhase { kUnknown, kNone, kRecording, kRecorded, kFetched, kFailed };
std::string_view HotSetPhaseText(HotSetPhase phase);

struct HotSetFacts {
  HotSetPhase phase = HotSetPhase::kUnknown;
  uint64_t chunks = 0, bytes = 0;  // of the set, as far as it fits the image; stored bytes
  std::string digest;              // of the set
};

// Of the layers' indexes, bottom first.
std::vector<blocks::Digest> IndexDigests(const blocks::BlockImageManifest& manifest);

// `indexes` are those of the image. The set's phase is left to the caller.
HotSetFacts FactsAbout(const blocks::ImageReader& image, const std::vector<blocks::Digest>& indexes, const HotSet& set);

// Has the set's chunks fetched in its order, as far as the image has them, up to so many stored bytes. How many.
size_t PrefetchHotSet(blocks::ImageReader& image, const std::vector<blocks::Digest>& indexes, const HotSet& set,
                      uint64_t max_bytes);

}  // namespace paceline::snapshotter
