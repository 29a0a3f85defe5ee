// Carries out a plan for a TrainingJob: the only code that writes its Service and Jobs. Every action may be repeated:
// what exists already and is ours counts as done.
#pragma once

#include <string>
#include <vector>

#include "lib/api/training_job.h"
#include "lib/kube/client.h"
#include "operator/training_job/plan.h"

namespace paceline::operator_ {

// Something that the server refused and will refuse again until a person changes something.
struct JobRefusal {
  std::string reason;   // "NameConflict", "ServiceRejected", "JobRejected", "NotAllowed"; empty: none
  std::string message;  // what to do about it
};

// Blocks until `deadline`. Creates in order, stopping at the first refusal, which is returned as a value; other
// failures are a Status. ConfirmJob is not carried out here.
Result<JobRefusal> ApplyCreations(const api::TrainingJob& job, const std::vector<TrainingJobAction>& actions,
                                  kube::Client& client, Deadline deadline);

// Deletes; what is gone already is done. To be called after the status was written, because the status then is all that
// remembers the start.
Status ApplyDeletions(const api::TrainingJob& job, const std::vector<TrainingJobAction>& actions, kube::Writer& writer,
                      Deadline deadline);

}  // namespace paceline::operator_
