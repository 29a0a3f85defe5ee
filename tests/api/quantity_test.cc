#include "lib/api/quantity.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace paceline::api {
namespace {

TEST(Quantity, ReadsWhatKubernetesReads) {
  struct Case {
    std::string text;
    std::optional<int64_t> value;  // empty: refused
    std::optional<int64_t> milli;
  };
  const Case cases[] = {
      {"0", 0, 0},
      {"1", 1, 1000},
      {"512Mi", 536870912, 536870912000},
      {"1.5Gi", 1610612736, 1610612736000},
      {"1k", 1000, 1000000},
      {"4G", 4000000000, 4000000000000},
      {"100m", 1, 100},  // rounded up, as Kubernetes does
      {"1001m", 2, 1001},
      {"1n", 1, 1},
      {"0.5", 1, 500},
      {".5", 1, 500},
      {"5.", 5, 5000},
      {"2e3", 2000, 2000000},
      {"2E3", 2000, 2000000},
      {"25e-1", 3, 2500},
      {"7Ei", 8070450532247928832, std::nullopt},
      {"8Ei", std::nullopt, std::nullopt},
      {"9223372036854775807", 9223372036854775807, std::nullopt},
      {"9223372036854775808", std::nullopt, std::nullopt},
      {"0000000000000000000000000000001", 1, 1000},
      {"", std::nullopt, std::nullopt},
      {".", std::nullopt, std::nullopt},
      {"Mi", std::nullopt, std::nullopt},
      {"-1", std::nullopt, std::nullopt},
      {"1 Mi", std::nullopt, std::nullopt},
      {"1MB", std::nullopt, std::nullopt},
      {"1mi", std::nullopt, std::nullopt},
      {"1e", std::nullopt, std::nullopt},
      {"1e99", std::nullopt, std::nullopt},
      {"0x10", std::nullopt, std::nullopt},
      {"1.2.3", std::nullopt, std::nullopt},
      {"12345678901234567890", std::nullopt, std::nullopt},
  };
  for (const Case& c : cases) {
    const Result<int64_t> value = ParseQuantity(c.text);
    EXPECT_EQ(value.ok() ? std::optional<int64_t>(*value) : std::nullopt, c.value) << c.text;
    const Result<int64_t> milli = ParseMilliQuantity(c.text);
    EXPECT_EQ(milli.ok() ? std::optional<int64_t>(*milli) : std::nullopt, c.milli) << c.text;
  }
}

TEST(Quantity, SaysWhatIsAccepted) {
  EXPECT_EQ(ParseQuantity("512MB").status().message(),
            "must be a quantity such as 512Mi, 4G or 1.5 (suffixes Ki to Ei, k to E, m, u, n)");
}

}  // namespace
}  // namespace paceline::api
