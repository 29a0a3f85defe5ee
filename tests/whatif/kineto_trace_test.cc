// Traces of PyTorch's profiler, made by hand after what it writes: schemaVersion 1, times in microseconds on top of
// baseTimeNanoseconds, user_annotation for ranges of the host, gpu_user_annotation for the same on the device.
#include "analysis/whatif/kineto_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/whatif/analysis.h"

namespace paceline::analysis {
namespace {

using testing::HasSubstr;

constexpr int64_t kBaseNs = 1'760'000'000'000'000'000;

std::string Range(const std::string& category, const std::string& name, double ts, double dur) {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":7,"tid":7,"ts":{:.3f},"dur":{:.3f},)"
                     R"("args":{{"External id":3,"ph":"B","name":"in args","ts":1}}}})",
                     category, name, ts, dur);
}

std::string File(int rank, const std::vector<std::string>& events) {
  return fmt::format(R"({{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"NVIDIA H100"}}],)"
                     R"("distributedInfo":{{"backend":"nccl","rank":{},"world_size":2,"pg_config":[{{"rank":9}}]}},)"
                     R"("baseTimeNanoseconds":{},"displayTimeUnit":"ms","traceEvents":[{}],"traceName":"t.json"}})",
                     rank, kBaseNs, fmt::join(events, ",\n"));
}

// Two steps of 10 ms; on the device forward `forward_us`, backward 2 ms, then the gradients until 8 ms.
std::string UsualFile(int rank, double forward_us, const std::string& category = "gpu_user_annotation") {
  std::vector<std::string> events = {
      R"({"ph":"M","name":"process_name","pid":7,"tid":0,"ts":0,"args":{"name":"python"}})",
      R"({"ph":"X","cat":"kernel","name":"forward-compute","pid":0,"tid":7,"ts":1,"dur":1,"args":{}})",
      R"({"ph":"i","cat":"user_annotation","name":"optimizer","ts":5})",
  };
  for (int step = 0; step < 2; step++) {
    const double at = 1000 + step * 10000;
    events.push_back(Range(category, fmt::format("ProfilerStep#{}", 30 + step), at, 10000));
    events.push_back(Range("user_annotation", "optimizer", at, 1));  // of the host: not taken beside the device's
    events.push_back(Range(category, "forward-compute", at + 100, forward_us));
    events.push_back(Range(category, "backward-compute", at + 100 + forward_us, 2000));
    events.push_back(Range(category, "grads-reduce-scatter", at + 2100 + forward_us, 8000 - 2100 - forward_us));
    events.push_back(Range(category, "optimizer-clip-main-grad", at + 8000, 100));
    events.push_back(Range(category, "optimizer", at + 8100, 500));
  }
  return File(rank, events);
}

JobShape TwoRanks() {
  JobShape shape;
  shape.dp_size = 2;
  shape.world_size = 2;
  return shape;
}

TEST(ParseKinetoTrace, TakesNamedRangesOfTheDeviceWithinSteps) {
  const auto rank = ParseKinetoTrace(UsualFile(1, 1000));
  ASSERT_TRUE(rank.ok()) << rank.status().message();
  EXPECT_EQ(rank->rank, 1);
  ASSERT_EQ(rank->ops.size(), 10u);
  EXPECT_EQ(rank->ops[0].type, OpType::kForwardCompute);
  EXPECT_EQ(rank->ops[0].step, 30);
  EXPECT_EQ(rank->ops[0].start_ns, kBaseNs + 1'100'000);
  EXPECT_EQ(rank->ops[0].duration_ns, 1'000'000);
  EXPECT_EQ(rank->ops[9].type, OpType::kOptimizer);
  EXPECT_EQ(rank->ops[9].step, 31);
}

TEST(ParseKinetoTrace, LeavesOutWhatIsOutsideTheSteps) {
  const auto rank = ParseKinetoTrace(
      File(0, {Range("user_annotation", "ProfilerStep#4", 100, 50), Range("user_annotation", "optimizer", 90, 5),
               Range("user_annotation", "optimizer", 120, 5), Range("user_annotation", "optimizer", 150, 5)}));
  ASSERT_TRUE(rank.ok()) << rank.status().message();
  ASSERT_EQ(rank->ops.size(), 1u);
  EXPECT_EQ(rank->ops[0].start_ns, kBaseNs + 120'000);
}

TEST(ParseKinetoTrace, SaysWhatIsMissing) {
  const std::string step = Range("user_annotation", "ProfilerStep#4", 0, 50);
  const std::string op = Range("user_annotation", "optimizer", 1, 5);
  const std::pair<std::string, const char*> cases[] = {
      {"", "no JSON"},
      {"{\"traceEvents\": [", "no JSON"},
      {"[]", "no traceEvents"},
      {"{\"traceEvents\": 3}", "no traceEvents"},
      {"{\"traceEvents\": []}", "distributedInfo.rank"},
      {"\x1f\x8b\x08", "gunzip"},
      {File(-1, {step, op}), "distributedInfo.rank"},
      {File(0, {step}), "no operation is named"},
      {File(0, {op}), "no steps"},
      {File(0, {op, Range("user_annotation", "ProfilerStep#x", 0, 50)}), "no steps"},
  };
  for (const auto& [json, message] : cases) {
    const auto rank = ParseKinetoTrace(json);
    EXPECT_EQ(rank.status().code(), StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(rank.status().message(), HasSubstr(message)) << json;
  }
}

TEST(MergeKinetoRanks, GivesATraceThatCanBeAnalyzed) {
  const auto slow = ParseKinetoTrace(UsualFile(1, 3000)), fast = ParseKinetoTrace(UsualFile(0, 1000));
  ASSERT_TRUE(slow.ok() && fast.ok());
  const auto trace = MergeKinetoRanks({*slow, *fast}, TwoRanks());
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->rows(), 20u);
  const auto result = AnalyzeWhatIf(*trace, {});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, (std::vector<int64_t>{30, 31}));
  // Measured, from the first forward: 8.5 ms. Simulated: forward 3 and backward 2 ms on the slow rank, then the
  // transfer of 2.9 ms from the last start on, 0.1 and 0.5 ms. Ideal: the same with a forward of 2 ms.
  EXPECT_NEAR(result->measured[0], 0.0085, 1e-6);
  EXPECT_NEAR(result->simulated[0], 0.0085, 1e-6);
  EXPECT_NEAR(result->ideal, 0.0075, 1e-6);
  ASSERT_TRUE(result->by_dp_rank);
  EXPECT_GT(result->by_dp_rank->ratio[1], result->by_dp_rank->ratio[0]);
}

TEST(MergeKinetoRanks, RanksFindTheirPlaceInMegatronsOrder) {
  JobShape shape;
  shape.dp_size = 2;
  shape.pp_size = 2;
  shape.tp_size = 2;
  shape.world_size = 8;
  std::vector<KinetoRank> ranks;
  for (const int rank : {6, 4, 2, 0, 3}) {
    ranks.push_back({rank, {{OpType::kGradsReduceScatter, 5, 100, 10}}, {{5, 100}}});
  }
  const auto trace = MergeKinetoRanks(ranks, shape);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_THAT(trace->rank, testing::ElementsAre(0, 4, 2, 6));
  EXPECT_THAT(trace->dp_rank, testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(trace->stage, testing::ElementsAre(0, 1, 0, 1));
}

TEST(MergeKinetoRanks, RefusesWhatDoesNotMakeAJob) {
  const KinetoRank zero = {0, {{OpType::kGradsReduceScatter, 5, 100, 10}}, {{5, 100}}};
  KinetoRank one = zero, silent_zero = zero, silent_one = zero, beyond = zero;
  one.rank = silent_one.rank = 1;
  beyond.rank = 2;
  silent_zero.ops[0].type = silent_one.ops[0].type = OpType::kForwardCompute;
  JobShape chunks = TwoRanks();
  chunks.vpp_size = 2;
  struct Case {
    std::vector<KinetoRank> ranks;
    JobShape shape;
    const char* message;
  };
  const Case cases[] = {
      {{zero}, TwoRanks(), "no file of rank 1"},
      {{zero, one, one}, TwoRanks(), "rank 1 is there twice"},
      {{zero, beyond}, TwoRanks(), "rank 2 with a world_size of 2"},
      {{zero, one}, chunks, "vpp_size must be 1"},
      {{silent_zero, silent_one}, TwoRanks(), "waits for all data-parallel ranks"},
  };
  for (const Case& c : cases) {
    const auto trace = MergeKinetoRanks(c.ranks, c.shape);
    EXPECT_EQ(trace.status().code(), StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(trace.status().message(), HasSubstr(c.message));
  }
}

// Cut off anywhere, or with bytes flipped: an error or a trace, never a fault.
TEST(ParseKinetoTrace, SurvivesDamage) {
  const std::string whole = UsualFile(0, 1000);
  const auto use = [](const std::string& json) {
    const auto rank = ParseKinetoTrace(json);
    if (!rank.ok()) return;
    JobShape one;
    const auto trace = MergeKinetoRanks({*rank}, one);
    if (trace.ok()) static_cast<void>(AnalyzeWhatIf(*trace, {}));
  };
  for (size_t length = 0; length < whole.size(); length += 7) use(whole.substr(0, length));
  std::minstd_rand random(7);
  for (int round = 0; round < 500; round++) {
    std::string damaged = whole;
    for (int flip = 0; flip < 4; flip++) damaged[random() % damaged.size()] = static_cast<char>(random());
    use(damaged);
  }
}

}  // namespace
}  // namespace paceline::analysis
