#include "analysis/rings/snapshot.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "analysis/root_cause.h"
#include "tests/collectives/job.h"
#include "tests/ring/ring_folder.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

TEST(RingSnapshot, DiagnosesTheJobOfThisMachine) {
  const ring::RingFolder folder;
  std::filesystem::create_directories(folder.path() + "/volumes/pod-1");
  const RealFileSystem files;
  const RealClock clock;
  SnapshotOptions options;
  options.folder = folder.path();
  options.node = "here";
  EXPECT_EQ(SnapshotRings(options, files, clock).status().code(), StatusCode::kNotFound);

  collectives::JobDescription description;
  description.ranks = 3;
  description.trace_folder = folder.path() + "/volumes/pod-1";
  description.options = {"comm=dp=0,1,2", "schedule=allreduce:dp:20000;sync", "iterations=1000000", "slice-bytes=4096"};
  description.of_rank[1] = {"hang-at=5"};
  collectives::Job job(description);
  const Deadline deadline = Deadline::After(clock, 60s);
  Verdict verdict;
  while (verdict.category != Category::kNotLaunched && !deadline.Expired(clock)) {
    const Result<Tables> tables = SnapshotRings(options, files, clock);
    if (tables.ok() && tables->processes.size() == 3) verdict = Diagnose(*tables);
  }
  EXPECT_EQ(verdict.category, Category::kNotLaunched) << verdict.cause;
  ASSERT_EQ(verdict.culprits.size(), 1u);
  EXPECT_EQ(verdict.culprits[0].world_rank, 1);
  EXPECT_EQ(verdict.culprits[0].node, "here");

  // A file that is no ring is named, and hides nothing.
  std::ofstream(folder.path() + "/nccl-1-2-3.ring") << "no ring";
  job.Signal(2, SIGSTOP);
  const Result<Tables> tables = SnapshotRings(options, files, clock);
  ASSERT_TRUE(tables.ok());
  EXPECT_EQ(tables->missing.size(), 1u);
  verdict = Diagnose(*tables);
  EXPECT_EQ(verdict.category, Category::kHostStuck);
  EXPECT_EQ(verdict.culprits[0].world_rank, 2);
}

}  // namespace
}  // namespace paceline::analysis
