#include "analysis/tables_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "analysis/root_cause.h"
#include "tests/analysis/ring_model.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

Tables Example() {
  Tables tables = RingModel(3, 2, collectives::Function::kAllReduce, {Fault::kLinkFrozen, 1, 4}).Snapshot();
  tables.missing = {"node-9: refused"};
  tables.device_faults = {{"node-1", "GPU 3", "Xid 79", 1, "in the last ten minutes"}};
  ProcessView& process = tables.processes[0];
  process.state = ProcessState::kStopped;
  process.ended_for = 3s;
  process.proxy_thread = ProxyThreadView{0.25, 0.5, 0.125};
  process.comms[0].id = 0xfedcba9876543210;
  process.calls[0].count = UINT64_MAX;
  process.has_steps = false;
  process.drops = 12;
  return tables;
}

TEST(TablesJson, KeepsEverything) {
  const Json json = WriteTables(Example());
  const Result<Tables> read = ParseTables(DumpJson(json));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(DumpJson(WriteTables(*read)), DumpJson(json));
  const ProcessView& process = read->processes[0];
  EXPECT_EQ(process.comms[0].id, 0xfedcba9876543210);
  EXPECT_EQ(process.calls[0].count, UINT64_MAX);
  EXPECT_EQ(process.state, ProcessState::kStopped);
  EXPECT_EQ(process.ended_for, 3s);
  EXPECT_EQ(process.proxy_thread->throttled, 0.125);
  EXPECT_EQ(read->processes[1].proxies[0].still, 5s);
  EXPECT_EQ(read->device_faults, Example().device_faults);
  EXPECT_EQ(WriteVerdict(Diagnose(*read)), WriteVerdict(Diagnose(Example())));
}

TEST(TablesJson, RefusesWhatItDoesNotUnderstand) {
  EXPECT_EQ(ParseTables("{\"version\": 2}").status().code(), StatusCode::kUnimplemented);
  for (const char* text :
       {"", "[]", "3", "{\"version\":\"1\"}", "{\"version\":1,\"processes\":{}}", "{\"version\":1,\"processes\":[3]}",
        "{\"version\":1,\"processes\":[{\"rank\":\"x\"}]}", "{\"version\":1,\"processes\":[{\"rank\":99999999999}]}",
        "{\"version\":1,\"processes\":[{\"comms\":[{\"id\":\"xyz\"}]}]}",
        "{\"version\":1,\"processes\":[{\"calls\":[{\"index\":-1}]}]}", "{\"version\":1,\"missing\":[1]}"}) {
    EXPECT_EQ(ParseTables(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  const Result<Tables> later = ParseTables(
      "{\"version\":1,\"new\":1,\"processes\":[{\"state\":\"Sleeping\",\"calls\":[{\"comm\":7}],"
      "\"proxies\":[{\"call\":4,\"comm\":-3}]}]}");
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->processes[0].state, ProcessState::kUnknown);
  EXPECT_EQ(later->processes[0].calls[0].comm, -1);
  EXPECT_EQ(later->processes[0].proxies[0].call, -1);
}

TEST(TablesJson, SurvivesDamage) {
  const std::string text = DumpJson(WriteTables(Example()));
  std::mt19937 random(3);
  for (size_t length = 0; length < text.size(); length += 397) {
    EXPECT_FALSE(ParseTables(text.substr(0, length)).ok());
  }
  for (int round = 0; round < 300; round++) {
    std::string damaged = text;
    for (int i = 0; i < 3; i++) damaged[random() % damaged.size()] = static_cast<char>(random());
    const Result<Tables> tables = ParseTables(damaged);
    if (tables.ok()) EXPECT_LE(Diagnose(*tables).confidence, 1);
  }
}

}  // namespace
}  // namespace paceline::analysis
