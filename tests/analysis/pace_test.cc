#include "analysis/pace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "analysis/pace_json.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kBegin{500'000h};
constexpr int64_t kBeginSeconds = 500'000 * 3600;

// An operation every 100 ms: 60 ms of own work, 40 ms inside.
void Fill(PaceMeter& meter, Duration from, Duration until) {
  for (Duration at = from; at < until; at += 100ms) meter.Add(7, true, kBegin + at + 60ms, kBegin + at + 100ms);
}

TEST(PaceMeter, TellsOwnWorkFromTimeInOperations) {
  PaceMeter meter;
  Fill(meter, 0s, 41s);
  meter.Close(kBegin + 41s);
  const std::vector<PaceWindow> windows = meter.Windows({});
  // The first 20 s are warm-up, and the window at 35 s may still get operations.
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].start, kBeginSeconds + 25) << "the first operation began within the window at 0";
  EXPECT_EQ(windows[0].operations, 50u);
  EXPECT_EQ(windows[0].own, 3s);
  EXPECT_EQ(windows[0].inside, 2s);
  EXPECT_EQ(windows[0].ahead, 0u);
  EXPECT_EQ(meter.Windows(kBegin + 30s).size(), 1u);
  meter.Close(kBegin + 43s);
  EXPECT_EQ(meter.Windows({}).size(), 3u);
  ASSERT_EQ(meter.comms().size(), 1u);
  EXPECT_TRUE(meter.comms().at(7).has_collectives);
  EXPECT_FALSE(meter.comms().at(7).has_p2p);
}

TEST(PaceMeter, CountsTimeInOverlappingOperationsOnceAndTellsLaunchesAhead) {
  PaceMeter meter({.warm_up = 0s});
  meter.Add(7, true, kBegin - 1s, kBegin);
  meter.Add(7, true, kBegin + 1s, kBegin + 3s);
  meter.Add(8, true, kBegin + 2s, kBegin + 4s);   // launched ahead
  meter.Add(9, false, kBegin + 2s, kBegin + 4s);  // of one group with another: not ahead
  meter.Add(9, false, kBegin + 3s, kBegin + 3500ms);
  meter.Close(kBegin + 60s);
  const std::vector<PaceWindow> windows = meter.Windows({});
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].own, 1s);
  EXPECT_EQ(windows[0].inside, 3s);
  EXPECT_EQ(windows[0].operations, 4u);
  EXPECT_EQ(windows[0].ahead, 1u);
  EXPECT_TRUE(meter.comms().at(9).has_p2p);
}

TEST(PaceMeter, GivesOrderAndLatenessNoWeight) {
  PaceMeter straight({.warm_up = 0s}), mixed({.warm_up = 0s});
  Fill(straight, 0s, 20s);
  Fill(mixed, 9s, 20s);
  Fill(mixed, 0s, 9s);
  straight.Close(kBegin + 60s);
  mixed.Close(kBegin + 60s);
  EXPECT_EQ(straight.Windows({}), mixed.Windows({}));
  // What comes after its window was told changes nothing.
  Fill(mixed, 5s, 6s);
  mixed.Close(kBegin + 70s);
  EXPECT_EQ(straight.Windows({}), mixed.Windows({}));
}

TEST(PaceMeter, IsBoundedAndTellsNothingOfWindowsThatWereTooFull) {
  PaceMeter meter({.warm_up = 0s, .kept_windows = 3, .kept_comms = 2, .max_operations = 100});
  for (uint64_t comm = 0; comm < 10; comm++) meter.Add(comm, true, kBegin, kBegin + 1ms);
  EXPECT_EQ(meter.comms().size(), 2u);
  Fill(meter, 0s, 60s);
  meter.Close(kBegin + 60s);
  EXPECT_TRUE(meter.Windows({}).empty());
  for (int i = 6; i < 16; i++) {
    Fill(meter, i * 10s, i * 10s + 9s);
    meter.Close(kBegin + i * 10s + 20s);
  }
  EXPECT_EQ(meter.Windows({}).size(), 3u);
}

