#include "lib/blocks/engine/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/simulated_clock.h"

namespace paceline::blocks {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

TEST(AccessLog, FirstTouchesInOrderWithTheirTime) {
  fakes::SimulatedClock clock;
  AccessLog log({10, 3}, clock);
  log.Note(1, 2);
  clock.Advance(seconds(1));
  log.Note(0, 9);
  log.Note(1, 2);
  clock.Advance(seconds(1));
  log.Note(0, 0);
  log.Note(7, 0);  // no such layer
  log.Note(1, 3);  // no such chunk
  log.End();
  log.Note(0, 1);
  EXPECT_FALSE(log.is_recording());
  EXPECT_THAT(log.accesses(),
              ElementsAre(Access{1, 2, seconds(0)}, Access{0, 9, seconds(1)}, Access{0, 0, seconds(2)}));
}

}  // namespace
}  // namespace paceline::blocks
