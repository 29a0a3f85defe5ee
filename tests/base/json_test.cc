#include "lib/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPod[] = R"({
  "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}, "generation": 3.0},
  "spec": {"containers": [{"name": "c0"}, {"name": "c1", "args": ["-x", "y"]}], "priority": 18446744073709551615,
           "big": -9223372036854775808, "share": 0.5, "huge": 1e300, "hostNetwork": true, "nothing": null}
})";

TEST(Json, FindsByPath) {
  const Json pod = *ParseJson(kPod);
  EXPECT_EQ(*JsonString(pod, "metadata.name"), "a");
  EXPECT_EQ(*JsonString(pod, "spec.containers.1.name"), "c1");
  EXPECT_THAT(*JsonStrings(pod, "spec.containers.1.args"), ElementsAre("-x", "y"));
  EXPECT_EQ(*JsonInt(pod, "metadata.generation"), 3);
  EXPECT_EQ(*JsonInt(pod, "spec.big"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*JsonDouble(pod, "spec.share"), 0.5);
  EXPECT_EQ(*JsonDouble(pod, "metadata.generation"), 3.0);
  EXPECT_TRUE(*JsonBool(pod, "spec.hostNetwork"));
  ASSERT_NE(FindJsonAt(pod, {"metadata", "labels", "app.kubernetes.io/name"}), nullptr);
  EXPECT_EQ(FindJson(pod, "metadata.labels.app.kubernetes.io/name"), nullptr);
}

TEST(Json, AbsenceIsNotTheSameAsAWrongType) {
  const Json pod = *ParseJson(kPod);
  for (const char* path : {"spec.gone", "gone.spec", "spec.nothing", "spec.nothing.x", "spec.containers.2", "",
                           "spec.containers.-1", "spec.containers.99999999999999999999", "metadata.name.x", "spec."}) {
    EXPECT_EQ(JsonString(pod, path).status().code(), StatusCode::kNotFound) << path;
  }
  const struct {
    Status status;
    const char* message;
  } cases[] = {
      {JsonString(pod, "metadata.generation").status(), "metadata.generation must be a string, not 3.0"},
      {JsonInt(pod, "metadata.name").status(), "metadata.name must be a whole number, not \"a\""},
      {JsonInt(pod, "spec.share").status(), "spec.share must be a whole number, not 0.5"},
      {JsonInt(pod, "spec.huge").status(), "spec.huge must be a whole number, not 1e+300"},
      {JsonInt(pod, "spec.priority").status(),
       "spec.priority must be a whole number of at most 64 bits, not 18446744073709551615"},
      {JsonBool(pod, "spec.share").status(), "spec.share must be true or false, not 0.5"},
      {JsonDouble(pod, "spec.hostNetwork").status(), "spec.hostNetwork must be a number, not true"},
      {JsonStrings(pod, "spec.containers").status(),
       "spec.containers must be a list of strings, not [{\"name\":\"c0\"},"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(c.status.message(), HasSubstr(c.message));
  }
}

TEST(Json, FallbacksAreForAbsenceOnly) {
  const Json pod = *ParseJson(kPod);
  EXPECT_EQ(*JsonStringOr(pod, "spec.gone", "d"), "d");
  EXPECT_EQ(*JsonStringOr(pod, "metadata.name", "d"), "a");
  EXPECT_EQ(*JsonIntOr(pod, "spec.gone", 7), 7);
  EXPECT_EQ(*JsonDoubleOr(pod, "spec.gone", 0.25), 0.25);
  EXPECT_TRUE(*JsonBoolOr(pod, "spec.gone", true));
  EXPECT_EQ(JsonIntOr(pod, "metadata.name", 7).status().code(), StatusCode::kInvalidArgument);
}

TEST(Json, RefusesWhatIsNotOneValue) {
  for (const char* text : {"", "{", "{}x", "[1,]", "{\"a\":}", "nul", "\"\xff\"", "'a'", "01"}) {
    const Status status = ParseJson(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr("not valid JSON: parse error at line 1, column")) << text;
  }
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth)).ok());
  EXPECT_THAT(ParseJson(nested(kMaxJsonDepth + 1)).status().message(), HasSubstr("deeper than 200 levels"));
  EXPECT_FALSE(ParseJson(std::string(1'000'000, '[')).ok());
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\\\"[[\"").ok());  // brackets in a string are text
  EXPECT_TRUE(ParseJson("[[1],[2],[3]]", 2).ok());
}

TEST(Json, DumpNeverFails) {
  Json json = {{"b", "bad \xff"}, {"a", std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_EQ(DumpJson(json), "{\"a\":null,\"b\":\"bad \xef\xbf\xbd\"}");
  EXPECT_EQ(DumpJsonPretty(Json{{"a", 1}}), "{\n  \"a\": 1\n}");
}

TEST(Json, AnyBytesGiveAnAnswer) {
  const std::string whole = kPod;
  for (size_t length = 0; length < whole.size() - 1; ++length) EXPECT_FALSE(ParseJson(whole.substr(0, length)).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (int flips = 0; flips < 2; ++flips) text[random() % text.size()] = static_cast<char>(random());
    const Result<Json> parsed = ParseJson(text);
    if (!parsed.ok()) continue;
    (void)JsonString(*parsed, "metadata.name").ok();
    (void)JsonStrings(*parsed, "spec.containers.1.args").ok();
    EXPECT_TRUE(ParseJson(DumpJson(*parsed)).ok());
  }
}

}  // namespace
}  // namespace paceline
