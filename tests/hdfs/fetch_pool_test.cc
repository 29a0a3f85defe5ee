// FetchPool against the DataNodes of a FakeCluster.
#include "lib/hdfs/fetch_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hdfs/fake_cluster.h"
#include "tests/hdfs/sample_bytes.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;
using Fault = FakeCluster::Fault;
using Urgency = FetchPool::Urgency;

constexpr uint64_t kUnit = 64 << 10;
constexpr size_t kBlock = 4 * kUnit;

class Fetching : public testing::Test {
 protected:
  // Three blocks, each on two of three DataNodes.
  Fetching() {
    std::vector<LocatedBlock> blocks;
    for (size_t i = 0; i < 3; ++i) {
      blocks.push_back(cluster_.PlantBlock(bytes_.substr(i * kBlock, kBlock), i * kBlock, {i, (i + 1) % 3}));
    }
    file_ = std::make_shared<FileBlocks>("/f", std::move(blocks), clock_);
  }
  FetchPool::Options Options(uint64_t budget = 1 << 20) const {
    return {.budget_bytes = budget, .unit_bytes = kUnit, .lanes_per_datanode = 2, .threads = 6};
  }
  Deadline Soon() const { return Deadline::After(clock_, 20s); }
  void ExpectWhole(FetchPool& pool) {
    std::vector<std::shared_ptr<RangeFetch>> fetches;
    for (uint64_t at = 0; at < bytes_.size(); at += kUnit) {
      fetches.push_back(pool.Start(file_, {at, kUnit}, Urgency::kNeeded));
    }
    for (const auto& fetch : fetches) {
      const Status status = pool.Wait(*fetch, Soon());
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(std::memcmp(fetch->data(), bytes_.data() + fetch->range.offset, kUnit), 0) << fetch->range.offset;
    }
  }

  const std::string bytes_ = SampleBytes(3 * kBlock);
  FakeCluster cluster_{3};
  RealClock clock_;
  DataNodeClient datanodes_{{.client_name = "test", .silence_limit = 5s}, clock_};
  NameNode namenode_{cluster_.RpcOptions(), "test", clock_};
  std::shared_ptr<FileBlocks> file_;
};

TEST_F(Fetching, BringsAllRangesFromAllDataNodes) {
  FetchPool pool(Options(), datanodes_, namenode_, clock_);
  ExpectWhole(pool);
  for (size_t i = 0; i < 3; ++i) EXPECT_GT(cluster_.operations(i), 0) << i;
  EXPECT_EQ(pool.counters().bytes, bytes_.size());
  EXPECT_EQ(pool.counters().failed_attempts, 0u);
}

TEST_F(Fetching, ReadsAnotherReplicaAndReportsTheCorruptOne) {
  cluster_.SetFault(0, Fault::kCorrupts);
  FetchPool pool(Options(), datanodes_, namenode_, clock_);
  ExpectWhole(pool);
  EXPECT_GT(pool.counters().corrupt_replicas, 0u);
  EXPECT_EQ(static_cast<uint64_t>(cluster_.Calls("reportBadBlocks")), pool.counters().corrupt_replicas);
}

TEST_F(Fetching, GoesOnWhenADataNodeRefusesOrHangs) {
  for (const Fault fault : {Fault::kRefuses, Fault::kHangs, Fault::kHangsInRead}) {
    cluster_.SetFault(1, fault);
    FetchPool pool(Options(), datanodes_, namenode_, clock_);
    const TimePoint start = clock_.Now();
    ExpectWhole(pool);
    EXPECT_LT(clock_.Now() - start, 5s) << static_cast<int>(fault);
    datanodes_.MarkAlive(cluster_.node(1));
  }
}

TEST_F(Fetching, AsksASecondReplicaOfASlowRange) {
  cluster_.SetFault(0, Fault::kHangsInRead);
  FetchPool pool(Options(), datanodes_, namenode_, clock_);
  const auto fetch = pool.Start(file_, {0, kUnit}, Urgency::kNeeded);
  const Status status = pool.Wait(*fetch, Soon());
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(pool.counters().hedges, 1u);
  EXPECT_TRUE(datanodes_.IsDead(cluster_.node(0))) << "it sent nothing at all";
}

TEST_F(Fetching, FetchesAheadOnlyWithinItsMemory) {
  FetchPool pool(Options(2 * kUnit), datanodes_, namenode_, clock_);
  auto first = pool.Start(file_, {0, kUnit}, Urgency::kAhead);
  auto second = pool.Start(file_, {kUnit, kUnit}, Urgency::kAhead);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(pool.Start(file_, {2 * kUnit, kUnit}, Urgency::kAhead), nullptr);
  // Who needs bytes gets them anyhow.
  const auto needed = pool.Start(file_, {3 * kUnit, kUnit}, Urgency::kNeeded);
  EXPECT_TRUE(pool.Wait(*needed, Soon()).ok());
  first.reset();
  second.reset();
  // The memory comes back when the threads that worked on it have let go as well.
  std::shared_ptr<RangeFetch> again;
  for (const Deadline limit = Soon(); again == nullptr && !limit.Expired(clock_);) {
    again = pool.Start(file_, {2 * kUnit, kUnit}, Urgency::kAhead);
  }
  EXPECT_NE(again, nullptr);
}

TEST_F(Fetching, SaysThatADeletedFileIsGone) {
  for (size_t i = 0; i < 3; ++i) cluster_.SetFault(i, Fault::kRefuses);
  FetchPool pool(Options(), datanodes_, namenode_, clock_);  // the NameNode of the test knows no locations
  const auto fetch = pool.Start(file_, {0, kUnit}, Urgency::kNeeded);
  EXPECT_EQ(pool.Wait(*fetch, Soon()).code(), StatusCode::kNotFound);
}

TEST_F(Fetching, EndsAtTheDeadlineAndDropsWhatNobodyWants) {
  for (size_t i = 0; i < 3; ++i) cluster_.SetFault(i, Fault::kHangsInRead);
  FetchPool pool(Options(), datanodes_, namenode_, clock_);
  const auto fetch = pool.Start(file_, {0, kUnit}, Urgency::kNeeded);
  EXPECT_EQ(pool.Wait(*fetch, Deadline::After(clock_, 100ms)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(pool.IsDone(*fetch));
}  // the pool ends while its reads hang

}  // namespace
}  // namespace paceline::hdfs
