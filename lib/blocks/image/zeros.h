// Whether bytes are all zeros: holes of files, the end of an archive. Internal to lib/blocks/image. Pure.
#pragma once

#include <cstring>
#include <string_view>

namespace paceline::blocks {

inline bool IsZero(std::string_view bytes) {
  return bytes.empty() || (bytes[0] == '\0' && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace paceline::blocks
