#include "lib/base/log.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include <nlohmann/json.hpp>

#include "lib/base/log_format.h"
#include "tests/fakes/capture_log.h"

namespace paceline {
namespace {

using fakes::CaptureLog;
using nlohmann::json;

json ParseLine(std::string_view message, const std::vector<LogField>& fields) {
  return json::parse("{" + FormatLogJson(message, fields) + "}");
}

TEST(LogFormat, TextQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(FormatLogText("sample skipped", {{"node", "n1"},
                                             {"error", UnavailableError("connect: timed out")},
                                             {"count", 3},
                                             {"ok", false},
                                             {"empty", ""},
                                             {"pair", "a=b"},
                                             {"path", "/a\"b\\c"}}),
            R"(sample skipped node=n1 error="Unavailable: connect: timed out" count=3 ok=false empty="" pair="a=b" )"
            R"(path="/a\"b\\c")");
}

TEST(LogFormat, ALineStaysOneLine) {
  const std::string text = FormatLogText("two\nlines", {{"out", "a\r\nb\tc\x01\x7f"}, {"k\ney", "v"}});
  EXPECT_EQ(text, R"(two\nlines out="a\r\nb\tc\u0001\u007f" "k\ney"=v)");
}

TEST(LogFormat, JsonReadsBackToTheSameValues) {
  const json line = ParseLine("m \"quoted\" \\ \n", {{"text", "a\"b\\c\nd\te\x01 ü 中 \xf0\x9f\x98\x80"},
                                                     {"int", -7},
                                                     {"big", std::numeric_limits<uint64_t>::max()},
                                                     {"double", 1e-9},
                                                     {"bool", true}});
  EXPECT_EQ(line["message"], "m \"quoted\" \\ \n");
  EXPECT_EQ(line["text"], "a\"b\\c\nd\te\x01 ü 中 \xf0\x9f\x98\x80");
  EXPECT_EQ(line["int"], -7);
  EXPECT_EQ(line["big"], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(line["double"], 1e-9);
  EXPECT_EQ(line["bool"], true);
}

TEST(LogFormat, JsonStaysValidForBytesThatAreNotUtf8AndNumbersThatAreNotJson) {
  const json line = ParseLine("bad \xff", {{"cut", "abc\xe4\xb8"},
                                           {"overlong", "\xc0\xaf"},
                                           {"surrogate", "\xed\xa0\x80"},
                                           {"nan", std::numeric_limits<double>::quiet_NaN()},
                                           {"inf", -std::numeric_limits<double>::infinity()},
                                           {"\xfe", 1}});
  EXPECT_EQ(line["message"], "bad \xef\xbf\xbd");
  EXPECT_EQ(line["cut"], "abc\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(line["overlong"], "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(line["surrogate"], "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(line["nan"], "nan");
  EXPECT_EQ(line["inf"], "-inf");
  EXPECT_EQ(line["\xef\xbf\xbd"], 1);
}

TEST(LogFormat, EveryByteValueGivesValidJson) {
  for (int first = 0; first < 256; ++first) {
    for (int second : {0, 0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xe0, 0xf4, 0xff}) {
      const std::string value{static_cast<char>(first), static_cast<char>(second), '\x80', 'x'};
      EXPECT_TRUE(json::accept("{" + FormatLogJson("m", {{"v", value}}) + "}")) << first << " " << second;
    }
  }
}

TEST(LogFormat, AFieldCannotHideTheWritersOwn) {
  const json line = ParseLine("m", {{"message", "x"}, {"level", "y"}, {"time", 1}});
  EXPECT_EQ(line["message"], "m");
  EXPECT_EQ(line["message_"], "x");
  EXPECT_EQ(line["level_"], "y");
  EXPECT_EQ(line["time_"], 1);
}

TEST(LogLevel, ParsesItsNamesAndNamesThemOtherwise) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("warn", &level).ok());
  EXPECT_EQ(level, LogLevel::kWarn);
  const Status bad = ParseLogLevel("WARNING", &level);
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bad.message().find("debug, info, warn or error"), std::string::npos) << bad.message();
  EXPECT_EQ(level, LogLevel::kWarn);
  LogFormat format = LogFormat::kText;
  EXPECT_TRUE(ParseLogFormat("json", &format).ok());
  EXPECT_EQ(format, LogFormat::kJson);
  EXPECT_EQ(ParseLogFormat("xml", &format).code(), StatusCode::kInvalidArgument);
}

TEST(Logger, DropsWhatIsBelowItsLevel) {
  CaptureLog log(LogLevel::kWarn);
  log.logger().Info("quiet");
  log.logger().Warn("loud", {{"node", "n1"}});
  log.logger().SetLevel(LogLevel::kDebug);
  log.logger().Debug("detail");
  ASSERT_EQ(log.lines().size(), 2u) << log.Text();
  EXPECT_EQ(log.lines()[0].level, LogLevel::kWarn);
  EXPECT_EQ(log.lines()[0].fields.at("node"), "n1");
  EXPECT_EQ(log.Count("detail"), 1u);
  EXPECT_EQ(log.Text(), "warn loud node=n1\ndebug detail\n");
}

TEST(Logger, KeepsEveryLineOfManyThreads) {
  CaptureLog log;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log] {
        for (int i = 0; i < 250; ++i) log.logger().Info("tick", {{"i", i}});
      });
    }
  }
  EXPECT_EQ(log.Count("tick"), 1000u);
}

TEST(Logger, WritesOneJsonObjectALineToStderr) {
  testing::internal::CaptureStderr();
  {
    auto log = Logger::ToStderr("paceline-\"100%d\"", LogLevel::kInfo, LogFormat::kJson);
    log->Debug("not this");
    log->Warn("disk {} %v %d\n", {{"free", 12}, {"path", "/x"}});
    log->Info("done");
  }
  const std::string out = testing::internal::GetCapturedStderr();
  const size_t first_end = out.find('\n');
  const json line = json::parse(out.substr(0, first_end));
  EXPECT_EQ(line["program"], "paceline-\"100%d\"");
  EXPECT_EQ(line["level"], "warn");
  EXPECT_EQ(line["message"], "disk {} %v %d\n");
  EXPECT_EQ(line["free"], 12);
  const std::string time = line["time"];
  EXPECT_EQ(time.size(), std::string("2026-01-02T03:04:05.123456Z").size()) << time;
  EXPECT_EQ(json::parse(out.substr(first_end + 1))["message"], "done");
}

TEST(Logger, WritesTextToStderr) {
  testing::internal::CaptureStderr();
  Logger::ToStderr("agent", LogLevel::kInfo, LogFormat::kText)->Error("gone", {{"node", "n 1"}});
  const std::string out = testing::internal::GetCapturedStderr();
  ASSERT_GT(out.size(), 28u);
  EXPECT_EQ(out.substr(26), "Z error agent: gone node=\"n 1\"\n") << out;
  EXPECT_EQ(out[10], 'T');
}

}  // namespace
}  // namespace paceline
