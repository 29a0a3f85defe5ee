#include "agent/mount_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PodReport PodWith(const std::string& name, MountFigures figures) {
  PodReport report;
  report.pod.ns = "team";
  report.pod.name = name;
  report.pod.uid = "uid-" + name;
  report.mounts = {{"model", std::move(figures), false}};
  return report;
}

TEST(MountMetrics, FollowTheMountsOfPodsAndGoWithThem) {
  std::vector<PodReport> pods = {PodWith("a", {.state = "Mounted", .read_bytes = 100, .written_bytes = 7}),
                                 PodWith("b", {.state = "Restarting", .restarts = 2})};
  const auto metrics = MetricsRegistry::Create();
  AddMountMetrics(*metrics, [&pods] { return pods; });
  std::string page = metrics->Render();
  EXPECT_THAT(page, HasSubstr(R"(paceline_volume_read_bytes_total{namespace="team",pod="a",volume="model"} 100)"));
  EXPECT_THAT(page, HasSubstr(R"(paceline_volume_written_bytes_total{namespace="team",pod="a",volume="model"} 7)"));
  EXPECT_THAT(page, HasSubstr(R"(paceline_volume_mounted{namespace="team",pod="a",volume="model"} 1)"));
  EXPECT_THAT(page, HasSubstr(R"(paceline_volume_mounted{namespace="team",pod="b",volume="model"} 0)"));
  EXPECT_THAT(page, HasSubstr(R"(paceline_volume_mount_restarts_total{namespace="team",pod="b",volume="model"} 2)"));

  pods[0].mounts[0].figures.read_bytes = 150;
  pods[0].mounts[0].figures.state = "Unknown";
  page = metrics->Render();
  EXPECT_THAT(page, HasSubstr(R"(paceline_volume_read_bytes_total{namespace="team",pod="a",volume="model"} 150)"));
  EXPECT_THAT(page, Not(HasSubstr(R"(paceline_volume_mounted{namespace="team",pod="a")"))) << "nobody can say";

  pods[0].ended_at = WallTime(std::chrono::seconds(1));
  pods.pop_back();
  page = metrics->Render();
  EXPECT_THAT(page, Not(HasSubstr("pod=\"")));
}

}  // namespace
}  // namespace paceline::agent
