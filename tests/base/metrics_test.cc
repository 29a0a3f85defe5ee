#include "lib/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, RendersThePrometheusTextFormat) {
  auto registry = MetricsRegistry::Create();
  registry->CounterFamily({"paceline_runs_total", "Runs seen.", {"result"}}).With({"ok"}).Add(2);
  registry->GaugeFamily({"paceline_depth", "Items waiting.", {}}).With({}).Set(-1.5);
  auto& latency = registry->HistogramFamily({"paceline_wait_seconds", "Wait.", {"queue"}}, {0.1, 1}).With({"pods"});
  latency.Observe(0.1);  // a bound is inclusive
  latency.Observe(0.5);
  latency.Observe(7);
  EXPECT_EQ(registry->Render(),
            "# HELP paceline_depth Items waiting.\n"
            "# TYPE paceline_depth gauge\n"
            "paceline_depth -1.5\n"
            "# HELP paceline_runs_total Runs seen.\n"
            "# TYPE paceline_runs_total counter\n"
            "paceline_runs_total{result=\"ok\"} 2\n"
            "# HELP paceline_wait_seconds Wait.\n"
            "# TYPE paceline_wait_seconds histogram\n"
            "paceline_wait_seconds_count{queue=\"pods\"} 3\n"
            "paceline_wait_seconds_sum{queue=\"pods\"} 7.6\n"
            "paceline_wait_seconds_bucket{queue=\"pods\",le=\"0.1\"} 1\n"
            "paceline_wait_seconds_bucket{queue=\"pods\",le=\"1\"} 2\n"
            "paceline_wait_seconds_bucket{queue=\"pods\",le=\"+Inf\"} 3\n");
}

TEST(Metrics, TheSameLabelsAreTheSameSeries) {
  auto registry = MetricsRegistry::Create();
  const MetricOptions options{"x_total", "X.", {"a", "b"}};
  Counter& first = registry->CounterFamily(options).With({"1", "2"});
  first.Add();
  Counter& again = registry->CounterFamily(options).With({"1", "2"});
  again.Add(0.5);
  again.Add(-3);
  EXPECT_EQ(&first, &again);
  EXPECT_EQ(first.Value(), 1.5);
  EXPECT_EQ(registry->CounterFamily(options).With({"2", "1"}).Value(), 0);
}

