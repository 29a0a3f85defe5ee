#include "agent/trace/ring_progress.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/ring/one_comm.h"

namespace paceline::agent {
namespace {

using namespace std::chrono_literals;

using ring::AddCall;
using ring::kMs;
using ring::kNow;
using ring::Name;
using ring::OneComm;

TEST(RingProgress, GivesEachOperationOnceAndInOrder) {
  ring::Tables tables = OneComm();
  AddCall(tables, 1, 800, 600);
  AddCall(tables, 0, 1000, 900);
  AddCall(tables, 2, 700, 500).open_proxies = 1;
  AddCall(tables, 3, 700, 400);
  RingProgress progress;
  const WallTime wall{std::chrono::hours(500000)};
  auto ended = progress.TakeEnded(tables, {kNow, 1}, wall, Name);
  ASSERT_EQ(ended.size(), 2u);  // the third goes on, and the fourth stands behind it
  EXPECT_EQ(ended[0].index, 0u);
  EXPECT_EQ(ended[0].duration, 100ms);
  EXPECT_EQ(ended[0].start, wall - 1000ms);
  EXPECT_EQ(ended[1].duration, 200ms);
  EXPECT_EQ(ended[1].bytes, 4000u);
  EXPECT_EQ(ended[1].world_rank, 5);
  EXPECT_TRUE(progress.TakeEnded(tables, {kNow, 1}, wall, Name).empty());
  tables.calls[2].value.open_proxies = 0;
  tables.calls[2].value.last = kNow - 50 * kMs;  // a moment ago: more of it may come
  EXPECT_TRUE(progress.TakeEnded(tables, {kNow, 1}, wall, Name).empty());
  ended = progress.TakeEnded(tables, {kNow + 100 * kMs, 1}, wall, Name);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[1].index, 3u);
}

TEST(RingProgress, PassesOverCallsWithoutNetworkOperations) {
  ring::Tables tables = OneComm();
  AddCall(tables, 0, 3000, 3000).proxies = 0;
  AddCall(tables, 1, 2500, 2400);
  RingProgress progress;
  const auto ended = progress.TakeEnded(tables, {kNow, 1}, WallTime(1h), Name);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].index, 1u);
}

TEST(RingProgress, TakesTheTimeOfSendsWithTheNetwork) {
  RingProxy proxy{};
  proxy.comm = 3;
  proxy.is_send = 1;
  proxy.rank = 2;
  proxy.peer = 3;
  proxy.bytes = 5000;
  proxy.wait[2] = 4 * kMs;
  ring::Records records;
  auto add = [&](uint32_t type) {
    RingRecord record{};
    record.type = type;
    std::memcpy(record.body, reinterpret_cast<const char*>(&proxy) + 12, sizeof record.body);
    records.records.push_back(record);
  };
  add(RING_RECORD_PROXY);
  add(RING_RECORD_CALL);
  proxy.is_send = 0;
  add(RING_RECORD_PROXY);
  proxy.is_send = 1;
  proxy.comm = 9;
  add(RING_RECORD_PROXY);
  proxy.comm = 3;
  proxy.wait[2] = UINT64_MAX;
  add(RING_RECORD_PROXY);
  const auto uses = RingProgress::LinksOf(records, OneComm(), {kNow, 1000});
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].comm, 77u);
  EXPECT_EQ(uses[0].from, 2);
  EXPECT_EQ(uses[0].to, 3);
  EXPECT_EQ(uses[0].network, 4s);
  EXPECT_GT(uses[1].network, 0s);
}

}  // namespace
}  // namespace paceline::agent
