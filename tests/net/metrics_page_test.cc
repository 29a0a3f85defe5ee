#include "lib/net/metrics_page.h"

#include <gtest/gtest.h>

#include "lib/base/metrics.h"

namespace paceline::net {
namespace {

TEST(OpenMetrics, NamesCountersWithoutTotalAndMarksTheEnd) {
  EXPECT_EQ(AsOpenMetrics("# HELP a_total Says \"a\" \\\\ b\n# TYPE a_total counter\na_total{x=\"1 # 2\"} 3\n"
                          "# HELP g \n# TYPE g gauge\ng 1.5\n"
                          "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 2\nh_count 1\n"
                          "# TYPE odd counter\nodd 1\n# TYPE u untyped\nu 1\n\n# a remark\n"),
            "# HELP a Says \\\"a\\\" \\\\ b\n# TYPE a counter\na_total{x=\"1 # 2\"} 3\n"
            "# HELP g \n# TYPE g gauge\ng 1.5\n"
            "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 2\nh_count 1\n"
            "# TYPE odd unknown\nodd 1\n# TYPE u unknown\nu 1\n# EOF\n");
  EXPECT_EQ(AsOpenMetrics(""), "# EOF\n");
}

TEST(OpenMetrics, IsGivenToWhoAcceptsIt) {
  const auto registry = MetricsRegistry::Create();
  registry->CounterFamily({"runs_total", "Runs.", {"phase"}}).With({"Running"}).Add(2);
  ServerRequest request;
  EXPECT_EQ(MetricsPage(request, registry->Render()).content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(MetricsPage(request, registry->Render()).body, registry->Render());
  request.headers["accept"] = "text/html";
  EXPECT_EQ(MetricsPage(request, registry->Render()).body, registry->Render());
  // As Prometheus asks.
  request.headers["accept"] =
      "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/"
      "plain;version=0.0.4;q=0.5,*/*;q=0.1";
  const ServerResponse open = MetricsPage(request, registry->Render());
  EXPECT_EQ(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_NE(open.body.find("# TYPE runs counter\nruns_total{phase=\"Running\"} 2\n"), std::string::npos) << open.body;
  EXPECT_EQ(open.body.substr(open.body.size() - 6), "# EOF\n");
}

}  // namespace
}  // namespace paceline::net
