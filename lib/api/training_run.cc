#include "lib/api/training_run.h"

#include "lib/api/codec_impl.h"
#include "lib/api/training_run_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(TrainingRun);

std::string_view StageNameText(StageName name) { return EnumText(name); }

std::string_view RunPhaseText(RunPhase phase) { return EnumText(phase); }

std::string_view StartKindText(StartKind kind) { return EnumText(kind); }

std::string_view SnapshotOutcomeText(SnapshotOutcome outcome) { return EnumText(outcome); }

}  // namespace paceline::api
