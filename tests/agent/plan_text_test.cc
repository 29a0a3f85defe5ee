#include "agent/plan/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace paceline::agent {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(PlanText, ReadsYamlAndJson) {
  const json expected = {{"spec", {{"images", json::array({{{"reference", "r.test/a:1"}, {"priority", 5}}})}}},
                         {"text", "5"},
                         {"yes", true},
                         {"none", nullptr},
                         {"number", -1.5}};
  Result<json> yaml = ParsePlanText(
      "spec:\n  images:\n  - reference: r.test/a:1\n    priority: 5\ntext: \"5\"\nyes: true\nnone:\nnumber: -1.5\n");
  ASSERT_TRUE(yaml.ok()) << yaml.status().ToString();
  EXPECT_EQ(*yaml, expected);
  Result<json> same = ParsePlanText(expected.dump());
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(*same, expected);
}

TEST(PlanText, SaysWhereItIsWrong) {
  const struct {
    std::string text;
    std::string message;
  } cases[] = {
      {"a: 1\nb: [1, 2\n", "line"},
      {"a: 1\na: 2\n", "line 2: \"a\" is given twice"},
      {"a: 1\n---\nb: 2\n", "more than one plan"},
      {"", "no plan"},
      {"# nothing\n---\n", "no plan"},
      {"[a]: 1\n", "a key must be a word"},
      {std::string(200, '[') + std::string(200, ']'), "nested too deep"},
      {"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
       "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]\n",
       "too large"},
  };
  for (const auto& c : cases) {
    Result<json> parsed = ParsePlanText(c.text);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.message)) << c.text;
  }
}

TEST(PlanText, SurvivesDamage) {
  const std::string text = "spec:\n  images:\n  - {reference: \"r.test/a:1\", priority: 5}\n  jobs: []\n# end\n";
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text.substr(0, random() % (text.size() + 1));
    for (int flips = 0; flips < 2 && !damaged.empty(); ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    Result<json> parsed = ParsePlanText(damaged);
    if (parsed.ok()) continue;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace paceline::agent
