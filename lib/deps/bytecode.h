// Python's compiled files (.pyc): which of them Python would use, and how one is made to fit a source whose time was
// changed. The layout is that of PEP 552: magic (4), flags (4), then the source's time and size, or a hash of it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::deps {

inline constexpr size_t kBytecodeHeader = 16;

enum class Bytecode {
  kByTime,   // bound to its source by time and size, and fits
  kByHash,   // bound by a hash, or to nothing: no time in it
  kStale,    // made from another version of its source
  kUnknown,  // none of Python's, or older than PEP 552
};

// `header` is the beginning of the file; time in seconds and size in bytes are those of its source.
Bytecode CheckBytecode(std::string_view header, int64_t source_time_s, uint64_t source_bytes);

// Puts another time of the source into a header that is kByTime.
void SetBytecodeTime(int64_t source_time_s, char* header);

// "/a/__pycache__/m.cpython-311.opt-1.pyc" -> "/a/m.py"; "" for a path that is no such file.
std::string BytecodeSource(std::string_view path);

}  // namespace paceline::deps
