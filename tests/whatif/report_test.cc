// The report as a document: what it says, that it loads nothing, that nothing from a trace gets out of its place, and
// that it stays small.
#include "analysis/whatif/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "analysis/whatif/html.h"
#include "analysis/whatif/report_timeline.h"
#include "tests/whatif/synthetic_trace.h"

namespace paceline::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

SyntheticJob SlowJob(int dp, int pp) {
  SyntheticJob job;
  job.dp = dp;
  job.pp = pp;
  job.micro_batches = 2;
  job.scale = [dp](OpType, int dp_rank, int stage, int, int) { return dp_rank == dp - 1 && stage == 0 ? 2 : 1; };
  return job;
}

std::string Report(const StepTrace& trace, const std::vector<Scenario>& scenarios = {}) {
  auto model = BuildWhatIfModel(trace);
  EXPECT_TRUE(model.ok()) << model.status().message();
  auto result = AnalyzeModel(trace, *model, {.threads = 2});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return RenderReport({trace, *model, *result, FindCauses(*model, *result), scenarios});
}

// Every tag closed in its order; void elements and self-closed ones stand alone. "" when it is so.
std::string WhatIsUnbalanced(const std::string& html) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)((?:[^>\"]|\"[^\"]*\")*?)(/?)>");
  for (std::sregex_iterator at(html.begin(), html.end(), tag), end; at != end; ++at) {
    const std::string name = (*at)[2];
    if (name == "meta" || name == "link" || (*at)[4] == "/") continue;
    if ((*at)[1] != "/") {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " stays open";
}

TEST(EscapeHtml, LeavesNothingThatABrowserReadsAsMarkup) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain", "plain"},
      {"a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"},
      {"Zürich 東京 🚀", "Zürich 東京 🚀"},
      {std::string("nul\0here", 8), "nul\uFFFDhere"},
      {"\x1b[31m", "\uFFFD[31m"},
      {"cut \xE6\x9D", "cut \uFFFD\uFFFD"},
      {"overlong \xC0\xBC", "overlong \uFFFD\uFFFD"},
      {"surrogate \xED\xA0\x80", "surrogate \uFFFD\uFFFD\uFFFD"},
      {"beyond \xF4\x90\x80\x80", "beyond \uFFFD\uFFFD\uFFFD\uFFFD"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(EscapeHtml(text), expected);
}

TEST(FoldedTable, EscapesCellsAndSaysWhatIsLeftOut) {
  const HtmlTable table{"a<b", {"x&y"}, {{"<1>"}, {"2"}, {"3"}}};
  const std::string html = FoldedTable("all \"of\" it", table, 2);
  EXPECT_THAT(html, HasSubstr("<summary>all &quot;of&quot; it</summary>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\">x&amp;y</th>"));
  EXPECT_THAT(html, HasSubstr("&lt;1&gt;"));
  EXPECT_THAT(html, HasSubstr("1 more rows are not shown"));
  EXPECT_EQ(WhatIsUnbalanced(html), "");
}

TEST(Report, SaysWhatIsLostAndWhy) {
  const std::string html = Report(Play(SlowJob(4, 2)).trace);
  EXPECT_THAT(html, HasSubstr("of its time was lost"));
  EXPECT_THAT(html, HasSubstr("A few slow workers"));
  EXPECT_THAT(html, HasSubstr("<title>dp 3 stage 0: "));
  EXPECT_THAT(html, HasSubstr("backward-compute"));
  EXPECT_THAT(html, HasSubstr("Slowest step, 1"));
  EXPECT_EQ(WhatIsUnbalanced(html), "");
}

TEST(Report, LoadsNothingAndRunsNothing) {
  const std::string html = Report(Play(SlowJob(2, 2)).trace);
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* loader : {"<script", "src=", "@import", "url(", "http:", "https:", "onload", "onclick", "<iframe"}) {
    EXPECT_THAT(html, Not(HasSubstr(loader)));
  }
  EXPECT_EQ(html.find("href=", html.find("href=") + 1), std::string::npos);  // the empty icon alone
}

TEST(Report, NameOfTheJobStaysText) {
  StepTrace trace = Play(SlowJob(2, 2)).trace;
  trace.shape.trial_name = "</title><script>alert('x')</script>\" onload=\"y";
  const std::string html = Report(trace);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("\" onload=")));
  EXPECT_THAT(html, HasSubstr("&lt;/title&gt;&lt;script&gt;alert(&#39;x&#39;)"));
  EXPECT_EQ(WhatIsUnbalanced(html), "");
}

TEST(Report, GivesTheAnswersToWhatWasAsked) {
  const std::string html = Report(Play(SlowJob(2, 2)).trace, {{"planned-gc", "supposed <b>", {2.5}, 2.5, 1.25, 1.5}});
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">supposed &lt;b&gt;</th><td>2.5 s</td><td>1.250</td><td>1.500</td>"));
  EXPECT_EQ(WhatIsUnbalanced(html), "");
}

TEST(Report, JobWithoutStragglersHasNoCauses) {
  SyntheticJob job;
  job.dp = 1;
  job.pp = 1;
  job.steps = 1;
  const std::string html = Report(Play(job).trace);
  EXPECT_THAT(html, HasSubstr("next to nothing"));
  EXPECT_THAT(html, Not(HasSubstr("Likely causes")));
  EXPECT_EQ(WhatIsUnbalanced(html), "");
}

TEST(Report, LargeJobGivesASmallPage) {
  SyntheticJob job = SlowJob(300, 8);
  job.micro_batches = 1;
  job.steps = 1;
  const std::string html = Report(Play(job).trace);
  EXPECT_LT(html.size(), 1'500'000u);
  EXPECT_THAT(html, HasSubstr("Each cell stands for 2 ranks by 1 stages"));
  EXPECT_THAT(html, HasSubstr("Drawn: 4 of 300 data-parallel ranks"));
  EXPECT_THAT(html, HasSubstr("<title>dp 299 stage 0: "));
  EXPECT_EQ(WhatIsUnbalanced(html), "");
}

TEST(ChooseWorkers, TakesTheSlowestTheFastestAndTheEnds) {
  WhatIfResult result;
  result.shape.dp_size = 100;
  result.shape.pp_size = 20;
  result.by_dp_rank.emplace();
  result.by_stage.emplace();
  for (int rank = 0; rank < 100; rank++) result.by_dp_rank->ratio.push_back(rank == 42 ? 2 : rank == 7 ? 0.5 : 1);
  for (int stage = 0; stage < 20; stage++) result.by_stage->ratio.push_back(stage == 13 ? 2 : stage == 4 ? 0.9 : 1);
  const TimelineChoice choice = ChooseWorkers(result);
  EXPECT_THAT(choice.stages, testing::IsSupersetOf({0, 4, 13, 19}));
  EXPECT_EQ(choice.stages.size(), 8u);
  EXPECT_THAT(choice.dp_ranks, testing::IsSupersetOf({7, 42}));
  EXPECT_EQ(choice.dp_ranks.size(), 4u);

  result.shape.dp_size = 3;
  result.shape.pp_size = 1;
  result.by_dp_rank->ratio = {1, 2, 1};
  result.by_stage->ratio = {1};
  EXPECT_THAT(ChooseWorkers(result).dp_ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(ChooseWorkers(result).stages, ElementsAre(0));
}

}  // namespace
}  // namespace paceline::analysis
