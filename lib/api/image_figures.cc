#include "lib/api/image_figures.h"

#include "lib/api/image_figures_fields.h"

namespace paceline::api {

std::string_view HotSetStateText(HotSetState state) { return EnumText(state); }

}  // namespace paceline::api
