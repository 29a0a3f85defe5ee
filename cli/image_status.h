// `pacectl image status` without a directory: the images that the snapshotter plugin of this node has opened or was
// asked for (docs/formats/snapshotter-status.md), as a table. Pure.
#pragma once

#include <string_view>

#include "cli/output.h"
#include "lib/base/result.h"

namespace paceline::cli {

inline constexpr char kSnapshotterSocket[] = "/run/paceline/snapshotter/status.sock";

// One line an image, as the plugin gives them. kDataLoss for what is no status.
Result<Table> ImageStatusTable(std::string_view status);

}  // namespace paceline::cli
