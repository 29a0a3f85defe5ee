#include "lib/api/training_job.h"

#include "lib/api/codec_impl.h"
#include "lib/api/training_job_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(TrainingJob);

JobSettings SettingsOf(const TrainingJobSpec& spec) {
  return {.startup = spec.startup,
          .checkpoints = spec.checkpoints,
          .tracing = spec.tracing,
          .straggler_policy = spec.straggler_policy};
}

}  // namespace paceline::api
