// Looks for credentials in small text files, so that they never get into a store, out of which nothing can be taken
// again: docs/formats/dependency-snapshot.md, section 4. Pure; called for every captured file that may be text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::deps {

inline constexpr size_t kMaxScannedBytes = 1U << 20;

// What was found: "a private key", "a token of GitHub", ...; "" for nothing. Never the secret itself. `path` decides
// what counts: packages bring keys for their tests, and examples of URLs in their sources.
std::string FindSecret(std::string_view path, std::string_view text);

// Whether it is worth looking at, by its first bytes.
bool IsText(std::string_view beginning);

}  // namespace paceline::deps
