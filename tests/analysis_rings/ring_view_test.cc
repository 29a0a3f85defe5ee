#include "analysis/rings/ring_view.h"

#include <gtest/gtest.h>

#include "tests/ring/one_comm.h"

namespace paceline::analysis {
namespace {

using namespace std::chrono_literals;

using ring::AddCall;
using ring::kMs;
using ring::kNow;
using ring::Name;
using ring::OneComm;

TEST(RingTime, TurnsTicksIntoLengths) {
  RingHeader header{};
  header.clock = RING_CLOCK_TSC;
  header.epoch_time = 1000;
  header.epoch_monotonic_ns = 50'000;
  const RingTime time = RingTimeOf(header, 4000, TimePoint(51'000ns));
  EXPECT_EQ(time.Since(1000), 1000ns);  // three ticks a nanosecond
  EXPECT_EQ(time.Since(9000), 0ns);
  header.clock = RING_CLOCK_MONOTONIC;
  EXPECT_EQ(RingTimeOf(header, 4000, TimePoint(51'000ns)).Since(50'000), 1000ns);
  // A header that lies gives no infinite rate.
  header.clock = RING_CLOCK_TSC;
  header.epoch_time = 4000;
  EXPECT_EQ(RingTimeOf(header, 4000, TimePoint(51'000ns)).Since(3000), 1000ns);
}

TEST(RingView, ShowsWhatGoesOnAndTheLastThatEnded) {
  ring::Tables tables = OneComm();
  for (uint64_t i = 0; i < 40; i++) AddCall(tables, i, 2000 - i, 1000 - i);
  AddCall(tables, 40, 500, 10).open_proxies = 1;
  tables.calls.push_back(tables.calls.back());
  tables.calls.back().is_torn = true;
  ring::Entry<RingProxy> proxy;
  proxy.value.state = RING_OPEN;
  proxy.value.comm = 3;
  proxy.value.call = (uint64_t{2} << 60) | 50;  // the handle of the call at index 50
  proxy.value.channel = 1;
  proxy.value.is_send = 1;
  proxy.value.peer = 3;
  proxy.value.steps = 6;
  proxy.value.posted = 5;
  proxy.value.last = kNow - 10 * kMs;
  tables.proxies.push_back(proxy);
  proxy.value.flags = RING_PROXY_FOREIGN;
  tables.proxies.push_back(proxy);
  proxy.value.flags = 0;
  proxy.value.state = RING_STOPPED;
  tables.proxies.push_back(proxy);

  const ProcessView view = ViewOf(tables, {kNow, 1}, Name);
  EXPECT_EQ(view.run, "run-1");
  EXPECT_EQ(view.world_rank, 5);
  ASSERT_EQ(view.calls.size(), 17u);
  EXPECT_EQ(view.calls[0].index, 40u);
  EXPECT_EQ(view.calls[0].func, "AllReduce");
  EXPECT_EQ(view.calls[0].age, 500ms);
  EXPECT_EQ(view.calls[0].still, 10ms);
  EXPECT_EQ(view.calls[16].index, 24u);
  ASSERT_EQ(view.proxies.size(), 1u);
  EXPECT_EQ(view.proxies[0].comm, 0);
  EXPECT_EQ(view.proxies[0].call, 0);
  EXPECT_EQ(view.proxies[0].posted, 5u);
  EXPECT_EQ(view.proxies[0].still, 10ms);
  EXPECT_EQ(EndStateOf(tables), ProcessState::kDead);
  tables.comms[0].value.state = RING_STOPPED;
  EXPECT_EQ(EndStateOf(tables), ProcessState::kFinished);
}

}  // namespace
}  // namespace paceline::analysis
