// `pacectl job restart`: asks a TrainingJob to end its current start and begin the next one, as a restart after a
// failure would, without counting as one. Blocks until the session's deadline.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/session.h"
#include "lib/api/training_job.h"

namespace paceline::cli {

// kNotFound for no such TrainingJob in the session's namespace, kInvalidArgument for one that has no start to end
// (suspended, complete, failed). Returns the job as it was asked. To ask twice for one start is to ask once.
Result<api::TrainingJob> AskForRestart(Session& session, const std::string& name, const std::string& reason);

// {"job", "namespace", "start", "next"}: numbers of the start that ends and of the one that begins.
nlohmann::json RestartValue(const api::TrainingJob& job);

}  // namespace paceline::cli
