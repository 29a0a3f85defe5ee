#include "lib/hdfs/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {

uint32_t Crc(ChecksumType type, std::string_view bytes) {
  auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  switch (type) {
    case ChecksumType::kNone: return 0;
    case ChecksumType::kCrc32: return crc32_gzip_refl(0, data, bytes.size());
    // Takes and gives the register as it is, without the inversions that make a CRC32C.
    case ChecksumType::kCrc32c: return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0u);
  }
  return 0;
}

void AppendChecksums(ChecksumType type, uint32_t bytes_per_chunk, std::string_view data, std::string* out) {
  if (type == ChecksumType::kNone) return;
  for (size_t at = 0; at < data.size(); at += bytes_per_chunk) {
    AppendBigEndian(Crc(type, data.substr(at, bytes_per_chunk)), 4, out);
  }
}

size_t ChecksumBytes(ChecksumType type, uint32_t bytes_per_chunk, size_t data_bytes) {
  if (type == ChecksumType::kNone) return 0;
  return (data_bytes + bytes_per_chunk - 1) / bytes_per_chunk * 4;
}

std::optional<size_t> FirstBadChunk(ChecksumType type, uint32_t bytes_per_chunk, std::string_view data,
                                    std::string_view sums) {
  CHECK(sums.size() == ChecksumBytes(type, bytes_per_chunk, data.size()));
  if (type == ChecksumType::kNone) return std::nullopt;
  const char* sum = sums.data();
  for (size_t at = 0; at < data.size(); at += bytes_per_chunk, sum += 4) {
    if (Crc(type, data.substr(at, bytes_per_chunk)) != LoadBigEndian32(sum)) return at;
  }
  return std::nullopt;
}

}  // namespace paceline::hdfs
