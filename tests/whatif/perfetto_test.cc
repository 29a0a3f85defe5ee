// What Perfetto is given: every operation once, in the right process, on a track where nothing overlaps.
#include "analysis/whatif/perfetto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/whatif/synthetic_trace.h"

namespace paceline::analysis {
namespace {

struct Written {
  nlohmann::json json;
  std::map<int, std::string> processes;                                             // pid to name
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> intervals;  // (pid, tid) to start and end, us
};

Written Write(const StepTrace& trace) {
  auto model = BuildWhatIfModel(trace);
  EXPECT_TRUE(model.ok()) << model.status().message();
  auto result = AnalyzeModel(trace, *model, {});
  EXPECT_TRUE(result.ok()) << result.status().message();
  std::ostringstream out;
  EXPECT_TRUE(WritePerfetto(trace, *model, *result, out).ok());
  Written written;
  written.json = nlohmann::json::parse(out.str(), nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(written.json.is_discarded());
  for (const auto& event : written.json["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "process_name") written.processes[event["pid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    const double start = event["ts"];
    written.intervals[{event["pid"], event["tid"]}].emplace_back(start, start + event["dur"].get<double>());
  }
  return written;
}

SyntheticJob SmallJob() {
  SyntheticJob job;
  job.dp = 2;
  job.pp = 3;
  job.steps = 2;
  job.micro_batches = 3;
  return job;
}

TEST(Perfetto, HasEveryOperationOnce) {
  const PlayedJob played = Play(SmallJob());
  const Written written = Write(played.trace);
  std::map<std::string, size_t> events;  // by the group of their process
  for (const auto& [track, list] : written.intervals) {
    ASSERT_TRUE(written.processes.count(track.first)) << track.first;
    events[written.processes.at(track.first).substr(0, 5)] += list.size();
  }
  EXPECT_EQ(events["steps"], 2u);
  EXPECT_EQ(events["measu"], played.trace.rows());
  EXPECT_EQ(events["ideal"], played.trace.rows() / 2);  // one lane stands for both ranks
  EXPECT_EQ(written.processes.size(), 1u + 3 + 6);
}

TEST(Perfetto, NothingOverlapsOnATrack) {
  Written written = Write(Play(SmallJob()).trace);
  for (auto& [track, list] : written.intervals) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); i++) {
      EXPECT_GE(list[i].first, list[i - 1].second - 1.5) << written.processes[track.first] << " track " << track.second;
    }
  }
}

TEST(Perfetto, TimesAreMicrosecondsAndStepsFollowEachOther) {
  const PlayedJob played = Play(SmallJob());
  Written written = Write(played.trace);
  const auto& steps = written.intervals.at({1, 1});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_NEAR(steps[0].second - steps[0].first, played.step_seconds[0] * 1e6, 10);
  EXPECT_GT(steps[1].first, steps[0].second);
  for (const auto& [track, list] : written.intervals) {
    for (const auto& [start, end] : list) {
      const bool is_in_a_step = std::any_of(steps.begin(), steps.end(), [&, from = start, to = end](const auto& step) {
        return from >= step.first - 10 && to <= step.second + 10;
      });
      EXPECT_TRUE(is_in_a_step) << start << " to " << end;
    }
  }
}

TEST(Perfetto, NameOfTheJobIsEscaped) {
  StepTrace trace = Play(SmallJob()).trace;
  trace.shape.trial_name = "a\"b\\c\n\xFF";
  EXPECT_EQ(Write(trace).json["otherData"]["job"], "a\"b\\c\n\uFFFD");
}

TEST(Perfetto, FullDiskIsAnError) {
  const StepTrace trace = Play(SmallJob()).trace;
  auto model = BuildWhatIfModel(trace);
  auto result = AnalyzeModel(trace, *model, {});
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(WritePerfetto(trace, *model, *result, out).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace paceline::analysis
