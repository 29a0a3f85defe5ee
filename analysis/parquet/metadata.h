// What a Parquet file says of itself: its columns, row groups, and the header of each page, as far as a flat table
// needs it (parquet.thrift of Apache Parquet). Pure; called by file.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace paceline::analysis {

enum class ParquetType { kBool, kInt32, kInt64, kInt96, kFloat, kDouble, kBytes, kFixedBytes };
enum class ParquetCodec { kNone, kSnappy, kGzip, kLzo, kBrotli, kLz4, kZstd, kLz4Raw };
enum class ParquetEncoding {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};

struct ParquetColumn {
  std::string name;
  ParquetType type = ParquetType::kInt32;
  bool is_optional = false;
};

struct ParquetChunk {
  ParquetCodec codec = ParquetCodec::kNone;
  int64_t value_count = 0;
  int64_t offset = 0;  // of its first page, in the file
  int64_t bytes = 0;   // of all its pages
};

struct ParquetRowGroup {
  int64_t row_count = 0;
  std::vector<ParquetChunk> chunks;  // as many as columns
};

struct ParquetMetadata {
  int64_t row_count = 0;
  std::vector<ParquetColumn> columns;
  std::vector<ParquetRowGroup> row_groups;
};

enum class ParquetPageType { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

struct ParquetPageHeader {
  ParquetPageType type = ParquetPageType::kData;
  int64_t raw_bytes = 0;     // after decompression
  int64_t stored_bytes = 0;  // in the file
  int64_t value_count = 0;
  int64_t null_count = 0;  // version 2 only
  ParquetEncoding encoding = ParquetEncoding::kPlain;
  int64_t definition_bytes = 0;  // version 2 only
  int64_t repetition_bytes = 0;  // version 2 only
  bool is_compressed = true;     // version 2 only
  size_t header_bytes = 0;
};

// The footer without its length and magic. kDataLoss for what is no footer, kUnimplemented with the name for what this
// reader does not do: nested and repeated columns, columns in other files.
Result<ParquetMetadata> ParseParquetMetadata(std::string_view footer);

// The header at the start of `bytes`.
Result<ParquetPageHeader> ParseParquetPageHeader(std::string_view bytes);

}  // namespace paceline::analysis
