// One stage over all workers: shortest, median and longest, and who was slowest. Pure; caller: run_status.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/api/training_run.h"
#include "operator/training_run/stages.h"

namespace paceline::operator_ {

struct WorkerSpans {
  int64_t rank = 0;
  std::string pod;
  std::string node;
  std::vector<StageSpan> spans;
};

// One entry for each stage that any worker has reached, in order. `end` is absent while a worker is in the stage or
// before it. A stage's source is the least exact of its workers'.
std::vector<api::Stage> SummarizeStages(const std::vector<WorkerSpans>& workers);

}  // namespace paceline::operator_
