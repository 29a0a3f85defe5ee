// UTF-8 checks for text that comes from outside (file names, command output, other machines) and goes into formats that
// must be valid UTF-8: JSON, log lines, Prometheus labels. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace paceline {

// Length in bytes (1..4) of the valid UTF-8 sequence at the start of `text`; 0 when there is none. Overlong forms,
// surrogates and code points past U+10FFFF are not valid.
size_t Utf8SequenceLength(std::string_view text);

bool IsValidUtf8(std::string_view text);

// `text` with each byte that belongs to no valid sequence replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// ReplaceInvalidUtf8, cut to at most `max_bytes` between two characters. For fields with a limit on the server.
std::string TruncateUtf8(std::string_view text, size_t max_bytes);

}  // namespace paceline
