// What the agent remembers of one volume, and its form on disk: one JSON object per file, written and read only here. A
// record is written before anything is made for the volume and removed after everything is gone, so whatever a crash
// leaves behind can be found from the records. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/csi/volume_type.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::agent {

enum class VolumePhase {
  kPublishing,    // something may have been made; nobody was told that it is there
  kPublished,     // kubelet was told, or is about to be
  kUnpublishing,  // something may be left
};

// "Publishing", "Published", "Unpublishing".
std::string_view VolumePhaseName(VolumePhase phase);

struct VolumeRecord {
  VolumeSpec spec;
  VolumePhase phase = VolumePhase::kPublishing;
  WallTime requested_at{};                 // kubelet's first call
  std::optional<WallTime> published_at;    // first success
  std::optional<WallTime> unpublished_at;  // only in the list of ended volumes, never on disk
  int64_t repeat_count = 0;                // further calls for a published volume; not kept over a restart
};

std::string RenderVolumeRecord(const VolumeRecord& record);
// kDataLoss for anything that RenderVolumeRecord does not write; unknown fields of a newer version are ignored.
// `kubelet_dir` is needed to check the target again: a record is no way round that check.
Result<VolumeRecord> ParseVolumeRecord(std::string_view text, std::string_view kubelet_dir);

}  // namespace paceline::agent
