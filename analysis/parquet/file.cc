#include "analysis/parquet/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>

#include "analysis/parquet/codec.h"
#include "analysis/parquet/encoding.h"

namespace paceline::analysis {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr int64_t kTailBytes = 8;               // length of the footer, magic
constexpr int64_t kMaxFooterBytes = 256 << 20;  // thousands of row groups
constexpr int64_t kMaxHeaderBytes = 16 << 10;   // statistics of long texts can be in it
constexpr int64_t kMaxRows = int64_t{1} << 33;
constexpr size_t kMaxReserved = 1 << 25;  // a damaged footer must not take all memory

const char* NameOf(ParquetType type) {
  switch (type) {
    case ParquetType::kBool: return "BOOLEAN";
    case ParquetType::kInt32: return "INT32";
    case ParquetType::kInt64: return "INT64";
    case ParquetType::kInt96: return "INT96";
    case ParquetType::kFloat: return "FLOAT";
    case ParquetType::kDouble: return "DOUBLE";
    case ParquetType::kBytes: return "BYTE_ARRAY";
    case ParquetType::kFixedBytes: return "FIXED_LEN_BYTE_ARRAY";
  }
  return "?";
}

Status DamagedPage() { return DataLossError("a page is damaged"); }
Status UnknownEncoding(ParquetEncoding encoding) {
  return UnimplementedError(fmt::format("encoding {} is not read", static_cast<int>(encoding)));
}

bool IsDictionary(ParquetEncoding encoding) {
  return encoding == ParquetEncoding::kPlainDictionary || encoding == ParquetEncoding::kRleDictionary;
}

// The first byte gives the width of the indices.
bool DecodeIndices(std::string_view bytes, size_t count, size_t dictionary_size, std::vector<uint32_t>& indices) {
  indices.clear();
  if (count == 0) return true;
  if (bytes.empty() || !DecodeHybrid(bytes.substr(1), static_cast<uint8_t>(bytes[0]), count, indices)) return false;
  return std::all_of(indices.begin(), indices.end(), [&](uint32_t index) { return index < dictionary_size; });
}

// Numbers stored as `Stored`, wanted as `Wanted`.
template <typename Stored, typename Wanted>
class NumberSink {
 public:
  explicit NumberSink(size_t rows) { values_.reserve(std::min(rows, kMaxReserved)); }

  Status Dictionary(std::string_view bytes, size_t count) {
    dictionary_.clear();
    return Plain(bytes, count, dictionary_);
  }

  Status Values(ParquetEncoding encoding, std::string_view bytes, size_t count) {
    if (IsDictionary(encoding)) {
      if (!DecodeIndices(bytes, count, dictionary_.size(), indices_)) return DamagedPage();
      for (const uint32_t index : indices_) values_.push_back(dictionary_[index]);
      return Status();
    }
    if (encoding == ParquetEncoding::kPlain) return Plain(bytes, count, values_);
    if (encoding == ParquetEncoding::kByteStreamSplit) {
      std::string joined(count * sizeof(Stored), '\0');
      if (!DecodeByteStreamSplit(bytes, count, sizeof(Stored), joined.data())) return DamagedPage();
      return Plain(joined, count, values_);
    }
    if constexpr (std::is_integral_v<Stored>) {
      if (encoding == ParquetEncoding::kDeltaBinaryPacked) {
        std::vector<int64_t> wide;
        if (!DecodeDeltaBinaryPacked(bytes, count, wide)) return DamagedPage();
        // Deltas of 32 bit values wrap around at 32 bits.
        for (const int64_t value : wide) RETURN_IF_ERROR(Add(static_cast<Stored>(value), values_));
        return Status();
      }
    }
    return UnknownEncoding(encoding);
  }

  std::vector<Wanted> Take() { return std::move(values_); }

 private:
  static Status Add(Stored value, std::vector<Wanted>& to) {
    if constexpr (std::is_integral_v<Wanted>) {
      if (value < std::numeric_limits<Wanted>::min() || value > std::numeric_limits<Wanted>::max()) {
        return InvalidArgumentError(fmt::format("{} does not fit", value));
      }
    }
    to.push_back(static_cast<Wanted>(value));
    return Status();
  }

