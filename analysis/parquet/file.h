// A flat table in Apache Parquet, read column by column: what the writers of pandas, Polars, Spark and DuckDB make of a
// table without nulls. Debian has no Parquet library; this one reads what traces need and refuses the rest by name
// (docs/decisions/0012-parquet-reader.md): data pages of both versions; PLAIN, dictionary, DELTA_BINARY_PACKED,
// DELTA_LENGTH_BYTE_ARRAY and BYTE_STREAM_SPLIT; snappy, gzip, zstd or no compression; no nested columns, no
// encryption.
//
// Called by the trace readers of analysis/whatif. Memory: one page of the file besides the result. Thread-safe once
// open: reads share nothing but the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/parquet/metadata.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace paceline::analysis {

// Texts as the file has them: each distinct one once.
struct ParquetTexts {
  std::vector<std::string> distinct;
  std::vector<uint32_t> rows;  // an index into `distinct` per row
};

class ParquetFile {
 public:
  // Reads the footer. Blocks for the disk. kNotFound and the like from the system, kDataLoss for what is no Parquet
  // file.
  static Result<ParquetFile> Open(const std::string& path);

  size_t row_count() const { return static_cast<size_t>(metadata_.row_count); }
  const std::vector<ParquetColumn>& columns() const { return metadata_.columns; }
  bool HasColumn(std::string_view name) const;

  // Whole columns; block for the disk. kNotFound for a name that is not there, kInvalidArgument for a column of another
  // type, with nulls (the row is named), or with a value that the type asked for cannot hold.
  // T: int16_t, int32_t, int64_t from a column of 32 or 64 bit integers.
  template <typename T>
  Result<std::vector<T>> ReadIntegers(std::string_view name) const;
  // From FLOAT or DOUBLE; the latter are rounded.
  Result<std::vector<float>> ReadFloats(std::string_view name) const;
  Result<ParquetTexts> ReadTexts(std::string_view name) const;

 private:
  ParquetFile(UniqueFd fd, int64_t size, ParquetMetadata metadata)
      : fd_(std::move(fd)), size_(size), metadata_(std::move(metadata)) {}

  Result<size_t> FindColumn(std::string_view name) const;
  Result<std::string> ReadBytes(int64_t offset, int64_t count) const;
  // Hands the pages of a column to `sink`, one after another: sink.Dictionary(bytes, count) and
  // sink.Values(encoding, bytes, count), which give a Status.
  template <typename Sink>
  Status ReadColumn(size_t column, Sink& sink) const;
  template <typename Sink>
  Status ReadChunk(const ParquetColumn& column, const ParquetChunk& chunk, int64_t first_row, Sink& sink) const;

  UniqueFd fd_;
  int64_t size_ = 0;
  ParquetMetadata metadata_;
};

}  // namespace paceline::analysis
