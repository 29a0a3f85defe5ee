#include "cli/waterfall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<WaterfallRow> TwoWorkers() {
  return {{"0", "n1", {{"Queued", 0, 1}, {"Image", 1, 8}, {"ContainerStart", 8, 10}}, true},
          {"1", "n2", {{"Queued", 0, 1}, {"Image", 1, 4}, {"ContainerStart", 4, 5}}, false}};
}

std::string Line(const std::string& text, int index) {
  size_t start = 0;
  while (index-- > 0) start = text.find('\n', start) + 1;
  return text.substr(start, text.find('\n', start) - start);
}

TEST(RenderWaterfall, GivesEachStageColumnsInProportionToItsTime) {
  const std::string chart = RenderWaterfall(TwoWorkers(), {.width = 126});  // leaves 100 columns for the bars
  const std::string first = Line(chart, 1);
  EXPECT_EQ(std::count(first.begin(), first.end(), 'Q'), 10);
  EXPECT_EQ(std::count(first.begin(), first.end(), 'I'), 70);
  EXPECT_EQ(std::count(first.begin(), first.end(), 'C'), 20);
  EXPECT_THAT(first, HasSubstr("10.0 s"));
}

TEST(RenderWaterfall, ShowsThatAWorkerIsStillStarting) {
  const std::string second = Line(RenderWaterfall(TwoWorkers(), {.width = 126}), 2);
  EXPECT_THAT(second, HasSubstr("CCCCCCCCCC>"));
  EXPECT_THAT(second, HasSubstr("5.00 s so far"));
}

TEST(RenderWaterfall, StagesWithTheSameFirstLetterGetDifferentLetters) {
  const std::string chart = RenderWaterfall(
      {{"0", "n1", {{"ContainerStart", 0, 1}, {"Checkpoint", 1, 2}, {"CommunicatorReady", 2, 3}}, true}}, {});
  EXPECT_THAT(chart, HasSubstr("C ContainerStart   H Checkpoint   O CommunicatorReady"));
}

TEST(RenderWaterfall, ColoursOnlyWhenAsked) {
  EXPECT_THAT(RenderWaterfall(TwoWorkers(), {}), Not(HasSubstr("\x1b[")));
  EXPECT_THAT(RenderWaterfall(TwoWorkers(), {.use_color = true}), HasSubstr("\x1b[48;5;"));
}

TEST(RenderWaterfall, StandsOddInput) {
  EXPECT_EQ(RenderWaterfall({}, {}), "");
  EXPECT_THAT(RenderWaterfall({{"0", "", {}, false}}, {.width = 1}), HasSubstr("so far"));
  EXPECT_THAT(RenderWaterfall({{"0", "n1", {{"Queued", 0, 0}}, true}}, {}), HasSubstr("0.00 s"));
}

}  // namespace
}  // namespace paceline::cli
