#include "lib/api/quantity.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace paceline::api {

namespace {

using Wide = __int128;

constexpr size_t kMaxDigits = 19;  // as many as int64 can need; more would only be noise
constexpr int kMaxExponent = 18;

struct Suffix {
  std::string_view text;
  int64_t multiplier;
  int64_t divisor;
};

constexpr std::array<Suffix, 15> kSuffixes = {{
    {"", 1, 1},
    {"n", 1, 1'000'000'000},
    {"u", 1, 1'000'000},
    {"m", 1, 1'000},
    {"k", 1'000, 1},
    {"M", 1'000'000, 1},
    {"G", 1'000'000'000, 1},
    {"T", 1'000'000'000'000, 1},
    {"P", 1'000'000'000'000'000, 1},
    {"E", 1'000'000'000'000'000'000, 1},
    {"Ki", int64_t{1} << 10, 1},
    {"Mi", int64_t{1} << 20, 1},
    {"Gi", int64_t{1} << 30, 1},
    {"Ti", int64_t{1} << 40, 1},
    {"Pi", int64_t{1} << 50, 1},
}};
constexpr Suffix kExbi = {"Ei", int64_t{1} << 60, 1};

constexpr std::string_view kQuantityWords =
    "must be a quantity such as 512Mi, 4G or 1.5 (suffixes Ki to Ei, k to E, m, u, n)";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

Wide PowerOfTen(int exponent) {
  Wide power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// Digits as a whole number and how many of them stand behind the point; takes them off the front of `text`.
struct Decimal {
  Wide digits = 0;
  int decimals = 0;
};

Result<Decimal> TakeDecimal(std::string_view& text) {
  Decimal number;
  size_t significant = 0;
  size_t seen = 0;
  bool has_point = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c == '.' && !has_point) {
      has_point = true;
      continue;
    }
    if (!IsDigit(c)) break;
    ++seen;
    if (significant > 0 || c != '0') ++significant;
    if (significant > kMaxDigits) return InvalidArgumentError("must have at most 19 digits");
    number.digits = number.digits * 10 + (c - '0');
    if (has_point && ++number.decimals > static_cast<int>(kMaxDigits)) {
      return InvalidArgumentError("must have at most 19 digits");
    }
  }
  if (seen == 0) return InvalidArgumentError("must begin with a number");
  return number;
}

Result<Suffix> FindSuffix(std::string_view text) {
  if (text == kExbi.text) return kExbi;
  const auto known = std::find_if(kSuffixes.begin(), kSuffixes.end(), [&](const Suffix& s) { return s.text == text; });
  if (known != kSuffixes.end()) return *known;
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return InvalidArgumentError(std::string(kQuantityWords));
  text.remove_prefix(1);
  const bool is_negative = text.front() == '-';
  if (is_negative || text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.size() > 3 || !std::all_of(text.begin(), text.end(), IsDigit)) {
    return InvalidArgumentError(std::string(kQuantityWords));
  }
  int exponent = 0;
  for (char c : text) exponent = exponent * 10 + (c - '0');
  if (exponent > kMaxExponent) return InvalidArgumentError("must have an exponent of at most 18");
  const int64_t power = static_cast<int64_t>(PowerOfTen(exponent));
  return is_negative ? Suffix{"", 1, power} : Suffix{"", power, 1};
}

Result<int64_t> ParseScaled(std::string_view text, int64_t scale) {
  if (text.size() > 64) return InvalidArgumentError(std::string(kQuantityWords));
  Result<Decimal> number = TakeDecimal(text);
  if (!number.ok()) {
    return text.empty() || IsDigit(text.front()) ? number.status() : InvalidArgumentError(std::string(kQuantityWords));
  }
  ASSIGN_OR_RETURN(const Suffix suffix, FindSuffix(text));
  Wide numerator = 0;
  if (__builtin_mul_overflow(number->digits, static_cast<Wide>(suffix.multiplier), &numerator) ||
      __builtin_mul_overflow(numerator, static_cast<Wide>(scale), &numerator)) {
    return InvalidArgumentError("must be below 8Ei");
  }
  // Two steps, each rounded up: ceil(ceil(a / b) / c) is ceil(a / (b * c)) for whole numbers, and cannot overflow.
  const Wide by_point = PowerOfTen(number->decimals);
  numerator = numerator / by_point + (numerator % by_point != 0 ? 1 : 0);
  const Wide value = numerator / suffix.divisor + (numerator % suffix.divisor != 0 ? 1 : 0);
  if (value > std::numeric_limits<int64_t>::max()) return InvalidArgumentError("must be below 8Ei");
  return static_cast<int64_t>(value);
}

}  // namespace

Result<int64_t> ParseQuantity(std::string_view text) { return ParseScaled(text, 1); }

Result<int64_t> ParseMilliQuantity(std::string_view text) { return ParseScaled(text, 1000); }

}  // namespace paceline::api
