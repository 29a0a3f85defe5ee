#include "lib/api/node_plan.h"

#include "lib/api/codec_impl.h"
#include "lib/api/node_plan_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(NodePlan);

}  // namespace paceline::api
