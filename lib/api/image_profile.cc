#include "lib/api/image_profile.h"

#include "lib/api/codec_impl.h"
#include "lib/api/image_profile_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(ImageProfile);

}  // namespace paceline::api
