#include "operator/names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace paceline::operator_ {
namespace {

bool IsLabel(const std::string& name) {
  return !name.empty() && name.size() <= kMaxDnsLabel && name.front() >= 'a' && name.front() <= 'z' &&
         name.back() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

TEST(Names, ShortNamesStayReadable) {
  EXPECT_EQ(ServiceName("llama"), "llama");
  EXPECT_EQ(JobName("llama", 3), "llama-g3");
  EXPECT_EQ(WorkerHostName(JobName("llama", 3), 12), "llama-g3-12");
}

TEST(Names, AnyJobNameGivesValidLabels) {
  const std::string names[] = {"a",
                               "7b-chat",
                               "my.job.name",
                               std::string(47, 'a'),
                               std::string(63, 'a'),
                               std::string(253, 'b'),
                               "a" + std::string(60, '-') + "b",
                               "9",
                               "x." + std::string(200, 'y')};
  for (const std::string& name : names) {
    EXPECT_TRUE(IsLabel(ServiceName(name))) << name;
    EXPECT_TRUE(IsLabel(WorkerHostName(JobName(name, 999'999), 999'999))) << name;
    EXPECT_TRUE(IsLabel(RunName(name, "0b5d5a0e-4a1c-4f6e-9a59-cc6f0a1e2b11", 2'000'000'000))) << name;
  }
}

TEST(Names, DifferentJobsGetDifferentNames) {
  std::set<std::string> seen;
  const std::string stem(60, 'a');
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(seen.insert(ServiceName(stem + std::to_string(i))).second) << i;
  EXPECT_NE(ServiceName("a.b"), ServiceName("a-b"));
  EXPECT_NE(RunName("a", "uid-1", 1), RunName("a", "uid-2", 1));
  EXPECT_NE(RunName("a", "uid-1", 1), RunName("a", "uid-1", 2));
}

TEST(Names, NeverChangeBetweenReleases) {
  // A changed hash would make an upgraded operator create a second Job for a running one.
  EXPECT_EQ(ShortHash("0b5d5a0e-4a1c-4f6e-9a59-cc6f0a1e2b11", 8), ShortHash("0b5d5a0e-4a1c-4f6e-9a59-cc6f0a1e2b11", 8));
  EXPECT_EQ(ServiceName("my.job"), "my-job-1p0291kl");
}

}  // namespace
}  // namespace paceline::operator_
