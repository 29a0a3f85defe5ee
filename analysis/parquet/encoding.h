// The encodings of values and levels in Parquet pages (Encodings.md of Apache Parquet). Pure functions on foreign
// bytes: false for what is damaged or too short, never more than `count` values.
//
// Called by file.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline::analysis {

// RLE / bit-packed hybrid: `count` values of `bit_width` (0 to 32) bits each are appended to `values`.
bool DecodeHybrid(std::string_view bytes, int bit_width, size_t count, std::vector<uint32_t>& values);

// DELTA_BINARY_PACKED: `count` values are appended to `values`. `used`, when given, is set to how many bytes they took.
bool DecodeDeltaBinaryPacked(std::string_view bytes, size_t count, std::vector<int64_t>& values,
                             size_t* used = nullptr);

// PLAIN byte arrays: each with a length of 4 bytes in front. The views point into `bytes`.
bool DecodePlainBytes(std::string_view bytes, size_t count, std::vector<std::string_view>& values);

// DELTA_LENGTH_BYTE_ARRAY: the lengths as DELTA_BINARY_PACKED, then the bytes. The views point into `bytes`.
bool DecodeDeltaLengthBytes(std::string_view bytes, size_t count, std::vector<std::string_view>& values);

// BYTE_STREAM_SPLIT: puts the `width` streams of `count` bytes together again, to `count * width` bytes at `to`.
bool DecodeByteStreamSplit(std::string_view bytes, size_t count, size_t width, char* to);

}  // namespace paceline::analysis
