// What to do about a startup stage that takes long, for pacectl and the job page. Pure.
#pragma once

#include <vector>

#include "lib/api/advice.h"
#include "lib/api/training_run.h"

namespace paceline::api {

// About a stage that took most of a startup.
const Advice& StageAdvice(StageName name);

// About a stage that took one worker much longer than the others.
inline constexpr Advice kUnevenStage{"pacectl run explain, job page", "uneven",
                                     "a stage took one worker much longer than the median",
                                     "everybody waits for the slowest", "look at the node that is named"};
// About a feature that gave way to the ordinary path.
inline constexpr Advice kFallbackAdvice{"pacectl run explain, job page", "fallback",
                                        "a feature gave way to the ordinary path on a node",
                                        "this start was as slow as without it", "the message says why"};
// About a startup that held many GPUs.
inline constexpr Advice kStartupCostAdvice{"pacectl run explain, job page", "cost",
                                           "the GPU time that a start held before its first step",
                                           "these GPU-hours trained nothing", "shorten the largest stage first"};

// True when the slowest worker of the stage took so much longer than the median that a person would feel it; never
// with fewer than three workers.
bool IsUneven(const Stage& stage);

// All of the above, for docs/messages.md.
std::vector<Advice> StartupMessages();

}  // namespace paceline::api
