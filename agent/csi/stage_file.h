// The stage file: lines that a training program writes to /run/paceline/stage to say what it has reached
// (docs/formats/stage-marker.md). Written by tenants, so anything may be in it. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"

namespace paceline::agent {

struct StageLine {
  std::string name;  // "first_step"
  WallTime at;
  bool operator==(const StageLine&) const = default;
};

// The first line of each name, in the file's order, at most `max_stages` of them. A line is a name of lower-case
// letters, digits, '_' and '-' (at most 63), a blank, and seconds since 1970 with at most 9 decimals. Other lines,
// and a last line without its newline (it may still be being written), are skipped.
std::vector<StageLine> ParseStageFile(std::string_view text, size_t max_stages);

}  // namespace paceline::agent
