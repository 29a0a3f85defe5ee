#include "agent/csi/stage_file.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::agent {
namespace {

std::string Render(const std::vector<StageLine>& stages) {
  std::string text;
  for (const StageLine& stage : stages) text += stage.name + "@" + FormatRfc3339Micro(stage.at) + " ";
  return text;
}

TEST(StageFile, ReadsNamesAndTimes) {
  const struct {
    const char* name;
    std::string text;
    std::string expected;
  } cases[] = {
      {"empty", "", ""},
      {"one", "first_step 1767322845.123\n", "first_step@2026-01-02T03:00:45.123000Z "},
      {"whole seconds", "first_step 1767322845\n", "first_step@2026-01-02T03:00:45.000000Z "},
      {"microseconds", "a 1767322845.000001999\n", "a@2026-01-02T03:00:45.000001Z "},
      {"more digits than a nanosecond", "a 1.123456789\nb 1.1234567890\n", "a@1970-01-01T00:00:01.123456Z "},
      {"the first of a name counts", "a 1\nb 2\na 3\n", "a@1970-01-01T00:00:01.000000Z b@1970-01-01T00:00:02.000000Z "},
      {"a line without its end waits", "a 1\nb 2", "a@1970-01-01T00:00:01.000000Z "},
      {"other lines are skipped", "hello\n\n \nA 1\na\na x\na -1\na 1e3\na 1.\na 99999999999\n a 1\na  1\na 1 2\nb 2\n",
       "b@1970-01-01T00:00:02.000000Z "},
      {"long names are skipped", std::string(64, 'a') + " 1\n" + std::string(63, 'b') + " 1\n",
       std::string(63, 'b') + "@1970-01-01T00:00:01.000000Z "},
  };
  for (const auto& c : cases) EXPECT_EQ(Render(ParseStageFile(c.text, 16)), c.expected) << c.name;
}

TEST(StageFile, StopsAtItsLimit) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "s" + std::to_string(i) + " 1\n";
  EXPECT_EQ(ParseStageFile(text, 16).size(), 16u);
  EXPECT_EQ(ParseStageFile(text, 0).size(), 0u);
}

TEST(StageFile, SurvivesDamage) {
  const std::string text = "first_step 1767322845.123\nlast_step 1767322999.5\n";
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text.substr(0, random() % (text.size() + 1));
    for (int flips = 0; flips < 2 && !damaged.empty(); ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    for (const StageLine& stage : ParseStageFile(damaged, 16)) {
      EXPECT_FALSE(stage.name.empty());
      EXPECT_GE(stage.at.time_since_epoch().count(), 0);
    }
  }
}

}  // namespace
}  // namespace paceline::agent
