// The wish that a TrainingJob ends its current start and begins the next one: the annotations kRestartAnnotation and
// kRestartReasonAnnotation. It names the start, so that a wish that comes late, or twice, is none. Pure functions.
// Callers: pacectl and the straggler controller, who ask; the TrainingJob controller, which carries it out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "lib/api/training_job.h"

namespace paceline::api {

// Why it is asked for, when the job's annotations ask for the end of start `generation`; empty when they do not say.
std::optional<std::string> RequestedRestart(const TrainingJob& job, int64_t generation);

// A JSON merge patch that asks for the end of the start that `job`'s status speaks of. It holds for this object only:
// for another one of the same name the server answers with a conflict. `reason` is for people; empty: none.
nlohmann::json RestartPatch(const TrainingJob& job, std::string_view reason);

}  // namespace paceline::api
