// What the snapshotter plugin of this node says of its images (docs/formats/snapshotter-status.md), as the node's plan
// reports it. Pure; caller: ImageWatch.
#pragma once

#include <string_view>
#include <vector>

#include "lib/api/node_plan.h"
#include "lib/base/result.h"

namespace paceline::agent {

// Newest last, at most api::kMaxImageReports. kDataLoss for what is no status; entries that make no sense are left out.
Result<std::vector<api::ImageReport>> ParseImageStatus(std::string_view text);

}  // namespace paceline::agent
