#include "lib/base/process_stats.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline {
namespace {

// As proc(5) lists them; fields 14, 15, 20, 22, 23 and 24 are 250, 50, 7, 12345, 8192000 and 321.
constexpr char kTail[] =
    " S 1 42 42 0 -1 4194560 900 0 3 0 250 50 0 0 20 0 7 0 12345 8192000 321 18446744073709551615 1 1 0 0 0 0 0";

TEST(ProcStat, ReadsTheFieldsWhateverTheNameIs) {
  for (const std::string name : {"agent", "two words", "odd) R 1 2 3", "", "new\nline", "\xff\xfe"}) {
    const Result<ProcessStats> stats = ParseProcStat("42 (" + name + ")" + kTail, 1000, {});
    ASSERT_TRUE(stats.ok()) << name << ": " << stats.status().ToString();
    EXPECT_DOUBLE_EQ(stats->cpu_seconds, 3.0);
    EXPECT_DOUBLE_EQ(stats->start_time_seconds, 1123.45);
    EXPECT_EQ(stats->threads, 7u);
    EXPECT_EQ(stats->virtual_bytes, 8192000u);
    EXPECT_EQ(stats->resident_bytes, 321u * 4096);
  }
}

TEST(ProcStat, RefusesTextThatIsCutOrNotNumbers) {
  const std::string whole = std::string("42 (a)") + kTail;
  const size_t needed = whole.find(" 18446744073709551615");
  for (size_t length = 0; length < needed - 3; ++length) {  // shorter numbers at the very end are still numbers
    EXPECT_EQ(ParseProcStat(whole.substr(0, length), 0, {}).status().code(), StatusCode::kInvalidArgument) << length;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    text[random() % text.size()] ^= static_cast<char>(1 + random() % 255);
    (void)ParseProcStat(text, 0, {}).ok();  // any answer, but no crash; sanitizers watch
  }
}

TEST(BootTime, IsTheBtimeLine) {
  EXPECT_EQ(*ParseBootTime("cpu  1 2 3\nintr 5 6\nbtime 1767323045\nprocesses 9\n"), 1767323045.0);
  EXPECT_EQ(*ParseBootTime("btime 5"), 5.0);
  EXPECT_EQ(ParseBootTime("cpu 1\n").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ParseBootTime("btime x\n").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ParseBootTime("").status().code(), StatusCode::kNotFound);
}

TEST(OwnProcessStats, AreThoseOfThisProcess) {
  const Result<ProcessStats> stats = ReadOwnProcessStats("/proc");
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  EXPECT_GE(stats->threads, 1u);
  EXPECT_GT(stats->resident_bytes, 1u << 20);
  EXPECT_GE(stats->virtual_bytes, stats->resident_bytes);
  EXPECT_GE(stats->open_descriptors, 3u);
  EXPECT_GE(stats->max_descriptors, stats->open_descriptors);
  EXPECT_GT(stats->start_time_seconds, 1.6e9);
  EXPECT_EQ(ReadOwnProcessStats("/nowhere").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline
