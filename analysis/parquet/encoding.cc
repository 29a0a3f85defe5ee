#include "analysis/parquet/encoding.h"

#include <algorithm>
#include <cstring>

namespace paceline::analysis {
namespace {

bool TakeVarint(std::string_view bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at >= bytes.size()) return false;
    const auto byte = static_cast<uint8_t>(bytes[at++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

bool TakeZigzag(std::string_view bytes, size_t& at, int64_t& value) {
  uint64_t raw = 0;
  if (!TakeVarint(bytes, at, raw)) return false;
  value = static_cast<int64_t>(raw >> 1) ^ -static_cast<int64_t>(raw & 1);
  return true;
}

// Bits from the lowest up, the lowest byte first.
class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}
  // The caller makes sure that there are as many bits. `width` is 0 to 64.
  uint64_t Take(int width) {
    uint64_t value = 0;
    for (int have = 0; have < width;) {
      const int in_byte = static_cast<int>(bit_ % 8);
      const int count = std::min(8 - in_byte, width - have);
      const auto byte = static_cast<uint8_t>(bytes_[bit_ / 8]);
      value |= (static_cast<uint64_t>(byte >> in_byte) & ((1u << count) - 1)) << have;
      have += count;
      bit_ += static_cast<size_t>(count);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  size_t bit_ = 0;
};

}  // namespace

bool DecodeHybrid(std::string_view bytes, int bit_width, size_t count, std::vector<uint32_t>& values) {
  if (bit_width < 0 || bit_width > 32) return false;
  const size_t end = values.size() + count;
  const size_t value_bytes = (static_cast<size_t>(bit_width) + 7) / 8;
  for (size_t at = 0; values.size() < end;) {
    uint64_t header = 0;
    if (!TakeVarint(bytes, at, header)) return false;
    const size_t left = end - values.size();
    if ((header & 1) == 0) {
      const uint64_t run = header >> 1;
      if (run == 0 || value_bytes > bytes.size() - at) return false;
      uint32_t value = 0;
      std::memcpy(&value, bytes.data() + at, value_bytes);
      at += value_bytes;
      values.insert(values.end(), std::min<uint64_t>(run, left), value);
      continue;
    }
    const uint64_t groups = header >> 1;
    if (groups == 0 || groups > (1ull << 32)) return false;
    const uint64_t packed = groups * static_cast<uint64_t>(bit_width);
    if (packed > bytes.size() - at) return false;
    BitReader bits(bytes.substr(at, packed));
    const size_t take = std::min<uint64_t>(groups * 8, left);
    for (size_t i = 0; i < take; i++) values.push_back(static_cast<uint32_t>(bits.Take(bit_width)));
    at += packed;
  }
  return true;
}

bool DecodeDeltaBinaryPacked(std::string_view bytes, size_t count, std::vector<int64_t>& values, size_t* used) {
  size_t at = 0;
  uint64_t block_size = 0, miniblocks = 0, total = 0;
  int64_t first = 0;
  if (!TakeVarint(bytes, at, block_size) || !TakeVarint(bytes, at, miniblocks) || !TakeVarint(bytes, at, total) ||
      !TakeZigzag(bytes, at, first)) {
    return false;
  }
  constexpr uint64_t kMaxBlock = 1 << 20;
  if (block_size == 0 || block_size > kMaxBlock || miniblocks == 0 || block_size % miniblocks != 0) return false;
  const uint64_t per_miniblock = block_size / miniblocks;
  if (per_miniblock % 8 != 0 || total < count) return false;
  const size_t end = values.size() + count;
  auto value = static_cast<uint64_t>(first);  // deltas wrap around
  if (count > 0) values.push_back(first);
  uint64_t left_in_page = total > 0 ? total - 1 : 0;
  while (left_in_page > 0) {
    int64_t min_delta = 0;
    if (!TakeZigzag(bytes, at, min_delta) || miniblocks > bytes.size() - at) return false;
    const std::string_view widths = bytes.substr(at, miniblocks);
    at += miniblocks;
    for (uint64_t m = 0; m < miniblocks && left_in_page > 0; m++) {
      const auto width = static_cast<uint8_t>(widths[m]);
      const uint64_t packed = per_miniblock / 8 * width;
      if (width > 64 || packed > bytes.size() - at) return false;
      BitReader bits(bytes.substr(at, packed));
      const uint64_t take = std::min(per_miniblock, left_in_page);
      for (uint64_t i = 0; i < take; i++) {
        value += static_cast<uint64_t>(min_delta) + bits.Take(width);
        if (values.size() < end) values.push_back(static_cast<int64_t>(value));
      }
      at += packed;
      left_in_page -= take;
    }
  }
  if (used != nullptr) *used = at;
  return true;
}

bool DecodePlainBytes(std::string_view bytes, size_t count, std::vector<std::string_view>& values) {
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t size = 0;
    if (bytes.size() - at < sizeof size) return false;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (size > bytes.size() - at) return false;
    values.push_back(bytes.substr(at, size));
    at += size;
  }
  return true;
}

bool DecodeDeltaLengthBytes(std::string_view bytes, size_t count, std::vector<std::string_view>& values) {
  std::vector<int64_t> lengths;
  size_t at = 0;
  if (!DecodeDeltaBinaryPacked(bytes, count, lengths, &at)) return false;
  for (const int64_t length : lengths) {
    if (length < 0 || static_cast<uint64_t>(length) > bytes.size() - at) return false;
    values.push_back(bytes.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
  return true;
}

bool DecodeByteStreamSplit(std::string_view bytes, size_t count, size_t width, char* to) {
  if (bytes.size() < count * width) return false;
  for (size_t stream = 0; stream < width; stream++) {
    for (size_t i = 0; i < count; i++) to[i * width + stream] = bytes[stream * count + i];
  }
  return true;
}

}  // namespace paceline::analysis
