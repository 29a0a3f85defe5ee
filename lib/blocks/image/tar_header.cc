#include "lib/blocks/image/tar_header.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "lib/base/base64.h"

namespace paceline::blocks {
namespace {

constexpr size_t kChecksumAt = 148, kChecksumBytes = 8;
constexpr uint32_t kNanosPerSecond = 1'000'000'000;

// Base 256: the first bit of the field is a mark, the second the sign.
Result<int64_t> ParseBinary(std::string_view field, const char* what) {
  const bool is_negative = (field[0] & 0x40) != 0;
  uint64_t value = is_negative ? ~uint64_t{0} : 0;
  for (size_t i = 0; i < field.size(); ++i) {
    const auto byte = static_cast<uint8_t>(field[i]);
    // The mark of the first byte is filled with the sign.
    const uint8_t part = i > 0 ? byte : static_cast<uint8_t>(is_negative ? byte | 0x80 : byte & 0x7f);
    const uint64_t top = value >> 55;  // what the shift pushes out, and the sign that it leaves
    if (top != 0 && top != 0x1ff) return DataLossError(fmt::format("tar header: {} is too large", what));
    value = value << 8 | part;
  }
  return static_cast<int64_t>(value);
}

Result<std::pair<int64_t, uint32_t>> ParsePaxTime(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const size_t dot = text.find('.');
  ASSIGN_OR_RETURN(const uint64_t whole, ParseTarDecimal(text.substr(0, dot), "mtime"));
  if (whole > uint64_t{1} << 62) return DataLossError("tar header: mtime is too large");
  uint32_t nanos = 0;
  if (dot != std::string_view::npos) {
    std::string digits(text.substr(dot + 1));
    if (digits.find_first_not_of("0123456789") != std::string::npos)
      return DataLossError("tar header: mtime is no number");
    digits.resize(9, '0');
    ASSIGN_OR_RETURN(const uint64_t parsed, ParseTarDecimal(digits, "mtime"));
    nanos = static_cast<uint32_t>(parsed);
  }
  auto seconds = static_cast<int64_t>(whole);
  if (is_negative) {
    seconds = -seconds;
    // -1.5 is half a second after -2.
    if (nanos > 0) {
      --seconds;
      nanos = kNanosPerSecond - nanos;
    }
  }
  return std::pair(seconds, nanos);
}

Result<uint32_t> ParseId(const std::string& value, const char* what) {
  ASSIGN_OR_RETURN(const uint64_t id, ParseTarDecimal(value, what));
  if (id > UINT32_MAX) return InvalidArgumentError(fmt::format("tar header: {} {} is too large", what, id));
  return static_cast<uint32_t>(id);
}

// %XX as in URLs, as libarchive writes names of attributes.
std::string DecodePercent(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3;
    out += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return out;
}

}  // namespace

Result<uint64_t> ParseTarDecimal(std::string_view text, const char* what) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return DataLossError(fmt::format("tar header: {} is no number", what));
  }
  return value;
}

std::string_view TarHeader::Text(size_t at, size_t size) const {
  const std::string_view field = block_.substr(at, size);
  return field.substr(0, field.find('\0'));
}

bool TarHeader::HasRightChecksum() const {
  const Result<int64_t> wanted = Number(kChecksumAt, kChecksumBytes, "checksum");
  if (!wanted.ok()) return false;
  int64_t as_unsigned = 0, as_signed = 0;
  for (size_t i = 0; i < block_.size(); ++i) {
    const bool is_checksum = i >= kChecksumAt && i < kChecksumAt + kChecksumBytes;
    const char byte = is_checksum ? ' ' : block_[i];
    as_unsigned += static_cast<unsigned char>(byte);
    as_signed += static_cast<signed char>(byte);
  }
  return *wanted == as_unsigned || *wanted == as_signed;
}

std::string TarHeader::Name() const {
  const std::string name(Text(0, 100));
  std::string_view prefix;
  if (block_.substr(257, 6) == std::string_view("ustar\0", 6)) {
    // star keeps two times where the end of a POSIX prefix would be.
    const bool is_star = block_.substr(508, 4) == std::string_view("tar\0", 4);
    prefix = Text(345, is_star ? 131 : 155);
  }
  return prefix.empty() ? name : std::string(prefix) + "/" + name;
}

Result<int64_t> TarHeader::Number(size_t at, size_t size, const char* what) const {
  std::string_view field = block_.substr(at, size);
  if ((field[0] & 0x80) != 0) return ParseBinary(field, what);
  field = field.substr(0, field.find('\0'));
  const size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return int64_t{0};  // left blank
  field = field.substr(begin, field.find_last_not_of(' ') + 1 - begin);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (error != std::errc() || end != field.data() + field.size() || field[0] == '-') {
    return DataLossError(fmt::format("tar header: {} is no number", what));
  }
  return value;
}

Result<std::vector<std::pair<std::string, std::string>>> ParsePaxRecords(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> records;
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    if (blank > 10) {  // or there is none
      // Some writers fill the body up with zeros.
      if (text.find_first_not_of('\0') == std::string_view::npos) break;
      return DataLossError("tar: a PAX record has no length");
    }
    ASSIGN_OR_RETURN(const uint64_t length, ParseTarDecimal(text.substr(0, blank), "length of a PAX record"));
    if (length > text.size() || length < blank + 2 || text[length - 1] != '\n') {
      return DataLossError("tar: a PAX record has a wrong length");
    }
    const std::string_view record = text.substr(blank + 1, length - blank - 2);
    const size_t equals = record.find('=');
    if (equals == 0 || equals == std::string_view::npos) return DataLossError("tar: a PAX record without a key");
    records.emplace_back(record.substr(0, equals), record.substr(equals + 1));
    text.remove_prefix(length);
  }
  return records;
}

Status ApplyPaxRecord(const std::string& key, const std::string& value, TarEntry* entry) {
  constexpr std::string_view kSchily = "SCHILY.xattr.", kLibarchive = "LIBARCHIVE.xattr.";
  // An empty value stands for "as the header has it"; an attribute may well be empty.
  if (value.empty() && !key.starts_with(kSchily)) return Status();
  if (key == "path") {
    entry->name = value;
  } else if (key == "linkpath") {
    entry->link_target = value;
  } else if (key == "uid") {
    ASSIGN_OR_RETURN(entry->uid, ParseId(value, "uid"));
  } else if (key == "gid") {
    ASSIGN_OR_RETURN(entry->gid, ParseId(value, "gid"));
  } else if (key == "size") {
    ASSIGN_OR_RETURN(entry->size_bytes, ParseTarDecimal(value, "size"));
  } else if (key == "mtime") {
    ASSIGN_OR_RETURN(const auto time, ParsePaxTime(value));
    entry->mtime_s = time.first;
    entry->mtime_ns = time.second;
  } else if (key.starts_with(kSchily)) {
    entry->xattrs[key.substr(kSchily.size())] = value;
  } else if (key.starts_with(kLibarchive)) {
    // libarchive leaves the padding out.
    Result<std::string> decoded = DecodeBase64(value + std::string((4 - value.size() % 4) % 4, '='));
    if (!decoded.ok()) return DataLossError("tar: attribute " + key.substr(0, 200) + " is not base64");
    // libarchive writes both forms; the other one is exact.
    entry->xattrs.try_emplace(DecodePercent(std::string_view(key).substr(kLibarchive.size())), std::move(*decoded));
  }
  return Status();
}

}  // namespace paceline::blocks
