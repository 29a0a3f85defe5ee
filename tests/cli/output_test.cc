#include "cli/output.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "cli/error_advice.h"

namespace paceline::cli {
namespace {

TEST(RenderTable, AlignsColumnsByCharactersAndMarksEmptyCells) {
  EXPECT_EQ(RenderTable({{"NAME", "PHASE"}, {{"träin", "Running"}, {"a-longer-name", ""}}}),
            "NAME           PHASE\n"
            "träin          Running\n"
            "a-longer-name  -\n");
}

TEST(RenderValue, YamlKeepsStringsThatLookLikeOtherTypes) {
  const nlohmann::json value = {{"version", "1"},
                                {"flag", "true"},
                                {"count", 3},
                                {"ratio", 0.5},
                                {"none", nullptr},
                                {"empty", nlohmann::json::array()},
                                {"text", "a: \"b\"\n#c"},
                                {"list", {"x", {{"y", false}}}},
                                {"map", nlohmann::json::object()}};
  const YAML::Node parsed = YAML::Load(RenderValue(value, OutputFormat::kYaml));
  EXPECT_EQ(parsed["version"].Tag(), "!");  // quoted, so a string
  EXPECT_EQ(parsed["flag"].Tag(), "!");
  EXPECT_EQ(parsed["count"].as<int>(), 3);
  EXPECT_EQ(parsed["text"].as<std::string>(), "a: \"b\"\n#c");
  EXPECT_TRUE(parsed["none"].IsNull());
  EXPECT_TRUE(parsed["empty"].IsSequence());
  EXPECT_TRUE(parsed["map"].IsMap());
  EXPECT_FALSE(parsed["list"][1]["y"].as<bool>());
}

TEST(RenderValue, JsonReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(RenderValue("a\xff", OutputFormat::kJson), "\"a\xEF\xBF\xBD\"\n");
}

TEST(RenderError, SaysWhatItCostAndWhatToDoForEveryCode) {
  EXPECT_EQ(
      RenderError(PermissionDeniedError("list nodes: forbidden")),
      "pacectl: list nodes: forbidden\n  (nothing was done; ask for the right that the message names, or do it as "
      "somebody who has it)\n");
  for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    EXPECT_EQ(ErrorAdvice(static_cast<StatusCode>(code)).reason, StatusCodeName(static_cast<StatusCode>(code)));
  }
}

TEST(FormatSeconds, KeepsThreeFigures) {
  EXPECT_EQ(FormatSeconds(0.1234), "0.12 s");
  EXPECT_EQ(FormatSeconds(14.26), "14.3 s");
  EXPECT_EQ(FormatSeconds(99.97), "1m 40s");
  EXPECT_EQ(FormatSeconds(3725), "1h 02m 05s");
}

TEST(ParseOutputFormat, NamesWhatItAccepts) {
  EXPECT_EQ(*ParseOutputFormat("yaml"), OutputFormat::kYaml);
  EXPECT_EQ(ParseOutputFormat("xml").status().message(), "--output must be table, json or yaml, not \"xml\"");
}

}  // namespace
}  // namespace paceline::cli