  static Status Plain(std::string_view bytes, size_t count, std::vector<Wanted>& to) {
    if (bytes.size() / sizeof(Stored) < count) return DamagedPage();
    for (size_t i = 0; i < count; i++) {
      Stored value;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      RETURN_IF_ERROR(Add(value, to));
    }
    return Status();
  }

  std::vector<Wanted> dictionary_;
  std::vector<Wanted> values_;
  std::vector<uint32_t> indices_;
};

class TextSink {
 public:
  explicit TextSink(size_t rows) { texts_.rows.reserve(std::min(rows, kMaxReserved)); }

  Status Dictionary(std::string_view bytes, size_t count) {
    views_.clear();
    if (!DecodePlainBytes(bytes, count, views_)) return DamagedPage();
    dictionary_.clear();
    for (const std::string_view view : views_) dictionary_.push_back(IndexOf(view));
    return Status();
  }

  Status Values(ParquetEncoding encoding, std::string_view bytes, size_t count) {
    if (IsDictionary(encoding)) {
      if (!DecodeIndices(bytes, count, dictionary_.size(), indices_)) return DamagedPage();
      for (const uint32_t index : indices_) texts_.rows.push_back(dictionary_[index]);
      return Status();
    }
    views_.clear();
    if (encoding == ParquetEncoding::kPlain) {
      if (!DecodePlainBytes(bytes, count, views_)) return DamagedPage();
    } else if (encoding == ParquetEncoding::kDeltaLengthByteArray) {
      if (!DecodeDeltaLengthBytes(bytes, count, views_)) return DamagedPage();
    } else {
      return UnknownEncoding(encoding);
    }
    for (const std::string_view view : views_) texts_.rows.push_back(IndexOf(view));
    return Status();
  }

  ParquetTexts Take() { return std::move(texts_); }

 private:
  uint32_t IndexOf(std::string_view text) {
    const auto found = index_.find(text);
    if (found != index_.end()) return found->second;
    const auto index = static_cast<uint32_t>(texts_.distinct.size());
    texts_.distinct.emplace_back(text);
    index_.emplace(std::string(text), index);
    return index;
  }

  ParquetTexts texts_;
  std::map<std::string, uint32_t, std::less<>> index_;
  std::vector<uint32_t> dictionary_;  // of the chunk at hand, as indices into `distinct`
  std::vector<uint32_t> indices_;
  std::vector<std::string_view> views_;
};

struct PageBody {
  std::string_view levels;  // definition levels, run-length encoded; empty for a required column
  std::string_view values;
};

// Splits the bytes of a data page of version 1.
Result<PageBody> SplitPage(std::string_view page, bool is_optional) {
  if (!is_optional) return PageBody{{}, page};
  uint32_t size = 0;
  if (page.size() < sizeof size) return DamagedPage();
  std::memcpy(&size, page.data(), sizeof size);
  page.remove_prefix(sizeof size);
  if (size > page.size()) return DamagedPage();
  return PageBody{page.substr(0, size), page.substr(size)};
}

Status CheckNoNulls(std::string_view levels, size_t count, int64_t first_row) {
  std::vector<uint32_t> defined;
  if (!DecodeHybrid(levels, 1, count, defined)) return DamagedPage();
  const auto null = std::find(defined.begin(), defined.end(), 0u);
  if (null == defined.end()) return Status();
  return InvalidArgumentError(fmt::format("row {} has no value", first_row + (null - defined.begin())));
}

}  // namespace

