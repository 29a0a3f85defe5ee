#include "agent/csi/mount_table.h"

#include <fmt/format.h>

namespace paceline::agent {
namespace {

// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
std::string Unescape(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::vector<std::string_view> SplitFields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (!line.empty()) {
    size_t space = line.find(' ');
    if (space != 0) fields.push_back(line.substr(0, space));
    if (space == std::string_view::npos) break;
    line.remove_prefix(space + 1);
  }
  return fields;
}

bool HasOption(std::string_view options, std::string_view wanted) {
  while (true) {
    size_t comma = options.find(',');
    if (options.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    options.remove_prefix(comma + 1);
  }
}

Result<MountEntry> ParseLine(std::string_view line) {
  // id parent major:minor root mount_point options [optional...] - fs_type source super_options
  constexpr size_t kDevice = 2, kRoot = 3, kMountPoint = 4, kOptions = 5, kFirstOptional = 6;
  std::vector<std::string_view> fields = SplitFields(line);
  size_t separator = kFirstOptional;
  while (separator < fields.size() && fields[separator] != "-") ++separator;
  // The source may be an empty word, which leaves only two fields after the separator.
  const size_t tail = fields.size() > separator ? fields.size() - separator - 1 : 0;
  if (tail < 2 || fields[kMountPoint].front() != '/') {
    return DataLossError(fmt::format("mountinfo: malformed line \"{}\"", line));
  }
  MountEntry entry;
  entry.device = std::string(fields[kDevice]);
  entry.root = Unescape(fields[kRoot]);
  entry.mount_point = Unescape(fields[kMountPoint]);
  entry.fs_type = Unescape(fields[separator + 1]);
  if (tail >= 3) entry.source = Unescape(fields[separator + 2]);
  entry.is_read_only = HasOption(fields[kOptions], "ro") || HasOption(fields.back(), "ro");
  return entry;
}

}  // namespace

Result<std::vector<MountEntry>> ParseMountInfo(std::string_view text) {
  std::vector<MountEntry> mounts;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty()) {
      ASSIGN_OR_RETURN(MountEntry entry, ParseLine(line));
      mounts.push_back(std::move(entry));
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return mounts;
}

std::optional<MountEntry> FindMount(const std::vector<MountEntry>& mounts, std::string_view mount_point) {
  for (auto it = mounts.rbegin(); it != mounts.rend(); ++it) {
    if (it->mount_point == mount_point) return *it;
  }
  return std::nullopt;
}

}  // namespace paceline::agent
