// The checksums of HDFS blocks: one CRC per chunk of a block, CRC32C or CRC32, with the machine's instructions for them
// where it has them (ISA-L chooses when the program starts). Internal to lib/hdfs. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/hdfs/block.h"

namespace paceline::hdfs {

// 0 for ChecksumType::kNone.
uint32_t Crc(ChecksumType type, std::string_view bytes);

// Appends four bytes, big-endian, for each chunk of `data`; the last one may be short. Nothing for kNone.
void AppendChecksums(ChecksumType type, uint32_t bytes_per_chunk, std::string_view data, std::string* out);

// How many bytes of checksums go with `data_bytes` of data.
size_t ChecksumBytes(ChecksumType type, uint32_t bytes_per_chunk, size_t data_bytes);

// The offset of the first chunk of `data` that does not fit its checksum in `sums`, or nothing when all do. `sums` must
// be as long as ChecksumBytes says.
std::optional<size_t> FirstBadChunk(ChecksumType type, uint32_t bytes_per_chunk, std::string_view data,
                                    std::string_view sums);

}  // namespace paceline::hdfs
