#include "lib/api/incident.h"

#include "lib/api/codec_impl.h"
#include "lib/api/incident_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(Incident);

}  // namespace paceline::api
