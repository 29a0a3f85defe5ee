// How an image came to a node and what it cost there: what the node's agent reports in NodePlan.status and the operator
// shows in TrainingRun.status. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::api {

// kLazy: opened from its block image, files come as they are read. kPulled: pulled and unpacked whole.
enum class ImageMode { kLazy, kPulled };

// What a node has of an image's hot set. kRecording: none was there, and one is being made.
enum class HotSetState { kNone, kRecording, kRecorded, kFetched, kFailed };

// Of one lazy image on one node, from its opening there on.
struct ImageFigures {
  int64_t read_bytes = 0;        // that programs read
  int64_t cache_bytes = 0;       // of the chunks for it: found on the node
  int64_t peer_bytes = 0;        // ... from other nodes
  int64_t registry_bytes = 0;    // ... from the store, on the wire
  int64_t prefetched_bytes = 0;  // of registry_bytes: before anybody asked
  int64_t hits = 0;              // chunks of reads that were there
  int64_t misses = 0;            // ... that the reader had to wait for

  friend bool operator==(const ImageFigures&, const ImageFigures&) = default;
};

// Share of chunks that were there when they were read, 0 to 1; nothing before the first read.
inline std::optional<double> HitRatio(const ImageFigures& figures) {
  const double all = static_cast<double>(figures.hits) + static_cast<double>(figures.misses);
  return all > 0 ? std::optional(static_cast<double>(figures.hits) / all) : std::nullopt;
}

// "Fetched", as in JSON.
std::string_view HotSetStateText(HotSetState state);

}  // namespace paceline::api
