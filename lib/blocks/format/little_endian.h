// Little-endian integers in byte buffers, for the formats of lib/blocks. Pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace paceline::blocks {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the formats are written as the machine holds them");

template <typename T>
T LoadLe(const char* at) {
  static_assert(std::is_integral_v<T>);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void StoreLe(char* at, T value) {
  static_assert(std::is_integral_v<T>);
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
void AppendLe(std::string* out, T value) {
  static_assert(std::is_integral_v<T>);
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace paceline::blocks
