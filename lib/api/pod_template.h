// The little that we ask of a pod template: containers with a name, and a restart policy that fits a gang. Everything
// else is the user's and is kept as it is. Internal to lib/api.
#pragma once

#include "lib/api/fields.h"

namespace paceline::api {

OrderedJson PodTemplateSchema();
void CheckPodTemplate(ErrorList& errors, const Json& pod_template);

}  // namespace paceline::api
