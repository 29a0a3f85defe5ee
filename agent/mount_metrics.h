// Counters of the checkpoint mounts of this node, as the agent sees them: bytes, restarts, whether they are well. Mount
// processes have no port of their own to be scraped at.
#pragma once

#include <functional>
#include <vector>

#include "agent/csi/pod_reports.h"
#include "lib/base/metrics.h"

namespace paceline::agent {

// Refreshed at each scrape from `pods`, which is called from any thread, must not block and must live as long as
// anything renders `metrics`. Series go when their pod has ended.
void AddMountMetrics(MetricsRegistry& metrics, std::function<std::vector<PodReport>()> pods);

}  // namespace paceline::agent
