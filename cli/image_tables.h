// What `pacectl image` prints of converted images. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/image/image_check.h"
#include "lib/blocks/image/image_converter.h"

namespace paceline::cli {

// One line for each layer, bottom first.
Table ConvertTable(const blocks::ImageReport& report);
nlohmann::json ConvertValue(const blocks::ImageReport& report, const std::string& store, double seconds);
// "converted 3 of 5 layers of sha256:... to sha256:..., 943.1 MiB of tar to 412.0 MiB, in 12.3 s"
std::string ConvertSummary(const blocks::ImageReport& report, double seconds);

// A layer as it lies in a store. `checked` is filled by inspection (from the index) and by verification alike.
struct ShownLayer {
  blocks::BlockLayer layer;
  blocks::CheckedLayer checked;
  Status status;  // of the verification
};
struct ShownImage {
  blocks::Descriptor manifest;
  blocks::BlockImageManifest image;
  std::vector<ShownLayer> layers;
};
enum class LayerStatusColumn { kShow, kHide };
Table ImageTable(const ShownImage& image, LayerStatusColumn column);
nlohmann::json ImageValue(const ShownImage& image, LayerStatusColumn column);

// What the process behind a mounted image has told of itself, a row for each figure; what it does not tell is left out.
Table MountTable(const nlohmann::json& stats);

}  // namespace paceline::cli
