// `pacectl run compare`: starts of a job side by side, or of several jobs: stage by stage, the slowest node of each, a
// full start against a hot restart. Pure functions from TrainingRuns to text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/api/training_run.h"
#include "lib/base/result.h"

namespace paceline::cli {

// What `names` mean among `runs`, in the order to show: one job stands for its starts (the last eight, oldest first),
// several names for a run each, a job for its newest. kNotFound as FindRun; kInvalidArgument when one run is left over
// with nothing to compare it to.
Result<std::vector<api::TrainingRun>> RunsToCompare(const std::vector<api::TrainingRun>& runs,
                                                    const std::vector<std::string>& names);

// A table of the runs with the longest time of each stage, a table of their slowest nodes, and in words how the last
// differs from the first.
std::string CompareRuns(const std::vector<api::TrainingRun>& runs);
// [{run, namespace, job, generation, startKind, startupSeconds, workerSeconds, gpus, gpuSeconds, stages: [{name,
// p50Seconds, maxSeconds, maxToMedian, slowestNode}]}]
nlohmann::json CompareRunsValue(const std::vector<api::TrainingRun>& runs);

}  // namespace paceline::cli