Result<ParquetFile> ParquetFile::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "stat " + path);
  ParquetFile file(std::move(fd), status.st_size, {});
  const Status no_parquet = DataLossError(path + " is not a Parquet file, or is cut off");
  if (!S_ISREG(status.st_mode) || file.size_ < kTailBytes) return no_parquet;
  ASSIGN_OR_RETURN(const std::string tail, file.ReadBytes(file.size_ - kTailBytes, kTailBytes));
  if (tail.substr(4) == "PARE") return UnimplementedError(path + ": its footer is encrypted");
  if (tail.substr(4) != kMagic) return no_parquet;
  uint32_t footer_bytes = 0;
  std::memcpy(&footer_bytes, tail.data(), sizeof footer_bytes);
  if (footer_bytes > kMaxFooterBytes || footer_bytes > file.size_ - kTailBytes) return no_parquet;
  ASSIGN_OR_RETURN(const std::string footer, file.ReadBytes(file.size_ - kTailBytes - footer_bytes, footer_bytes));
  Result<ParquetMetadata> metadata = ParseParquetMetadata(footer);
  if (!metadata.ok()) return metadata.status().Annotate(path);
  if (metadata->row_count > kMaxRows) return DataLossError(path + ": its row count cannot be true");
  file.metadata_ = *std::move(metadata);
  return file;
}

bool ParquetFile::HasColumn(std::string_view name) const { return FindColumn(name).ok(); }

Result<size_t> ParquetFile::FindColumn(std::string_view name) const {
  for (size_t i = 0; i < metadata_.columns.size(); i++) {
    if (metadata_.columns[i].name == name) return i;
  }
  return NotFoundError(fmt::format("there is no column \"{}\"", name));
}

