#include "lib/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace paceline {

namespace {

struct Unit {
  std::string_view name;
  uint64_t size;
};

constexpr Unit kTimeUnits[] = {{"d", 86'400'000'000'000},
                               {"h", 3'600'000'000'000},
                               {"m", 60'000'000'000},
                               {"s", 1'000'000'000},
                               {"ms", 1'000'000},
                               {"us", 1'000},
                               {"ns", 1}};
constexpr Unit kByteUnits[] = {{"PiB", 1ull << 50}, {"TiB", 1ull << 40}, {"GiB", 1ull << 30},
                               {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1}};
constexpr Unit kOtherByteUnits[] = {{"Pi", 1ull << 50},
                                    {"Ti", 1ull << 40},
                                    {"Gi", 1ull << 30},
                                    {"Mi", 1ull << 20},
                                    {"Ki", 1ull << 10},
                                    {"PB", 1'000'000'000'000'000},
                                    {"TB", 1'000'000'000'000},
                                    {"GB", 1'000'000'000},
                                    {"MB", 1'000'000},
                                    {"kB", 1'000},
                                    {"KB", 1'000}};

constexpr size_t kMaxFractionDigits = 18;  // as many as fit 64 bits
constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();

bool ParseDigits(std::string_view digits, uint64_t& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

// Takes digits with an optional fraction off `text` and gives them times `unit`, which is found from the letters that
// follow by `find_unit` (0 when there is no such unit). False when malformed, not whole, or too large.
template <typename FindUnit>
bool TakeQuantity(std::string_view& text, FindUnit find_unit, uint64_t& value) {
  const size_t number_end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, number_end);
  text.remove_prefix(number_end);
  const size_t unit_end = std::min(text.find_first_of("0123456789."), text.size());
  const uint64_t unit = find_unit(text.substr(0, unit_end));
  text.remove_prefix(unit_end);
  const std::string_view whole = number.substr(0, number.find('.'));
  std::string_view fraction = number.substr(std::min(number.size(), whole.size() + 1));
  if (unit == 0 || whole.empty() || (whole.size() != number.size() && fraction.empty())) return false;

  uint64_t count = 0;
  if (!ParseDigits(whole, count) || count > kMax / unit) return false;
  value = count * unit;
  fraction = fraction.substr(0, fraction.find_last_not_of('0') + 1);
  if (!fraction.empty()) {
    uint64_t parts = 0;
    unsigned __int128 scale = 1;
    for (size_t i = 0; i < fraction.size() && i < kMaxFractionDigits; ++i) scale *= 10;
    if (fraction.size() > kMaxFractionDigits || !ParseDigits(fraction, parts)) return false;
    const unsigned __int128 scaled = static_cast<unsigned __int128>(parts) * unit;
    if (scaled % scale != 0) return false;
    value += static_cast<uint64_t>(scaled / scale);
  }
  return value <= kMax;
}

template <size_t n>
uint64_t FindUnit(const Unit (&units)[n], std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.size;
  }
  return 0;
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  if (text == "0") return Duration::zero();
  std::string_view rest = text;
  uint64_t total = 0;
  bool is_good = !text.empty();
  while (is_good && !rest.empty()) {
    uint64_t part = 0;
    is_good = TakeQuantity(
                  rest, [](std::string_view name) { return FindUnit(kTimeUnits, name); }, part) &&
              total <= kMax - part;
    total += part;
  }
  if (!is_good) {
    return InvalidArgumentError(fmt::format(
        "\"{}\" is not a duration; write a number with a unit, such as \"10s\", \"1m30s\" or \"500ms\"", text));
  }
  return Duration(static_cast<int64_t>(total));
}

std::string FormatDuration(Duration duration) {
  if (duration == Duration::zero()) return "0s";
  std::string text = duration < Duration::zero() ? "-" : "";
  uint64_t rest = duration < Duration::zero() ? -static_cast<uint64_t>(duration.count()) : duration.count();
  for (const Unit& unit : kTimeUnits) {
    if (rest >= unit.size) text += fmt::format("{}{}", rest / unit.size, unit.name);
    rest %= unit.size;
  }
  return text;
}

Result<ByteSize> ParseByteSize(std::string_view text) {
  if (text == "0") return ByteSize{0};
  std::string_view rest = text;
  uint64_t bytes = 0;
  const auto find_unit = [](std::string_view name) {
    const uint64_t unit = FindUnit(kByteUnits, name);
    return unit != 0 ? unit : FindUnit(kOtherByteUnits, name);
  };
  if (!TakeQuantity(rest, find_unit, bytes) || !rest.empty()) {
    return InvalidArgumentError(
        fmt::format("\"{}\" is not a size; write a number with a unit, such as \"512MiB\" or \"2GiB\"", text));
  }
  return ByteSize{bytes};
}

std::string FormatByteSize(ByteSize size) {
  if (size.bytes == 0) return "0B";
  for (const Unit& unit : kByteUnits) {
    if (size.bytes % unit.size == 0) return fmt::format("{}{}", size.bytes / unit.size, unit.name);
  }
  return fmt::format("{}B", size.bytes);
}

}  // namespace paceline
