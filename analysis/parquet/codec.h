// Decompression of Parquet pages by the libraries of each format. Pure; called by file.cc.
#pragma once

#include <string>
#include <string_view>

#include "analysis/parquet/metadata.h"
#include "lib/base/result.h"

namespace paceline::analysis {

// Exactly `raw_bytes` bytes, or kDataLoss. kUnimplemented with the name for LZO, Brotli and LZ4, which nothing that we
// read is written with.
Result<std::string> DecompressPage(ParquetCodec codec, std::string_view stored, size_t raw_bytes);

}  // namespace paceline::analysis
