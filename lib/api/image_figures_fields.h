// The fields of ImageFigures and the enumerations beside it. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/image_figures.h"

namespace paceline::api {

template <>
struct EnumTable<ImageMode> {
  static constexpr std::pair<ImageMode, std::string_view> kEntries[] = {{ImageMode::kLazy, "Lazy"},
                                                                        {ImageMode::kPulled, "Pulled"}};
};

template <>
struct EnumTable<HotSetState> {
  static constexpr std::pair<HotSetState, std::string_view> kEntries[] = {{HotSetState::kNone, "None"},
                                                                          {HotSetState::kRecording, "Recording"},
                                                                          {HotSetState::kRecorded, "Recorded"},
                                                                          {HotSetState::kFetched, "Fetched"},
                                                                          {HotSetState::kFailed, "Failed"}};
};

template <typename V>
void Fields(V& v, const ImageFigures*) {
  using T = ImageFigures;
  v.Field("readBytes", &T::read_bytes, {.doc = "Bytes that programs read.", .minimum = 0});
  v.Field("cacheBytes", &T::cache_bytes, {.doc = "Bytes for it that the node had.", .minimum = 0});
  v.Field("peerBytes", &T::peer_bytes, {.doc = "Bytes for it from other nodes.", .minimum = 0});
  v.Field("registryBytes", &T::registry_bytes, {.doc = "Bytes for it from the store, on the wire.", .minimum = 0});
  v.Field("prefetchedBytes", &T::prefetched_bytes,
          {.doc = "Of registryBytes: those that came before anybody asked.", .minimum = 0});
  v.Field("hits", &T::hits, {.doc = "Chunks that were there when they were read.", .minimum = 0});
  v.Field("misses", &T::misses, {.doc = "Chunks that a reader had to wait for.", .minimum = 0});
}

}  // namespace paceline::api
