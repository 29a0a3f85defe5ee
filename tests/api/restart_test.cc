#include "lib/api/restart.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/api/names.h"

namespace paceline::api {
namespace {

TrainingJob JobAtStart(int64_t start) {
  TrainingJob job;
  job.metadata.uid = "u1";
  job.status.run_generation = start;
  return job;
}

// As the API server applies it.
TrainingJob Patched(TrainingJob job, const nlohmann::json& patch) {
  for (const auto& [name, value] : patch["metadata"]["annotations"].items()) {
    if (value.is_null()) {
      job.metadata.annotations.erase(name);
    } else {
      job.metadata.annotations[name] = value.get<std::string>();
    }
  }
  return job;
}

TEST(Restart, IsAskedOfTheStartThatTheAskerHasSeen) {
  EXPECT_FALSE(RequestedRestart(JobAtStart(3), 3));
  const TrainingJob asked = Patched(JobAtStart(3), RestartPatch(JobAtStart(3), "a node is slow"));
  EXPECT_EQ(RequestedRestart(asked, 3), "a node is slow");
  EXPECT_FALSE(RequestedRestart(asked, 4)) << "it has begun anew since";
  EXPECT_EQ(RestartPatch(JobAtStart(3), "")["metadata"]["uid"], "u1");
}

TEST(Restart, WhoAsksWithoutAReasonLeavesNoneOfAnEarlierOne) {
  const TrainingJob first = Patched(JobAtStart(0), RestartPatch(JobAtStart(0), "a node is slow"));
  const TrainingJob second = Patched(first, RestartPatch(JobAtStart(1), ""));
  EXPECT_EQ(RequestedRestart(second, 1), "");
}

}  // namespace
}  // namespace paceline::api
