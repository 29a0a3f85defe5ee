// Base64 with padding (RFC 4648 section 4): bytes in Kubernetes' JSON, credentials of registries. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline {

std::string EncodeBase64(std::string_view bytes);

// Line breaks and spaces are skipped, as hand-made files have them. kInvalidArgument for anything else outside the
// alphabet, a wrong length, or bytes after the padding.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace paceline