TEST(Metrics, AFullFamilyCollectsTheRestInOther) {
  auto registry = MetricsRegistry::Create();
  auto& family = registry->GaugeFamily({"g", "G.", {"pod", "node"}, 2});
  family.With({"a", "n"}).Set(1);
  family.With({"b", "n"}).Set(2);
  Gauge& over = family.With({"c", "n"});
  EXPECT_EQ(&over, &family.With({"d", "m"}));
  over.Set(9);
  EXPECT_NE(&over, &family.With({"a", "n"}));  // old series keep their own
  const std::string page = registry->Render();
  EXPECT_THAT(page, HasSubstr("g{node=\"other\",pod=\"other\"} 9\n"));
  EXPECT_THAT(page, HasSubstr("g{node=\"n\",pod=\"b\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("paceline_metrics_dropped_series_total{metric=\"g\"} 2\n"));
  EXPECT_THAT(page, Not(HasSubstr("pod=\"c\"")));
}

TEST(Metrics, RemoveForgetsASeriesAndMakesRoom) {
  auto registry = MetricsRegistry::Create();
  auto& family = registry->CounterFamily({"c_total", "C.", {"job"}, 2});
  family.With({"a"}).Add(5);
  family.With({"b"}).Add(6);
  family.Remove({"a"});
  family.Remove({"never there"});
  EXPECT_THAT(registry->Render(), Not(HasSubstr("job=\"a\"")));
  EXPECT_EQ(family.With({"a"}).Value(), 0);  // starts anew
  family.With({"c"}).Add(1);
  family.Remove({"c"});  // was never a series of its own
  EXPECT_THAT(registry->Render(), HasSubstr("c_total{job=\"other\"} 1\n"));
}

TEST(Metrics, ALabelSpelledLikeTheOverflowSeriesDoesNoHarm) {
  auto registry = MetricsRegistry::Create();
  auto& family = registry->CounterFamily({"c_total", "C.", {"job"}, 1});
  family.With({"other"}).Add(1);
  Counter& over = family.With({"x"});
  over.Add(2);
  family.Remove({"other"});
  over.Add(3);
  EXPECT_THAT(registry->Render(), HasSubstr("c_total{job=\"other\"} 6\n"));
}

TEST(Metrics, LabelValuesAreEscapedAndAlwaysUtf8) {
  auto registry = MetricsRegistry::Create();
  auto& family = registry->GaugeFamily({"g", "First\nsecond.", {"v"}});
  family.With({"a\"b\\c\nd"}).Set(1);
  family.With({"\xff"}).Set(2);
  const std::string page = registry->Render();
  EXPECT_THAT(page, HasSubstr("g{v=\"a\\\"b\\\\c\\nd\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("g{v=\"\xef\xbf\xbd\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("# HELP g First second.\n"));
  // Two spellings that look the same once cleaned share a series, and removing one leaves the other alive.
  family.With({"\xfe"}).Set(3);
  family.Remove({"\xff"});
  family.With({"\xfe"}).Set(4);
  EXPECT_THAT(registry->Render(), HasSubstr("g{v=\"\xef\xbf\xbd\"} 4\n"));
}

TEST(Metrics, RefreshersRunBeforeEachRender) {
  auto registry = MetricsRegistry::Create();
  Gauge& gauge = registry->GaugeFamily({"g", "G.", {}}).With({});
  registry->AddRefresher([&gauge] { gauge.Add(1); });
  EXPECT_THAT(registry->Render(), HasSubstr("\ng 1\n"));
  EXPECT_THAT(registry->Render(), HasSubstr("\ng 2\n"));
}

TEST(Metrics, ProcessMetricsAreReal) {
  auto registry = MetricsRegistry::Create();
  registry->AddProcessMetrics("1.2.3", "abc");
  volatile double sink = 0;
  for (int i = 0; i < 40'000'000; ++i) sink = sink + i;  // some CPU time, more than the kernel's 10 ms tick
  registry->Render();
  const std::string page = registry->Render();
  EXPECT_THAT(page, HasSubstr("paceline_build_info{revision=\"abc\",version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE process_cpu_seconds_total counter\n"));
  for (const char* name :
       {"process_cpu_seconds_total ", "process_resident_memory_bytes ", "process_open_fds ", "process_max_fds ",
        "process_start_time_seconds ", "process_virtual_memory_bytes ", "process_threads "}) {
    const size_t at = page.find(std::string("\n") + name);
    ASSERT_NE(at, std::string::npos) << name << "\n" << page;
    EXPECT_GT(std::stod(page.substr(at + 1 + std::string(name).size())), 0) << name;
  }
}

TEST(Metrics, DescribesItsFamilies) {
  auto registry = MetricsRegistry::Create();
  registry->HistogramFamily({"h_seconds", "H.", {"a"}}, {1});
  const auto all = registry->Describe();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "h_seconds");
  EXPECT_EQ(all[0].type, "histogram");
  EXPECT_EQ(all[0].label_names, std::vector<std::string>{"a"});
  EXPECT_EQ(all[1].name, "paceline_metrics_dropped_series_total");
}

TEST(Metrics, CountsEveryAddOfManyThreadsWhileRendering) {
  auto registry = MetricsRegistry::Create();
  auto& family = registry->CounterFamily({"c_total", "C.", {"t"}});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&family, t] {
        for (int i = 0; i < 1000; ++i) family.With({std::to_string((t + i) % 5)}).Add();
      });
    }
    for (int i = 0; i < 20; ++i) registry->Render();
  }
  double sum = 0;
  for (int t = 0; t < 5; ++t) sum += family.With({std::to_string(t)}).Value();
  EXPECT_EQ(sum, 4000);
}

TEST(ExponentialBuckets, GrowByTheFactor) {
  EXPECT_EQ(ExponentialBuckets(0.5, 2, 4), (std::vector<double>{0.5, 1, 2, 4}));
}

TEST(MetricsDeathTest, AWrongMetricEndsTheProcessAtStart) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto registry = MetricsRegistry::Create();
  registry->CounterFamily({"c_total", "C.", {"a"}});
  EXPECT_DEATH(registry->CounterFamily({"bad-name", "X.", {}}), "bad-name.*not a valid");
  EXPECT_DEATH(registry->GaugeFamily({"c_total", "C.", {"a"}}), "already a counter");
  EXPECT_DEATH(registry->CounterFamily({"c_total", "C.", {"b"}}), "other labels");
  EXPECT_DEATH(registry->GaugeFamily({"g", "G.", {"le"}}), "cannot be a label name");
  EXPECT_DEATH(registry->GaugeFamily({"g", "G.", {"a", "a"}}), "label name twice");
  EXPECT_DEATH(registry->HistogramFamily({"h", "H.", {}}, {2, 1}), "must rise");
  EXPECT_DEATH(registry->CounterFamily({"c_total", "C.", {"a"}}).With({}), "CHECK failed");
}

}  // namespace
}  // namespace paceline
