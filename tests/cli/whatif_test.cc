#include "cli/whatif_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/whatif_scenarios.h"

namespace paceline::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

TEST(ParseSteps, ReadsNumbersAndRanges) {
  const auto steps = ParseSteps("12,20-23,7");
  ASSERT_TRUE(steps.ok());
  EXPECT_THAT(*steps, ElementsAre(12, 20, 21, 22, 23, 7));
}

TEST(ParseSteps, RefusesTheRest) {
  for (const char* text : {"", "a", "1,", ",1", "1-", "-1", "3-2", "1 2", "1;2", "99999999999999999999"}) {
    EXPECT_EQ(ParseSteps(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ParseSteps("0-9999999999").status().message(), HasSubstr("more than 100000 steps"));
}

TEST(ParseScenarios, ReadsWhatIsAsked) {
  const auto request = ParseScenarios({.ideal_workers = "0:3,1:2",
                                       .without_ranks = "8-10",
                                       .move_layers = "3:0:1",
                                       .layers = "8,8,8,8",
                                       .planned_gc = 500});
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_THAT(request->ideal_workers, ElementsAre(Pair(0, 3), Pair(1, 2)));
  EXPECT_THAT(request->removed_ranks, ElementsAre(8, 9, 10));
  ASSERT_EQ(request->moves.size(), 1u);
  EXPECT_EQ(request->moves[0].from, 3);
  EXPECT_EQ(request->moves[0].to, 0);
  EXPECT_EQ(request->moves[0].count, 1);
  EXPECT_THAT(request->layers, ElementsAre(8, 8, 8, 8));
  EXPECT_EQ(request->collected_every, 500);
  EXPECT_FALSE(ParseScenarios({})->collected_every);
}

TEST(ParseScenarios, RefusesTheRestByFlag) {
  struct Case {
    ScenarioFlags flags;
    const char* message;
  };
  const Case cases[] = {
      {{.ideal_workers = "0"}, "--ideal-workers"},
      {{.ideal_workers = "0:1:2"}, "--ideal-workers"},
      {{.ideal_workers = "0:1,"}, "--ideal-workers"},
      {{.ideal_workers = "-1:0"}, "--ideal-workers"},
      {{.ideal_workers = "0;1"}, "--ideal-workers"},
      {{.without_ranks = "x"}, "--without-ranks"},
      {{.without_ranks = "9999999999"}, "--without-ranks"},
      {{.move_layers = "3:0:1"}, "go together"},
      {{.layers = "8,8"}, "go together"},
      {{.move_layers = "3:0", .layers = "8"}, "--move-layers"},
      {{.move_layers = "3:0:1", .layers = "8:8"}, "--layers"},
  };
  for (const Case& c : cases) {
    const auto request = ParseScenarios(c.flags);
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(request.status().message(), HasSubstr(c.message));
  }
}

TEST(RenderScenarios, IsATableAndWhatWasSupposed) {
  EXPECT_EQ(RenderScenarios({}), "");
  const std::string text = RenderScenarios({{"ideal-workers", "dp 0 stage 3 as fast as the others", {2}, 2, 1.5, 1.1}});
  EXPECT_THAT(text, HasSubstr("ideal-workers  2.00 s  1.5000   1.1000"));
  EXPECT_THAT(text, HasSubstr("ideal-workers: dp 0 stage 3 as fast as the others\n"));
}

analysis::WhatIfResult SomeResult() {
  analysis::WhatIfResult result;
  result.shape.trial_name = "night-run";
  result.shape.dp_size = 2;
  result.shape.pp_size = 2;
  result.steps = {5};
  result.measured = {1.3};
  result.simulated = {1.25};
  result.ideal = 1;
  result.slowdown = 1.25;
  result.launch_slowdown = 1.04;
  return result;
}

TEST(RenderWhatIf, SaysWhatIsLostAndWhere) {
  analysis::WhatIfResult result = SomeResult();
  result.by_dp_rank = analysis::Decomposition{{"0", "1"}, {1.0, 1.25}, {{1.0, 1.25}}};
  result.by_stage = analysis::Decomposition{{"0", "1"}, {1.2, 1.1}, {{1.2, 1.1}}};
  result.by_type = analysis::Decomposition{{"gc"}, {1.0}, {{1.0}}};
  result.left_out_steps = {9, 11};
  const std::string text = RenderWhatIf(result, {{"last-stage", 0.6, 0.5, "move layers"}});
  EXPECT_THAT(text, HasSubstr("night-run: 1 steps, 2 data-parallel ranks x 2 stages"));
  EXPECT_THAT(text, HasSubstr("1.2500   20.0 % of the time is lost"));
  EXPECT_THAT(text, HasSubstr("DP RANK  SLOWDOWN\n1        1.2500\n0        1.0000\n"));
  EXPECT_THAT(text, HasSubstr("2 steps with missing operations, the first of them 9"));
  EXPECT_THAT(text, HasSubstr("hint (last-stage): move layers"));
  EXPECT_THAT(text, Not(HasSubstr("with care")));
}

TEST(RenderWhatIf, WarnsWhenTheModelIsFarFromWhatWasMeasured) {
  analysis::WhatIfResult result = SomeResult();
  result.launch_slowdown = 1.2;
  EXPECT_THAT(RenderWhatIf(result, {}), HasSubstr("20.0 % from what was measured: too far"));
}

TEST(RenderWhatIf, SaysThatThereIsTooLittleToExplain) {
  EXPECT_THAT(RenderWhatIf(SomeResult(), {}), HasSubstr("Too little slowdown to explain"));
}

}  // namespace
}  // namespace paceline::cli
