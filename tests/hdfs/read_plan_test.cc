#include "lib/hdfs/read_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

std::vector<LocatedBlock> Blocks(const std::vector<uint64_t>& lengths) {
  std::vector<LocatedBlock> blocks;
  uint64_t at = 0;
  for (const uint64_t length : lengths) {
    LocatedBlock block;
    block.offset = at;
    block.block.length_bytes = length;
    block.block.block_id = blocks.size() + 1;
    blocks.push_back(block);
    at += length;
  }
  return blocks;
}

TEST(PlanRanges, StartsItsGridAnewWithEachBlock) {
  const auto blocks = Blocks({10, 25, 3, 10});
  const struct {
    ByteRange wanted;
    std::vector<std::pair<uint64_t, uint64_t>> want;
  } cases[] = {
      {{0, 48}, {{0, 10}, {10, 10}, {20, 10}, {30, 5}, {35, 3}, {38, 10}}},
      {{9, 2}, {{0, 10}, {10, 10}}},
      {{31, 1}, {{30, 5}}},
      {{35, 3}, {{35, 3}}},
      {{47, 100}, {{38, 10}}},
      {{48, 1}, {}},
      {{5, 0}, {}},
  };
  for (const auto& c : cases) {
    std::vector<std::pair<uint64_t, uint64_t>> got;
    for (const ByteRange& range : PlanRanges(blocks, c.wanted, 10)) got.emplace_back(range.offset, range.length);
    EXPECT_EQ(got, c.want) << c.wanted.offset;
  }
  EXPECT_EQ(FindBlock(blocks, 34)->block.block_id, 2u);
  EXPECT_EQ(FindBlock(blocks, 35)->block.block_id, 3u);
  EXPECT_EQ(FindBlock(blocks, 48), nullptr);
  EXPECT_EQ(FindBlock({}, 0), nullptr);
}

TEST(ChooseReplica, FollowsItsTable) {
  const struct {
    const char* name;
    std::vector<ReplicaView> replicas;
    std::optional<size_t> want;
  } cases[] = {
      {"none", {}, std::nullopt},
      {"the nearer of equals", {{}, {}, {}}, 0},
      {"the less busy", {{.in_flight = 2}, {.in_flight = 1}, {.in_flight = 1}}, 1},
      {"at the cap", {{.in_flight = 4}, {.in_flight = 4}}, std::nullopt},
      {"not a failed one", {{.has_failed = true}, {.in_flight = 3}}, 1},
      {"not one that is asked", {{.is_asked = true}, {}}, 1},
      {"a living one first", {{.is_dead = true}, {.in_flight = 3}}, 1},
      {"a busy living one is waited for", {{.is_dead = true}, {.in_flight = 4}}, std::nullopt},
      {"a dead one when all are", {{.is_dead = true}, {.is_dead = true, .has_failed = true}}, 0},
      {"decommissioned last", {{.is_decommissioned = true}, {.in_flight = 3}}, 1},
      {"all failed", {{.has_failed = true}, {.has_failed = true}}, std::nullopt},
  };
  for (const auto& c : cases) EXPECT_EQ(ChooseReplica(c.replicas, 4), c.want) << c.name;
}

TEST(HedgeAfter, FollowsTheAverage) {
  EXPECT_EQ(HedgeAfter(0s), 2s);
  EXPECT_EQ(HedgeAfter(10ms), 500ms);
  EXPECT_EQ(HedgeAfter(300ms), 900ms);
  EXPECT_EQ(HedgeAfter(1min), 3s);
}

TEST(WaitBeforeRound, GrowsAndEnds) {
  Duration total{};
  int rounds = 0;
  for (; WaitBeforeRound(rounds).has_value(); ++rounds) total += *WaitBeforeRound(rounds);
  EXPECT_EQ(rounds, 6);
  EXPECT_EQ(total, 250ms + 500ms + 1s + 2s + 4s + 4s);
}

TEST(ReadWindow, GrowsWhileReadsGoForward) {
  constexpr uint64_t kMiB = 1 << 20;
  ReadWindow window({.unit = 4 * kMiB, .max_bytes = 64 * kMiB});
  uint64_t last = 0;
  for (uint64_t at = 0; at < 512 * kMiB; at += kMiB) {
    const uint64_t ahead = window.OnRead(at, kMiB);
    EXPECT_GE(ahead, last);
    last = ahead;
  }
  EXPECT_EQ(last, 64 * kMiB);
  EXPECT_EQ(window.OnRead(510 * kMiB, kMiB), 64 * kMiB);   // the kernel's requests come side by side
  EXPECT_EQ(window.OnRead(2000 * kMiB, kMiB), 0u);         // a jump
  EXPECT_EQ(window.OnRead(2001 * kMiB, kMiB), 0u);         // perhaps by chance
  EXPECT_EQ(window.OnRead(2002 * kMiB, kMiB), 32 * kMiB);  // on from there, two more MiB read
  EXPECT_EQ(window.OnRead(100 * kMiB, 4096), 0u);
}

TEST(ReadWindow, StartsOnlyAtTheStart) {
  EXPECT_EQ(ReadWindow({}).OnRead(123 << 20, 4096), 0u);
  EXPECT_GT(ReadWindow({}).OnRead(0, 4096), 0u);
}

TEST(ReadWindow, OpensWhileAForwardReadWaits) {
  constexpr uint64_t kMiB = 1 << 20;
  ReadWindow window({.unit = 4 * kMiB, .max_bytes = 64 * kMiB});
  EXPECT_EQ(window.OnRead(0, kMiB), 16 * kMiB);
  EXPECT_EQ(window.OnWait(), 32 * kMiB);
  EXPECT_EQ(window.OnWait(), 64 * kMiB);
  EXPECT_EQ(window.OnWait(), 64 * kMiB);
  EXPECT_EQ(window.OnRead(500 * kMiB, 4096), 0u);
  EXPECT_EQ(window.OnWait(), 0u) << "not for reads that jump about";
}

}  // namespace
}  // namespace paceline::hdfs
