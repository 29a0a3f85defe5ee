#include "agent/csi/stage_file.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace paceline::agent {
namespace {

constexpr size_t kLongestName = 63;
constexpr int64_t kLatestSecond = 4'102'444'800;  // the year 2100; later is a mistake, and would overflow nanoseconds

bool IsStageName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// "1767322845.123" without going through a double, which would lose digits below a microsecond.
std::optional<WallTime> ParseSeconds(std::string_view text) {
  int64_t seconds = 0;
  const char* end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, seconds);
  if (parsed.ec != std::errc() || seconds < 0 || seconds > kLatestSecond || text.front() == '-') return std::nullopt;
  int64_t nanoseconds = 0;
  if (parsed.ptr != end) {
    if (*parsed.ptr != '.' || parsed.ptr + 1 == end) return std::nullopt;
    int64_t unit = 100'000'000;
    for (const char* digit = parsed.ptr + 1; digit != end; ++digit, unit /= 10) {
      if (*digit < '0' || *digit > '9' || unit == 0) return std::nullopt;
      nanoseconds += (*digit - '0') * unit;
    }
  }
  return WallTime(std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds));
}

}  // namespace

std::vector<StageLine> ParseStageFile(std::string_view text, size_t max_stages) {
  std::vector<StageLine> stages;
  while (stages.size() < max_stages) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos || blank + 1 == line.size()) continue;
    const std::string_view name = line.substr(0, blank);
    const std::optional<WallTime> at = ParseSeconds(line.substr(blank + 1));
    if (!IsStageName(name) || !at) continue;
    const bool is_known = std::any_of(stages.begin(), stages.end(), [&](const StageLine& s) { return s.name == name; });
    if (!is_known) stages.push_back({std::string(name), *at});
  }
  return stages;
}

}  // namespace paceline::agent
