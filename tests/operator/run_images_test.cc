#include "operator/training_run/run_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/training_run/run_status.h"
#include "tests/operator/pod_builder.h"

namespace paceline::operator_ {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

api::ImageReport Lazily(const char* image, int64_t asked_ms, api::ImageFigures figures = {}) {
  api::ImageReport report;
  report.image = image;
  report.mode = api::ImageMode::kLazy;
  report.asked_at = AtMs(asked_ms);
  report.ready_at = AtMs(asked_ms + 700);
  report.hot_set = api::HotSetState::kFetched;
  report.figures = figures;
  return report;
}

api::ImageReport Pulled(const char* image, int64_t asked_ms, const char* reason, const char* message) {
  api::ImageReport report;
  report.image = image;
  report.mode = api::ImageMode::kPulled;
  report.asked_at = AtMs(asked_ms);
  report.reason = reason;
  report.message = message;
  return report;
}

// A worker of image r.test/train:1 on `node`, whose snapshotter says `reports`.
WorkerInput WorkerOn(const char* name, const char* node, std::vector<api::ImageReport> reports) {
  kube::PodView pod = *PodBuilder(name).On(node, AtMs(400)).Build();
  pod.spec.containers[0].image = "r.test/train:1";
  WorkerInput worker;
  worker.pod = std::make_shared<const kube::PodView>(std::move(pod));
  if (!reports.empty()) {
    worker.images = std::make_shared<const std::vector<api::ImageReport>>(std::move(reports));
  }
  return worker;
}

class RunImagesTest : public testing::Test {
 protected:
  api::TrainingRunStatus Add(const std::vector<WorkerInput>& workers) {
    std::vector<const WorkerInput*> pointers;
    for (const WorkerInput& worker : workers) pointers.push_back(&worker);
    api::TrainingRunStatus status = before_;
    status.queued_at = AtMs(10'000);
    AddImages(pointers, before_, status);
    before_ = status;
    return status;
  }
  api::TrainingRunStatus before_;
};

TEST_F(RunImagesTest, SayWhatHappenedNodeByNode) {
  const api::TrainingRunStatus status =
      Add({WorkerOn("a", "n1", {Lazily("r.test/train:1", 12'000, {100, 30, 5, 60, 40, 9, 1})}),
           WorkerOn("b", "n1", {Lazily("r.test/train:1", 12'000, {100, 30, 5, 60, 40, 9, 1})}),
           WorkerOn("c", "n2",
                    {Lazily("r.test/other:1", 12'000),
                     Pulled("r.test/train:1", 12'000, "Unavailable", "docker://s: refused")}),
           WorkerOn("d", "n3", {Lazily("r.test/train:1", 13'000, {100, 0, 0, 7, 0, 3, 7})}), WorkerOn("e", "n4", {})});
  ASSERT_THAT(status.images, SizeIs(3));
  EXPECT_EQ(status.images[0].node, "n2");  // pulled ones first
  EXPECT_EQ(status.images[0].reason, "Unavailable");
  EXPECT_EQ(status.images[1].node, "n1");
  EXPECT_EQ(status.images[1].image, "r.test/train:1");
  EXPECT_DOUBLE_EQ(*status.images[1].ready_seconds, 0.7);
  EXPECT_FALSE(status.images[1].was_there);
  EXPECT_EQ(status.bytes->image_from_registry, 67);
  EXPECT_EQ(status.bytes->image_from_peers, 5);
  EXPECT_EQ(status.bytes->image_from_cache, 30);
  EXPECT_DOUBLE_EQ(*status.hot_set->hit_ratio, 0.6);
  ASSERT_THAT(status.fallbacks, SizeIs(1));
  EXPECT_EQ(status.fallbacks[0].node, "n2");
  EXPECT_THAT(status.fallbacks[0].reason, HasSubstr("Unavailable: docker://s: refused"));
}

TEST_F(RunImagesTest, AnImageOfAnEarlierStartIsNoneOfThisOne) {
  const api::TrainingRunStatus status =
      Add({WorkerOn("a", "n1", {Lazily("r.test/train:1", 1'000, {100, 30, 5, 60, 40, 9, 1})}),
           WorkerOn("b", "n2", {Pulled("r.test/train:1", 1'000, "NotConverted", "none")})});
  ASSERT_THAT(status.images, SizeIs(2));
  EXPECT_TRUE(status.images[0].was_there && status.images[1].was_there);
  EXPECT_EQ(status.bytes->image_from_registry, 0);
  EXPECT_FALSE(status.hot_set.has_value());
  EXPECT_THAT(status.fallbacks, IsEmpty());
}

TEST_F(RunImagesTest, NodesWithoutASnapshotterSayNothing) {
  const api::TrainingRunStatus status = Add({WorkerOn("a", "n1", {})});
  EXPECT_THAT(status.images, IsEmpty());
  EXPECT_FALSE(status.bytes.has_value());
}

TEST_F(RunImagesTest, WhatWasKnownStays) {
  Add({WorkerOn("a", "n1", {Lazily("r.test/train:1", 12'000, {100, 30, 5, 60, 40, 9, 1})}),
       WorkerOn("b", "n2", {Pulled("r.test/train:1", 12'000, "NotConverted", "none")})});
  // One plugin has been restarted and knows no beginning any more, the other node's pod is gone.
  api::ImageReport restarted = Lazily("r.test/train:1", 0, {1, 0, 0, 1, 0, 1, 0});
  restarted.asked_at.reset();
  const api::TrainingRunStatus status = Add({WorkerOn("a", "n1", {restarted})});
  ASSERT_THAT(status.images, SizeIs(2));
  EXPECT_EQ(status.images[0].node, "n2");
  EXPECT_FALSE(status.images[1].was_there);
  EXPECT_EQ(status.bytes->image_from_registry, 60);
  EXPECT_THAT(status.fallbacks, SizeIs(1));
}

TEST_F(RunImagesTest, ShortNamesAreWhatRuntimesMakeOfThem) {
  kube::PodView pod = *PodBuilder("a").On("n1", AtMs(400)).Build();
  pod.spec.containers[0].image = "python";
  WorkerInput worker;
  worker.pod = std::make_shared<const kube::PodView>(std::move(pod));
  worker.images = std::make_shared<const std::vector<api::ImageReport>>(
      std::vector<api::ImageReport>{Lazily("docker.io/library/python:latest", 12'000)});
  const api::TrainingRunStatus status = Add({worker});
  ASSERT_THAT(status.images, SizeIs(1));
  EXPECT_EQ(status.images[0].image, "python");
}

TEST_F(RunImagesTest, ListsAreBounded) {
  std::vector<WorkerInput> workers;
  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) names.push_back("n" + std::to_string(1000 + i));
  for (const std::string& name : names) {
    workers.push_back(WorkerOn(name.c_str(), name.c_str(), {Pulled("r.test/train:1", 12'000, "NotConverted", "none")}));
  }
  const api::TrainingRunStatus status = Add(workers);
  EXPECT_THAT(status.images, SizeIs(api::kMaxRunImages));
  EXPECT_THAT(status.fallbacks, SizeIs(api::kMaxRunFallbacks));
}

TEST_F(RunImagesTest, NewFallbacksAreThoseThatWereNotThere) {
  const api::TrainingRunStatus first =
      Add({WorkerOn("a", "n1", {Pulled("r.test/train:1", 12'000, "NotConverted", "none")})});
  EXPECT_THAT(NewFallbacks(api::TrainingRunStatus{}, first), SizeIs(1));
  const api::TrainingRunStatus second =
      Add({WorkerOn("a", "n1", {Pulled("r.test/train:1", 12'000, "NotConverted", "none")}),
           WorkerOn("b", "n2", {Pulled("r.test/train:1", 12'000, "NotConverted", "none")})});
  const std::vector<api::Fallback> fresh = NewFallbacks(first, second);
  ASSERT_THAT(fresh, SizeIs(1));
  EXPECT_EQ(fresh[0].node, "n2");
  EXPECT_THAT(NewFallbacks(second, second), IsEmpty());
}

}  // namespace
}  // namespace paceline::operator_
