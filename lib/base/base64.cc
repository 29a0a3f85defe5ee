#include "lib/base/base64.h"

#include <algorithm>
#include <cstdint>

namespace paceline {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int ValueOf(char c) {
  const size_t at = kAlphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t have = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < have ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= have ? kAlphabet[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

Result<std::string> DecodeBase64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  int digits = 0;
  int padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    const int value = c == '=' ? 0 : ValueOf(c);
    if (value < 0) return InvalidArgumentError("base64: bad character");
    if (c == '=') {
      ++padding;
    } else if (padding > 0) {
      return InvalidArgumentError("base64: bytes after the padding");
    }
    group = group << 6 | static_cast<uint32_t>(value);
    if (++digits % 4 != 0) continue;
    if (padding > 2) return InvalidArgumentError("base64: too much padding");
    for (int i = 0; i < 3 - padding; ++i) bytes += static_cast<char>(group >> (16 - 8 * i) & 0xff);
    group = 0;
    if (padding > 0) padding += 8;  // a second padded group would be bytes after the padding
  }
  if (digits % 4 != 0) return InvalidArgumentError("base64: wrong length");
  return bytes;
}

}  // namespace paceline
