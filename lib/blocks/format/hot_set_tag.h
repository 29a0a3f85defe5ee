// How the hot set of a converted image is found in its store: docs/formats/block-image.md, section 7. Apart from the
// snapshotter, which reads and writes sets, because whoever removes an image removes its set with it.
#pragma once

#include <string>

#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

// `image`: digest of the converted image's manifest.
inline std::string HotSetTag(const Digest& image) { return "paceline-hot-v1-" + image.Hex(); }

}  // namespace paceline::blocks
