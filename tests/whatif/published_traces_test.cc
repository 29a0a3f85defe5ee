// The two public traces of the what-if study, and every number that was published with them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "analysis/whatif/result_json.h"
#include "analysis/whatif/trace_file.h"

namespace paceline::analysis {
namespace {

constexpr double kTolerance = 1e-6;  // relative; the study computes in single precision here and there

// Beside the checkout, where CI has it too.
std::string DataFolder() {
  const char* folder = std::getenv("PACELINE_SHARED_DATA");
  const std::string base = folder != nullptr ? folder : std::string(PACELINE_SOURCE_DIR) + "/../shared/data";
  return base + "/whatif";
}

nlohmann::json ReadJson(const std::string& name) {
  std::ifstream file(DataFolder() + "/" + name);
  return nlohmann::json::parse(file);
}

// The numbers at the leaves, and nothing that is missing on either side.
void ExpectSame(const nlohmann::json& expected, const nlohmann::json& actual, const std::string& path) {
  ASSERT_EQ(expected.is_object(), actual.is_object()) << path;
  if (expected.is_object()) {
    EXPECT_EQ(expected.size(), actual.size()) << path;
    for (const auto& [key, value] : expected.items()) {
      ASSERT_TRUE(actual.contains(key)) << path << "." << key;
      ExpectSame(value, actual[key], path + "." + key);
    }
  } else if (expected.is_number_float()) {
    ASSERT_TRUE(actual.is_number()) << path;
    const double want = expected.get<double>();
    EXPECT_NEAR(actual.get<double>(), want, kTolerance * std::max(1.0, std::abs(want))) << path;
  } else {
    EXPECT_EQ(expected, actual) << path;
  }
}

class PublishedTrace : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(DataFolder()))
      GTEST_SKIP() << "no " << DataFolder() << ": the public traces are not here";
    auto trace = ReadStudyTrace(DataFolder() + "/trace-" + GetParam() + ".parquet",
                                DataFolder() + "/meta-" + GetParam() + ".yaml");
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    trace_ = *std::move(trace);
    auto model = BuildWhatIfModel(trace_);
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = *std::move(model);
    auto result = AnalyzeModel(trace_, model_, {.threads = 2});
    ASSERT_TRUE(result.ok()) << result.status().message();
    result_ = *std::move(result);
  }

  StepTrace trace_;
  WhatIfModel model_;
  WhatIfResult result_;
};

TEST_P(PublishedTrace, GivesEveryPublishedNumber) {
  const nlohmann::json json = nlohmann::json::parse(WhatIfJson(result_, FindCauses(model_, result_), {}).dump());
  const nlohmann::json published = ReadJson("result-" + GetParam() + ".json");
  for (const auto& [key, value] : published.items()) {
    ASSERT_TRUE(json.contains(key)) << key;
    ExpectSame(value, json[key], key);
  }
  ExpectSame(ReadJson("ms-" + GetParam() + ".json"), json["ms"], "ms");
  ExpectSame(ReadJson("mw-" + GetParam() + ".json"), json["mw"], "mw");
}

INSTANTIATE_TEST_SUITE_P(, PublishedTrace, testing::Values("ST", "AR"), [](const auto& info) { return info.param; });

class PublishedHints : public PublishedTrace {};

TEST_P(PublishedHints, NameTheKnownCause) {
  const std::vector<CauseHint> hints = FindCauses(model_, result_);
  ASSERT_FALSE(hints.empty());
  EXPECT_EQ(hints.front().cause, GetParam() == "ST" ? "last-stage" : "faulty-worker");
  using Workers = std::vector<std::pair<int, int>>;
  EXPECT_EQ(result_.slowest_workers, GetParam() == "ST" ? (Workers{{1, 3}}) : (Workers{{0, 0}}));
}

INSTANTIATE_TEST_SUITE_P(, PublishedHints, testing::Values("ST", "AR"), [](const auto& info) { return info.param; });

TEST(PublishedGraphs, HaveTheKnownSize) {
  if (!std::filesystem::exists(DataFolder()))
    GTEST_SKIP() << "no " << DataFolder() << ": the public traces are not here";
  struct Case {
    const char* name;
    size_t ops, edges;
  };
  for (const Case& c : {Case{"ST", 106, 165}, Case{"AR", 666, 1229}}) {
    auto trace =
        ReadStudyTrace(DataFolder() + "/trace-" + c.name + ".parquet", DataFolder() + "/meta-" + c.name + ".yaml");
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    auto graph = BuildDependencyGraph(*trace);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->ops.size(), c.ops);
    EXPECT_EQ(graph->edge_count(), c.edges);
  }
}

}  // namespace
}  // namespace paceline::analysis
