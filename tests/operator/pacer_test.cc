#include "operator/pacer.h"

#include <gtest/gtest.h>

#include "tests/fakes/simulated_clock.h"

namespace paceline::operator_ {
namespace {

using std::chrono::milliseconds;

TEST(Pacer, LetsEachObjectThroughOncePerInterval) {
  fakes::SimulatedClock clock;
  Pacer pacer(clock, milliseconds(250));
  const kube::ObjectKey a{"team", "a"}, b{"team", "b"};
  EXPECT_EQ(pacer.WaitBefore(a), Duration::zero());
  EXPECT_EQ(pacer.WaitBefore(b), Duration::zero()) << "another object has its own pace";
  clock.Advance(milliseconds(100));
  EXPECT_EQ(pacer.WaitBefore(a), milliseconds(150));
  clock.Advance(milliseconds(150));
  EXPECT_EQ(pacer.WaitBefore(a), Duration::zero());
  EXPECT_EQ(pacer.WaitBefore(a), milliseconds(250)) << "the look before counts";
}

TEST(Pacer, ForgetsWhatIsGone) {
  fakes::SimulatedClock clock;
  Pacer pacer(clock, milliseconds(250));
  const kube::ObjectKey a{"team", "a"};
  EXPECT_EQ(pacer.WaitBefore(a), Duration::zero());
  pacer.Forget(a);
  EXPECT_EQ(pacer.WaitBefore(a), Duration::zero());
}

}  // namespace
}  // namespace paceline::operator_