Result<std::string> ParquetFile::ReadBytes(int64_t offset, int64_t count) const {
  if (offset < 0 || count < 0 || offset > size_ || count > size_ - offset) {
    return DataLossError("the file is shorter than its footer says");
  }
  std::string bytes(static_cast<size_t>(count), '\0');
  for (size_t have = 0; have < bytes.size();) {
    const ssize_t got =
        ::pread(fd_.get(), bytes.data() + have, bytes.size() - have, offset + static_cast<int64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read");
    if (got == 0) return DataLossError("the file was cut off meanwhile");
    have += static_cast<size_t>(got);
  }
  return bytes;
}

template <typename Sink>
Status ParquetFile::ReadChunk(const ParquetColumn& column, const ParquetChunk& chunk, int64_t first_row,
                              Sink& sink) const {
  if (chunk.bytes < 0 || chunk.offset < 0 || chunk.offset > size_ || chunk.bytes > size_ - chunk.offset) {
    return DataLossError("the file is shorter than its footer says");
  }
  const int64_t end = chunk.offset + chunk.bytes;
  int64_t rows = 0;
  for (int64_t at = chunk.offset; at < end && rows < chunk.value_count;) {
    ASSIGN_OR_RETURN(const std::string head, ReadBytes(at, std::min(kMaxHeaderBytes, end - at)));
    ASSIGN_OR_RETURN(const ParquetPageHeader header, ParseParquetPageHeader(head));
    at += static_cast<int64_t>(header.header_bytes);
    if (header.stored_bytes > end - at) return DamagedPage();
    ASSIGN_OR_RETURN(const std::string stored, ReadBytes(at, header.stored_bytes));
    at += header.stored_bytes;
    if (header.type == ParquetPageType::kIndex) continue;
    const auto count = static_cast<size_t>(header.value_count);
    const auto raw_bytes = static_cast<size_t>(header.raw_bytes);
    if (header.type == ParquetPageType::kDictionary) {
      ASSIGN_OR_RETURN(const std::string raw, DecompressPage(chunk.codec, stored, raw_bytes));
      RETURN_IF_ERROR(sink.Dictionary(raw, count));
      continue;
    }
    if (header.value_count > chunk.value_count - rows) return DamagedPage();
    if (header.type == ParquetPageType::kData) {
      ASSIGN_OR_RETURN(const std::string raw, DecompressPage(chunk.codec, stored, raw_bytes));
      ASSIGN_OR_RETURN(const PageBody body, SplitPage(raw, column.is_optional));
      if (column.is_optional) RETURN_IF_ERROR(CheckNoNulls(body.levels, count, first_row + rows));
      RETURN_IF_ERROR(sink.Values(header.encoding, body.values, count));
    } else {
      if (header.null_count != 0) {
        return InvalidArgumentError(fmt::format("rows {} to {}: {} have no value", first_row + rows,
                                                first_row + rows + header.value_count - 1, header.null_count));
      }
      const auto levels = static_cast<size_t>(header.definition_bytes + header.repetition_bytes);
      if (levels > stored.size() || levels > raw_bytes) return DamagedPage();
      const std::string_view body = std::string_view(stored).substr(levels);
      const ParquetCodec codec = header.is_compressed ? chunk.codec : ParquetCodec::kNone;
      ASSIGN_OR_RETURN(const std::string raw, DecompressPage(codec, body, raw_bytes - levels));
      RETURN_IF_ERROR(sink.Values(header.encoding, raw, count));
    }
    rows += header.value_count;
  }
  return rows == chunk.value_count ? Status() : DataLossError("pages are missing");
}

template <typename Sink>
Status ParquetFile::ReadColumn(size_t column, Sink& sink) const {
  int64_t first_row = 0;
  for (const ParquetRowGroup& group : metadata_.row_groups) {
    const ParquetChunk& chunk = group.chunks[column];
    Status read = chunk.value_count == group.row_count
                      ? ReadChunk(metadata_.columns[column], chunk, first_row, sink)
                      : DataLossError("a row group has more or fewer values than rows");
    if (!read.ok()) return read.Annotate(fmt::format("column \"{}\"", metadata_.columns[column].name));
    first_row += group.row_count;
  }
  return Status();
}

template <typename T>
Result<std::vector<T>> ParquetFile::ReadIntegers(std::string_view name) const {
  ASSIGN_OR_RETURN(const size_t column, FindColumn(name));
  const ParquetType type = metadata_.columns[column].type;
  if (type == ParquetType::kInt32) {
    NumberSink<int32_t, T> sink(row_count());
    RETURN_IF_ERROR(ReadColumn(column, sink));
    return sink.Take();
  }
  if (type == ParquetType::kInt64) {
    NumberSink<int64_t, T> sink(row_count());
    RETURN_IF_ERROR(ReadColumn(column, sink));
    return sink.Take();
  }
  return InvalidArgumentError(fmt::format("column \"{}\" is {}, expected INT32 or INT64", name, NameOf(type)));
}

template Result<std::vector<int16_t>> ParquetFile::ReadIntegers(std::string_view name) const;
template Result<std::vector<int32_t>> ParquetFile::ReadIntegers(std::string_view name) const;
template Result<std::vector<int64_t>> ParquetFile::ReadIntegers(std::string_view name) const;

Result<std::vector<float>> ParquetFile::ReadFloats(std::string_view name) const {
  ASSIGN_OR_RETURN(const size_t column, FindColumn(name));
  const ParquetType type = metadata_.columns[column].type;
  if (type == ParquetType::kFloat) {
    NumberSink<float, float> sink(row_count());
    RETURN_IF_ERROR(ReadColumn(column, sink));
    return sink.Take();
  }
  if (type == ParquetType::kDouble) {
    NumberSink<double, float> sink(row_count());
    RETURN_IF_ERROR(ReadColumn(column, sink));
    return sink.Take();
  }
  return InvalidArgumentError(fmt::format("column \"{}\" is {}, expected FLOAT or DOUBLE", name, NameOf(type)));
}

Result<ParquetTexts> ParquetFile::ReadTexts(std::string_view name) const {
  ASSIGN_OR_RETURN(const size_t column, FindColumn(name));
  const ParquetType type = metadata_.columns[column].type;
  if (type != ParquetType::kBytes) {
    return InvalidArgumentError(fmt::format("column \"{}\" is {}, expected BYTE_ARRAY", name, NameOf(type)));
  }
  TextSink sink(row_count());
  RETURN_IF_ERROR(ReadColumn(column, sink));
  return sink.Take();
}

}  // namespace paceline::analysis
