#include "lib/api/straggler_policy.h"

#include "lib/api/codec_impl.h"
#include "lib/api/straggler_policy_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(StragglerPolicy);

}  // namespace paceline::api
