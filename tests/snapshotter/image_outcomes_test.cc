#include "snapshotter/plugin/image_outcomes.h"

#include <gtest/gtest.h>

#include "tests/fakes/simulated_clock.h"

namespace paceline::snapshotter {
namespace {

using std::chrono::seconds;

const blocks::Digest kSomeConversion = blocks::Sha256Of("converted");

TEST(ImageOutcomes, TellHowAnImageCame) {
  fakes::SimulatedClock clock;
  ImageOutcomes outcomes(clock);
  const WallTime asked = outcomes.Now();
  outcomes.Opened("r.test/a:1", "sha256:a", kSomeConversion, asked);
  clock.Advance(seconds(2));
  // The next layer of the same pull.
  outcomes.Opened("r.test/a:1", "sha256:a", kSomeConversion, outcomes.Now());
  outcomes.Pulled("r.test/b:1", "sha256:b", NotFoundError("no store has it"), outcomes.Now());
  outcomes.Pulled("r.test/c:1", "sha256:c", UnavailableError("docker://s: refused"), outcomes.Now());
  ASSERT_EQ(outcomes.All().size(), 3U);
  EXPECT_EQ(outcomes.All()[0].asked_at, asked);
  EXPECT_FALSE(outcomes.All()[0].ready_at.has_value());
  EXPECT_EQ(outcomes.All()[1].reason, "NotConverted");
  EXPECT_EQ(outcomes.All()[2].reason, "Unavailable");
  EXPECT_EQ(outcomes.All()[2].message, "docker://s: refused");
  outcomes.Ready(kSomeConversion);
  clock.Advance(seconds(5));
  outcomes.Ready(kSomeConversion);  // the second container
  EXPECT_EQ(outcomes.All()[0].ready_at, asked + seconds(2));
  outcomes.NotMounted(kSomeConversion,
                      UnimplementedError("no EROFS"));  // of a layer mounted again: containers have run
  EXPECT_TRUE(outcomes.All()[0].converted.has_value());
}

TEST(ImageOutcomes, ALayerThatCannotBeMountedMakesItAPull) {
  fakes::SimulatedClock clock;
  ImageOutcomes outcomes(clock);
  outcomes.Opened("r.test/a:1", "sha256:a", kSomeConversion, outcomes.Now());
  outcomes.NotMounted(kSomeConversion, UnimplementedError("no EROFS"));
  EXPECT_FALSE(outcomes.All()[0].converted.has_value());
  EXPECT_EQ(outcomes.All()[0].reason, "Unimplemented");
}

TEST(ImageOutcomes, ALaterPullTakesTheEarlierOnesPlace) {
  fakes::SimulatedClock clock;
  ImageOutcomes outcomes(clock);
  outcomes.Pulled("r.test/a:1", "sha256:a", NotFoundError("none"), outcomes.Now());
  clock.Advance(seconds(60));
  outcomes.Opened("r.test/a:1", "sha256:a", kSomeConversion, outcomes.Now());
  outcomes.Ready(kSomeConversion);
  clock.Advance(seconds(60));
  outcomes.Opened("r.test/a:1", "sha256:a", kSomeConversion, outcomes.Now());
  ASSERT_EQ(outcomes.All().size(), 1U);
  EXPECT_EQ(outcomes.All()[0].asked_at, outcomes.Now());
  EXPECT_FALSE(outcomes.All()[0].ready_at.has_value());
}

TEST(ImageOutcomes, KeepTheLatest) {
  fakes::SimulatedClock clock;
  ImageOutcomes outcomes(clock);
  for (int i = 0; i < 100; ++i) {
    outcomes.Pulled("r.test/" + std::to_string(i), "sha256:a", NotFoundError("none"), outcomes.Now());
  }
  ASSERT_EQ(outcomes.All().size(), ImageOutcomes::kMaxKept);
  EXPECT_EQ(outcomes.All().back().name, "r.test/99");
}

}  // namespace
}  // namespace paceline::snapshotter
