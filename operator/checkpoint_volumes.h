// The volumes through which the pods of a job see its checkpoint directories: inline volumes of our CSI driver, type
// hdfs (docs/volumes.md). The TrainingJob controller puts them into its pod template, the webhook into pods of
// annotated jobs. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "lib/api/job_settings.h"

namespace paceline::operator_ {

// One for each checkpoint, named paceline-checkpoint-NAME.
std::vector<nlohmann::json> CheckpointVolumes(const std::vector<api::Checkpoint>& checkpoints);
// For every container. They receive later mounts, so that a mount that died can be put right under a running container.
std::vector<nlohmann::json> CheckpointMounts(const std::vector<api::Checkpoint>& checkpoints);

}  // namespace paceline::operator_
