// Hot sets beside the converted images that they were recorded on (docs/formats/block-image.md, section 7), so that
// other nodes fetch first what a start needs. A set is a hint: it names chunks and nothing else, so a wrong one costs
// bytes and never correctness.
//
// Callers: HotSetRecorder, MountHotSet. Stateless; calls block for the store.
#pragma once

#include <string>

#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/format/hot_set_tag.h"
#include "snapshotter/hot_set.h"

namespace paceline::snapshotter {

inline constexpr char kHotSetArtifactType[] = "application/vnd.paceline.hot-set.v1";
inline constexpr char kHotSetMediaType[] = "application/vnd.paceline.hot-set.v1+json";

// `image`: digest of the converted image's manifest. kNotFound when the image has none; kDataLoss for what is none.
Result<HotSet> LoadHotSet(blocks::BlobStore& store, const blocks::Digest& image, Deadline deadline);

enum class HotSetSave { kFirst, kReplace };
// kAlreadyExists when the image has one, which stays (with kFirst).
Status SaveHotSet(blocks::BlobStore& store, const blocks::Digest& image, const HotSet& set, HotSetSave mode,
                  Deadline deadline);

}  // namespace paceline::snapshotter
