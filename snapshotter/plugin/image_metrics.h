// What lazy images cost and where their bytes came from: for Prometheus as sums over the node, and image by image as
// JSON for people. Thread-safe.
#pragma once

#include <string>

#include "lib/base/metrics.h"
#include "lib/blocks/engine/chunk_cache.h"
#include "snapshotter/plugin/image_table.h"

namespace paceline::snapshotter {

// Families that are brought up to date at each scrape. `images` and `cache` are borrowed for the registry's life.
void AddImageMetrics(MetricsRegistry& metrics, const ImageTable& images, const blocks::ChunkCache& cache);

// {"images": [{"name", "digest", "store", "layers", "reads", ...}, ...]}
std::string DescribeImages(const ImageTable& images);

}  // namespace paceline::snapshotter
