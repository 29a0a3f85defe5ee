#include "lib/base/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace paceline {

TimePoint RealClock::Now() const { return std::chrono::steady_clock::now(); }

WallTime RealClock::WallNow() const { return std::chrono::system_clock::now(); }

bool RealClock::SleepUntil(TimePoint when, std::stop_token stop) const {
  std::mutex mutex;
  std::condition_variable_any wakeup;
  std::unique_lock<std::mutex> lock(mutex);
  // The predicate is never true: the wait ends by time or by stop.
  wakeup.wait_until(lock, stop, when, [] { return false; });
  return !stop.stop_requested();
}

void RealClock::WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock, TimePoint when,
                          std::stop_token stop) const {
  bool woken = false;  // one pass through the predicate before the wait, then any wake-up returns to the caller
  auto any_wakeup = [&woken] { return std::exchange(woken, true); };
  if (when == TimePoint::max()) {
    wakeup.wait(lock, stop, any_wakeup);
  } else {
    wakeup.wait_until(lock, stop, when, any_wakeup);
  }
}

Duration Deadline::Remaining(const Clock& clock) const {
  if (is_infinite()) return Duration::max();
  return std::max(when_ - clock.Now(), Duration::zero());
}

namespace {

struct CivilTime {
  std::tm tm{};
  int64_t nanos = 0;  // 0..999'999'999
};

CivilTime ToCivil(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t unix_seconds = seconds.time_since_epoch().count();
  CivilTime civil;
  gmtime_r(&unix_seconds, &civil.tm);
  civil.nanos = (time - seconds).count();
  return civil;
}

std::string FormatSeconds(const std::tm& tm) {
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                     tm.tm_min, tm.tm_sec);
}

// Reads exactly `width` digits at `pos` and moves past them; -1 when they are not all digits.
int ReadDigits(std::string_view text, size_t& pos, size_t width) {
  if (pos + width > text.size()) return -1;
  int value = 0;
  for (size_t i = 0; i < width; ++i) {
    const char c = text[pos + i];
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  pos += width;
  return value;
}

bool ReadChar(std::string_view text, size_t& pos, std::string_view any_of) {
  if (pos >= text.size() || any_of.find(text[pos]) == std::string_view::npos) return false;
  ++pos;
  return true;
}

// The fraction after the dot as nanoseconds; digits past the ninth are dropped. -1 when there is no digit.
int64_t ReadFraction(std::string_view text, size_t& pos) {
  int64_t nanos = 0;
  int64_t unit = 100'000'000;
  const size_t start = pos;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    nanos += (text[pos] - '0') * unit;
    unit /= 10;
  }
  return pos == start ? -1 : nanos;
}

// "Z" or "+hh:mm"; false when malformed.
bool ReadZone(std::string_view text, size_t& pos, std::chrono::minutes& offset) {
  if (ReadChar(text, pos, "Zz")) return true;
  const bool negative = pos < text.size() && text[pos] == '-';
  if (!ReadChar(text, pos, "+-")) return false;
  const int hours = ReadDigits(text, pos, 2);
  if (hours < 0 || hours > 23 || !ReadChar(text, pos, ":")) return false;
  const int minutes = ReadDigits(text, pos, 2);
  if (minutes < 0 || minutes > 59) return false;
  offset = std::chrono::minutes(negative ? -(hours * 60 + minutes) : hours * 60 + minutes);
  return true;
}

}  // namespace

std::string FormatRfc3339(WallTime time) { return FormatSeconds(ToCivil(time).tm) + "Z"; }

std::string FormatRfc3339Micro(WallTime time) {
  const CivilTime civil = ToCivil(time);
  return fmt::format("{}.{:06}Z", FormatSeconds(civil.tm), civil.nanos / 1000);
}

Result<WallTime> ParseRfc3339(std::string_view text) {
  const Status malformed = InvalidArgumentError(fmt::format("not an RFC 3339 time: \"{}\"", text));
  size_t pos = 0;
  const int year = ReadDigits(text, pos, 4);
  if (year < 0 || !ReadChar(text, pos, "-")) return malformed;
  const int month = ReadDigits(text, pos, 2);
  if (month < 1 || month > 12 || !ReadChar(text, pos, "-")) return malformed;
  const int day = ReadDigits(text, pos, 2);
  if (!ReadChar(text, pos, "Tt ")) return malformed;
  const int hour = ReadDigits(text, pos, 2);
  if (hour < 0 || hour > 23 || !ReadChar(text, pos, ":")) return malformed;
  const int minute = ReadDigits(text, pos, 2);
  if (minute < 0 || minute > 59 || !ReadChar(text, pos, ":")) return malformed;
  const int second = ReadDigits(text, pos, 2);
  if (second < 0 || second > 60) return malformed;
  int64_t nanos = 0;
  if (ReadChar(text, pos, ".") && (nanos = ReadFraction(text, pos)) < 0) return malformed;
  std::chrono::minutes offset{0};
  if (!ReadZone(text, pos, offset) || pos != text.size()) return malformed;

  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok()) return malformed;
  // system_clock counts nanoseconds in 64 bits: it cannot hold years outside 1677..2262.
  if (year < 1678 || year > 2261) return InvalidArgumentError(fmt::format("time out of range: \"{}\"", text));
  const sys_days days{date};
  return WallTime(days.time_since_epoch() + hours(hour) + minutes(minute) + seconds(second) - offset +
                  nanoseconds(nanos));
}

}  // namespace paceline
