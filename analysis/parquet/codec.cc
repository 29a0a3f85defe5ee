#include "analysis/parquet/codec.h"

#include <fmt/format.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

namespace paceline::analysis {
namespace {

bool Gunzip(std::string_view stored, std::string& raw) {
  z_stream stream{};
  constexpr int kGzipOrZlib = 15 + 32;
  if (inflateInit2(&stream, kGzipOrZlib) != Z_OK) return false;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));  // zlib's interface; it only reads
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(raw.data());
  stream.avail_out = static_cast<uInt>(raw.size());
  const int code = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return code == Z_STREAM_END && stream.avail_out == 0;
}

bool Unsnap(std::string_view stored, std::string& raw) {
  size_t size = 0;
  return snappy::GetUncompressedLength(stored.data(), stored.size(), &size) && size == raw.size() &&
         snappy::RawUncompress(stored.data(), stored.size(), raw.data());
}

}  // namespace

Result<std::string> DecompressPage(ParquetCodec codec, std::string_view stored, size_t raw_bytes) {
  std::string raw(raw_bytes, '\0');
  bool is_right = false;
  switch (codec) {
    case ParquetCodec::kNone:
      raw.assign(stored);
      is_right = raw.size() == raw_bytes;
      break;
    case ParquetCodec::kSnappy: is_right = Unsnap(stored, raw); break;
    case ParquetCodec::kGzip: is_right = Gunzip(stored, raw); break;
    case ParquetCodec::kZstd:
      is_right = ZSTD_decompress(raw.data(), raw.size(), stored.data(), stored.size()) == raw_bytes;
      break;
    case ParquetCodec::kLzo:
    case ParquetCodec::kBrotli:
    case ParquetCodec::kLz4:
    case ParquetCodec::kLz4Raw:
      return UnimplementedError(fmt::format(
          "compression {} is not read; write the file with snappy, gzip, zstd or none", static_cast<int>(codec)));
  }
  if (!is_right) return DataLossError("a page does not decompress to what its header says");
  return raw;
}

}  // namespace paceline::analysis
