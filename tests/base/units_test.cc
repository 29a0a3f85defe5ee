#include "lib/base/units.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ReadsWhatPeopleWrite) {
  const struct {
    const char* text;
    Duration value;
  } cases[] = {{"10s", 10s},
               {"1m30s", 90s},
               {"500ms", 500ms},
               {"1.5h", 90min},
               {"0.25s", 250ms},
               {"2d", 48h},
               {"0", 0s},
               {"0s", 0s},
               {"1h0m0.000000001s", 1h + 1ns},
               {"7us9ns", 7009ns},
               {"1.50s", 1500ms},
               {"9223372036854775807ns", Duration::max()},
               {"106751d", 106751 * 24h}};
  for (const auto& c : cases) {
    const Result<Duration> parsed = ParseDuration(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, c.value) << c.text;
  }
}

TEST(Duration, RefusesTheRestAndShowsTheRightForm) {
  for (const char* text :
       {"", "10", "s", "10 s", "-5s", "+5s", "1.s", ".5s", "1.2.3s", "1s2", "10sec", "1e3s", "10S", "0.5ns", "106752d",
        "9223372036854775808ns", "9223372036854775807ns1ns", "99999999999999999999s", "0.0000000000000000001s"}) {
    const Result<Duration> parsed = ParseDuration(text);
    ASSERT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(parsed.status().message().find("\"1m30s\""), std::string::npos);
  }
}

TEST(Duration, WritesWhatItReadsBack) {
  EXPECT_EQ(FormatDuration(0s), "0s");
  EXPECT_EQ(FormatDuration(90s), "1m30s");
  EXPECT_EQ(FormatDuration(48h), "2d");
  EXPECT_EQ(FormatDuration(1500ms), "1s500ms");
  EXPECT_EQ(FormatDuration(-90s), "-1m30s");
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Duration value(static_cast<int64_t>(random() >> (1 + random() % 60)));
    EXPECT_EQ(*ParseDuration(FormatDuration(value)), value) << FormatDuration(value);
  }
}

TEST(ByteSize, ReadsWhatPeopleWrite) {
  const struct {
    const char* text;
    uint64_t bytes;
  } cases[] = {{"0", 0},
               {"0B", 0},
               {"1B", 1},
               {"512MiB", 512ull << 20},
               {"512Mi", 512ull << 20},
               {"1.5GiB", 3ull << 29},
               {"1.25GiB", 5ull << 28},
               {"0.5KiB", 512},
               {"10MB", 10'000'000},
               {"1.001kB", 1001},
               {"8191PiB", 8191ull << 50}};
  for (const auto& c : cases) {
    const Result<ByteSize> parsed = ParseByteSize(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << ": " << parsed.status().ToString();
    EXPECT_EQ(parsed->bytes, c.bytes) << c.text;
  }
}

TEST(ByteSize, RefusesTheRestAndShowsTheRightForm) {
  for (const char* text : {"", "512", "MiB", "-1MiB", "1 MiB", "1MiBx", "1MiB1KiB", "0.3KiB", "1.5B", "8192PiB", "1mib",
                           "1M", "99999999999999999999B"}) {
    const Result<ByteSize> parsed = ParseByteSize(text);
    ASSERT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(parsed.status().message().find("\"512MiB\""), std::string::npos);
  }
}

TEST(ByteSize, WritesWhatItReadsBack) {
  EXPECT_EQ(FormatByteSize({0}), "0B");
  EXPECT_EQ(FormatByteSize({1000}), "1000B");
  EXPECT_EQ(FormatByteSize({512ull << 20}), "512MiB");
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const ByteSize value{(random() >> 1) >> (random() % 60)};
    EXPECT_EQ(*ParseByteSize(FormatByteSize(value)), value) << FormatByteSize(value);
  }
}

TEST(Units, AnyBytesGiveAnAnswer) {
  std::mt19937 random(1);
  constexpr char kAlphabet[] = "0123456789.smhdunKMGTPiB -\xff";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t length = random() % 12; text.size() < length;) text += kAlphabet[random() % (sizeof kAlphabet - 1)];
    const Result<Duration> duration = ParseDuration(text);
    if (duration.ok()) {
      EXPECT_EQ(*ParseDuration(FormatDuration(*duration)), *duration) << text;
    }
    const Result<ByteSize> size = ParseByteSize(text);
    if (size.ok()) {
      EXPECT_EQ(*ParseByteSize(FormatByteSize(*size)), *size) << text;
    }
  }
}

}  // namespace
}  // namespace paceline
