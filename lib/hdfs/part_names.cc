#include "lib/hdfs/part_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <random>

namespace paceline::hdfs {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr std::string_view kTargetSuffix = ".pl-t";
constexpr std::string_view kStripesSuffix = ".pl-s";
constexpr std::string_view kPartMark = ".pl-p";
constexpr size_t kIdDigits = 8 + 16;
constexpr size_t kPartDigits = 6;

std::string HiddenName(std::string_view name, const WriterId& writer, std::string_view suffix) {
  const std::string tail = fmt::format(".{:08x}{:016x}{}", writer.start_seconds, writer.random, suffix);
  const size_t room = kMaxNameBytes - tail.size() - 1;
  size_t length = std::min(name.size(), room);
  // Not within a UTF-8 character: HDFS refuses names that are not UTF-8.
  while (length > 0 && length < name.size() && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) --length;
  return fmt::format(".{}{}", name.substr(0, length), tail);
}

template <typename Number>
bool ParseWhole(std::string_view digits, int base, Number* out) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out, base);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

WriterId MakeWriterId(const Clock& clock) {
  std::random_device entropy;
  WriterId id;
  id.start_seconds = static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(clock.WallNow().time_since_epoch()).count());
  id.random = (static_cast<uint64_t>(entropy()) << 32) | entropy();
  return id;
}

std::string TemporaryName(std::string_view name, const WriterId& writer) {
  return HiddenName(name, writer, kTargetSuffix);
}

std::string PartFileName(std::string_view name, const WriterId& writer, uint32_t part) {
  return HiddenName(name, writer, fmt::format("{}{:06}", kPartMark, part));
}

std::string StripeFolderName(std::string_view name, const WriterId& writer) {
  return HiddenName(name, writer, kStripesSuffix);
}

std::optional<PartName> ParsePartName(std::string_view name) {
  if (name.empty() || name.front() != '.') return std::nullopt;
  PartName parsed;
  if (name.ends_with(kTargetSuffix)) {
    name.remove_suffix(kTargetSuffix.size());
  } else if (name.ends_with(kStripesSuffix)) {
    parsed.is_stripe_folder = true;
    name.remove_suffix(kStripesSuffix.size());
  } else {
    const size_t tail = kPartMark.size() + kPartDigits;
    if (name.size() < tail || name.substr(name.size() - tail, kPartMark.size()) != kPartMark) return std::nullopt;
    uint32_t part = 0;
    if (!ParseWhole(name.substr(name.size() - kPartDigits), 10, &part)) return std::nullopt;
    parsed.part = part;
    name.remove_suffix(tail);
  }
  if (name.size() < kIdDigits + 2 || name[name.size() - kIdDigits - 1] != '.') return std::nullopt;
  const std::string_view id = name.substr(name.size() - kIdDigits);
  if (!ParseWhole(id.substr(0, 8), 16, &parsed.writer.start_seconds)) return std::nullopt;
  if (!ParseWhole(id.substr(8), 16, &parsed.writer.random)) return std::nullopt;
  return parsed;
}

std::vector<WriterParts> GroupByWriter(const std::vector<FileStatus>& entries) {
  std::map<std::pair<uint32_t, uint64_t>, WriterParts> groups;
  for (const FileStatus& entry : entries) {
    const std::optional<PartName> name = ParsePartName(entry.name);
    if (!name.has_value() || name->is_stripe_folder || entry.type != FileStatus::Type::kFile) continue;
    WriterParts& group = groups[{name->writer.start_seconds, name->writer.random}];
    group.writer = name->writer;
    group.changed =
        std::max({group.changed, entry.modified, WallTime(std::chrono::seconds(name->writer.start_seconds))});
    if (name->part.has_value()) {
      group.parts.push_back(entry);
    } else {
      group.target = entry;
    }
  }
  std::vector<WriterParts> all;
  for (auto& [id, group] : groups) all.push_back(std::move(group));
  return all;
}

}  // namespace paceline::hdfs
