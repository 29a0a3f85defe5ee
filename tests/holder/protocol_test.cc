#include "holder/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::holder {
namespace {

using ::testing::HasSubstr;

const char* const kStart =
    R"({"version":1,"command":"start","name":"hdfs-1","owner":"csi-1","program":"mount","arguments":["--uri","file:///x"],)"
    R"("environment":{"KRB5CCNAME":"{files}/cc"},"files":{"client.keytab":"00ff41"},"future":true})";

TEST(HolderRequest, IsReadWhole) {
  const Result<Request> request = ParseRequest(kStart);
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->command, Command::kStart);
  EXPECT_EQ(request->mount.name, "hdfs-1");
  EXPECT_EQ(request->mount.owner, "csi-1");
  EXPECT_EQ(request->mount.program, "mount");
  EXPECT_THAT(request->mount.arguments, ::testing::ElementsAre("--uri", "file:///x"));
  EXPECT_EQ(request->mount.environment.at("KRB5CCNAME"), "{files}/cc");
  EXPECT_EQ(request->files.value().at("client.keytab"), std::string("\0\xff\x41", 3));
  EXPECT_EQ(ParseRequest(R"({"version":1,"command":"list"})")->command, Command::kList);
  EXPECT_EQ(ParseRequest(R"({"version":1,"command":"stop","name":"a"})")->command, Command::kStop);
  EXPECT_EQ(ParseRequest(R"({"version":1,"command":"status","name":"a"})")->command, Command::kStatus);
}

TEST(HolderRequest, SaysWhatIsWrong) {
  const struct {
    const char* text;
    StatusCode code;
    const char* words;
  } cases[] = {
      {"", StatusCode::kInvalidArgument, ""},
      {"[]", StatusCode::kInvalidArgument, "object"},
      {R"({"command":"list"})", StatusCode::kNotFound, "version"},
      {R"({"version":2,"command":"list"})", StatusCode::kUnimplemented, "version 2"},
      {R"({"version":1,"command":"burn"})", StatusCode::kUnimplemented, "burn"},
      {R"({"version":1,"command":"stop","name":"../x"})", StatusCode::kInvalidArgument, "name"},
      {R"({"version":1,"command":"start","name":"A"})", StatusCode::kInvalidArgument, "name"},
      {R"({"version":1,"command":"start","name":"a","program":"m","arguments":"x"})", StatusCode::kInvalidArgument,
       "arguments"},
      {R"({"version":1,"command":"start","name":"a","program":"m","arguments":["a\u0000b"]})",
       StatusCode::kInvalidArgument, "NUL"},
      {R"({"version":1,"command":"start","name":"a","program":"m","environment":{"A":1}})",
       StatusCode::kInvalidArgument, "environment.A"},
      {R"({"version":1,"command":"start","name":"a","program":"m","files":{"../x":"00"}})",
       StatusCode::kInvalidArgument, "files"},
      {R"({"version":1,"command":"start","name":"a","program":"m","files":{"x":"0g"}})", StatusCode::kInvalidArgument,
       "files.x"},
      {R"({"version":1,"command":"start","name":"a","program":"m","files":{"x":"000"}})", StatusCode::kInvalidArgument,
       "files.x"},
  };
  for (const auto& c : cases) {
    const Status status = ParseRequest(c.text).status();
    EXPECT_EQ(status.code(), c.code) << c.text << ": " << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(c.words)) << c.text;
  }
}

TEST(HolderRequest, SurvivesDamage) {
  const std::string whole = kStart;
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(ParseRequest(whole.substr(0, i)).ok()) << i;
    for (const char flip : {'\x01', '\x10', '\x7f'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const Result<Request> request = ParseRequest(damaged);  // may be fine; must not harm
      if (request.ok()) EXPECT_TRUE(request->command == Command::kList || IsMountName(request->mount.name));
    }
  }
}

TEST(HolderRecord, ComesBackAsItWas) {
  MountRecord record;
  record.spec = {"hdfs-1", "csi-1", "mount", {"--uri", "hdfs://h/ü"}, {{"A", "b"}}};
  record.pid = 4711;
  record.start_ticks = 123456789;
  record.has_mounted = true;
  record.restarts = 3;
  record.started_at = WallTime(std::chrono::milliseconds(1767323045250));
  const Result<MountRecord> back = ParseRecord(RenderRecord(record));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_TRUE(back->spec.RunsAs(record.spec));
  EXPECT_EQ(back->spec.name, "hdfs-1");
  EXPECT_EQ(back->spec.owner, "csi-1");
  EXPECT_EQ(back->pid, 4711);
  EXPECT_EQ(back->start_ticks, 123456789u);
  EXPECT_TRUE(back->has_mounted);
  EXPECT_FALSE(back->is_stopping);
  EXPECT_EQ(back->restarts, 3);
  EXPECT_EQ(back->started_at, record.started_at);

  const std::string whole = RenderRecord(record);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(ParseRecord(whole.substr(0, i)).status().code(), StatusCode::kDataLoss) << i;
  }
}

TEST(HolderAnswer, IsOneLine) {
  MountView view{.name = "a",
                 .owner = "o",
                 .state = MountState::kBackingOff,
                 .mount_point = "/m/a",
                 .control_socket = "/s/a/control.sock",
                 .pid = {},
                 .started_at = WallTime(std::chrono::seconds(1767323045)),
                 .restarts = 2,
                 .last_exit = ExitReport{WallTime(std::chrono::seconds(1767323046)), "signal 9"},
                 .log = {"a \"line\"\xff"}};
  const std::string text = RenderMount(view);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json json = *ParseJson(text);
  EXPECT_EQ(JsonString(json, "mount.state").value_or(""), "BackingOff");
  EXPECT_EQ(JsonString(json, "mount.lastExit.text").value_or(""), "signal 9");
  EXPECT_EQ(FindJson(json, "mount.pid"), nullptr);
  EXPECT_THAT(JsonStrings(json, "mount.log").value_or({}), ::testing::SizeIs(1));
  EXPECT_EQ(FindJson(*ParseJson(RenderMounts({view})), "mounts.0.log"), nullptr);
  EXPECT_EQ(JsonString(*ParseJson(RenderFailure(AbortedError("why"))), "code").value_or(""), "Aborted");
}

}  // namespace
}  // namespace paceline::holder
