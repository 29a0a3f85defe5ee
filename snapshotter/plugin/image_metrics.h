// What lazy images cost and where their bytes came from: for Prometheus as sums over the node, and image by image as
// JSON for people. Thread-safe.
#pragma once

#include <string>

#include "lib/base/json.h"
#include "lib/blocks/engine/chunk_cache.h"
#include "snapshotter/plugin/hot_set_recorder.h"
#include "snapshotter/plugin/image_outcomes.h"
#include "snapshotter/plugin/image_table.h"
#include "snapshotter/plugin/plugin_metrics.h"

namespace paceline::snapshotter {

// Brings the families about bytes and reads up to date at each scrape of `registry`, for whose life the others are
// borrowed.
void FollowImages(MetricsRegistry& registry, PluginMetrics& metrics, const ImageTable& images,
                  const blocks::ChunkCache& cache);

// docs/formats/snapshotter-status.md. One line. `peers` is the member of that name, or null.
std::string DescribeImages(const ImageTable& images, const ImageOutcomes& outcomes, const HotSetRecorder& hot_sets,
                           Json peers);

}  // namespace paceline::snapshotter
