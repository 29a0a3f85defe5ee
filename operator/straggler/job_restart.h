// A start that a slow node holds up is ended so that the next one begins elsewhere (StragglerPolicy, restartJob): the
// wish is an annotation of the TrainingJob, which its own controller carries out; jobs of other kinds belong to others,
// whom an event advises. Level-triggered: to ask twice is to ask once. Callers: the straggler controller.
#pragma once

#include <string>
#include <string_view>

#include "lib/api/training_run.h"
#include "lib/kube/client.h"

namespace paceline::operator_ {

enum class RestartAnswer {
  kAsked,   // by this call or an earlier one
  kAdvise,  // another controller's job: only its user can restart it
  kPassed   // the job is gone, being deleted, or at another start by now
};

// Asks the job of `run` to end this start and begin the next; `reason` is for people. Blocks until the deadline; fails
// as the API server does.
Result<RestartAnswer> AskForRestart(kube::Client& client, const api::TrainingRun& run, std::string_view reason,
                                    Deadline deadline);

}  // namespace paceline::operator_
