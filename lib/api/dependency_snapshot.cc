#include "lib/api/dependency_snapshot.h"

#include "lib/api/codec_impl.h"
#include "lib/api/dependency_snapshot_fields.h"

namespace paceline::api {

PACELINE_INSTANTIATE_KIND(DependencySnapshot);

std::string_view SnapshotStateText(SnapshotState state) { return EnumText(state); }

}  // namespace paceline::api
