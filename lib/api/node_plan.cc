#include "lib/api/node_plan.h"

#include "lib/api/codec_impl.h"
#include "lib/api/node_plan_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(NodePlan);

std::string_view DependencyStateText(DependencyState state) { return EnumText(state); }

std::string_view InstallCauseText(InstallCause cause) { return EnumText(cause); }

}  // namespace paceline::api