std::vector<RankPace> SomePaces() {
  return {{3,
           "",
           {{0xabcdef0123456789, true, false}, {0xffffffffffffffff, false, true}},
           {{1000, 50, 3s, 2s, 1}, {1005, 49, 1s, 4s, 0}}},
          {4, "", {}, {}}};
}

TEST(PaceJson, ReadsWhatItWrites) {
  const Result<std::vector<RankPace>> read = ParsePaces(DumpJson(WritePaces(SomePaces())));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, SomePaces());
}

TEST(PaceJson, LeavesOutWhatIsNoMeasurement) {
  const char* const rows[] = {"null",
                              "[1000,50,1,1]",
                              "[1000,50,\"NaN\",1,0]",
                              "[1000,50,null,1,0]",
                              "[1000,50,1.5,1,0]",
                              "[1000,50,1e400,1,0]",
                              "[1000,-1,1,1,0]",
                              "[1000,50,-1,1,0]",
                              "[1000,50,1,99999999999999999,0]",
                              "[1000,50,18446744073709551615,1,0]",
                              "[1001,50,1,1,0]",
                              "[1000,0,1,1,0]",
                              "[1000,50,0,0,0]"};
  for (const char* row : rows) {
    const std::string text =
        std::string(R"({"version":1,"windowSeconds":5,"ranks":[{"rank":1,"windows":[)") + row + ",[1005,50,1,1,0]]}]}";
    const Result<std::vector<RankPace>> read = ParsePaces(text);
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << row;  // no JSON at all
      continue;
    }
    ASSERT_EQ(read->size(), 1u) << row;
    ASSERT_EQ((*read)[0].windows.size(), 1u) << row;
    EXPECT_EQ((*read)[0].windows[0].start, 1005) << row;
  }
}

TEST(PaceJson, RefusesOtherDocuments) {
  const std::pair<const char*, StatusCode> cases[] = {
      {"", StatusCode::kInvalidArgument},
      {"[]", StatusCode::kInvalidArgument},
      {R"({"version":2,"windowSeconds":5,"ranks":[]})", StatusCode::kUnimplemented},
      {R"({"version":1,"windowSeconds":7,"ranks":[]})", StatusCode::kUnimplemented},
      {R"({"version":1,"windowSeconds":5,"ranks":{}})", StatusCode::kInvalidArgument},
      {R"({"version":1,"windowSeconds":5,"ranks":[{"rank":-1}]})", StatusCode::kInvalidArgument},
      {R"({"version":1,"windowSeconds":5,"ranks":[{"rank":1,"comms":[{"id":"xyz"}]}]})", StatusCode::kInvalidArgument},
      {R"({"version":1,"windowSeconds":5,"ranks":[{"rank":1,"windows":{}}]})", StatusCode::kInvalidArgument}};
  for (const auto& [text, code] : cases) {
    const auto read = ParsePaces(text);
    if (read.ok()) ADD_FAILURE() << text;
    EXPECT_TRUE(code != StatusCode::kUnimplemented || read.status().code() == code) << text;
  }
}

TEST(PaceJson, SurvivesTruncatedAndFlippedBytes) {
  const std::string good = DumpJson(WritePaces(SomePaces()));
  for (size_t size = 0; size < good.size(); size++) EXPECT_FALSE(ParsePaces(good.substr(0, size)).ok()) << size;
  std::mt19937 random(7);
  for (int i = 0; i < 5000; i++) {
    std::string text = good;
    for (int flips = 0; flips < 3; flips++) text[random() % text.size()] = static_cast<char>(random());
    const Result<std::vector<RankPace>> read = ParsePaces(text);
    if (!read.ok()) continue;
    for (const RankPace& rank : *read) {
      for (const PaceWindow& window : rank.windows) EXPECT_GT((window.own + window.inside).count(), 0);
    }
  }
}

}  // namespace
}  // namespace paceline::analysis
