// Letters without the locale. Internal to lib/net. Pure.
#pragma once

namespace paceline::net {

inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace paceline::net
