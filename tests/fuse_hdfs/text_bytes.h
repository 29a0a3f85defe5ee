// A text as the bytes that writers take.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace paceline::fuse_hdfs {

// Valid as long as `text` is.
inline std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace paceline::fuse_hdfs
