// What pacectl says about jobs and their starts: lists, details, and the explanation of a startup. Pure functions from
// API objects to text; `now` is passed in so that open stages and ages can be computed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "cli/waterfall.h"
#include "lib/api/training_job.h"
#include "lib/api/training_run.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::cli {

enum class NamespaceColumn { kHide, kShow };

inline constexpr double kSecondsPerHour = 3600;  // GPU time is told in hours

// One row a run, newest first.
Table RunTable(std::vector<api::TrainingRun> runs, NamespaceColumn column, WallTime now);

// One row a job: every TrainingJob, and every job of another kind that has a run. The run columns show the newest one.
Table JobTable(const std::vector<api::TrainingJob>& jobs, const std::vector<api::TrainingRun>& runs,
               NamespaceColumn column, WallTime now);

// The same as JobTable for programs: [{namespace, name, kind, phase, latestRun, ...}].
nlohmann::json JobList(const std::vector<api::TrainingJob>& jobs, const std::vector<api::TrainingRun>& runs);

// The run called `name`, else the newest run of the job called `name`. kNotFound says what there is instead.
Result<api::TrainingRun> FindRun(const std::vector<api::TrainingRun>& runs, std::string_view name);

// All that is known of a run, as "key  value" lines and a table of stages.
std::string ShowRun(const api::TrainingRun& run, WallTime now);

// The startup waterfall, the stages with their shares, and what to do about the largest.
std::string ExplainRun(const api::TrainingRun& run, const WaterfallStyle& style, WallTime now);
// The same numbers for programs: {run, wallSeconds, workers: [{rank, pod, node, stages: [{name, seconds}]}], advice,
// images, bytes, hotSet}; the last three as in the run's status.
nlohmann::json ExplainRunValue(const api::TrainingRun& run, WallTime now);

// Sentences in order of importance: what took the time or went wrong, and what to do. Empty when nothing stands out.
std::vector<std::string> Advise(const api::TrainingRun& run);

// "5s", "12m", "3h", "4d" as in kubectl.
std::string FormatAge(Duration age);

}  // namespace paceline::cli
