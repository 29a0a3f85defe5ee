#include "operator/training_run/stages.h"

#include <gtest/gtest.h>

#include <random>

namespace paceline::operator_ {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

const WallTime kBase{seconds(1767323040)};

WallTime At(int64_t ms) { return kBase + milliseconds(ms); }

Moment Second(int64_t at_ms, std::optional<int64_t> observed_ms = std::nullopt) {
  return SecondMoment(At(at_ms), observed_ms ? std::optional(At(*observed_ms)) : std::nullopt,
                      StageSource::kPodCondition);
}
Moment Exact(int64_t at_ms) { return ExactMoment(At(at_ms), StageSource::kEvent); }

WorkerMoments FullRun() {
  WorkerMoments m;
  m.start = Second(0, 210);
  m.end(StageName::kQueued) = Second(0, 350);
  m.end(StageName::kScheduling) = Exact(420);
  m.image_time = milliseconds(1200);
  m.end(StageName::kContainerStart) = Second(2000, 2800);
  m.end(StageName::kFirstStep) = ExactMoment(At(5123), StageSource::kMarker);
  return m;
}

Duration Sum(const std::vector<StageSpan>& spans) {
  Duration sum{};
  for (const StageSpan& span : spans) sum += *span.end - span.begin;
  return sum;
}

TEST(Stages, LieEndToEndAndAddUpToTheWallTime) {
  const std::vector<StageSpan> spans = ComputeStages(FullRun());
  const std::pair<StageName, int64_t> want[] = {{StageName::kQueued, 140},
                                                {StageName::kScheduling, 70},
                                                {StageName::kImage, 1200},
                                                {StageName::kContainerStart, 1180},
                                                {StageName::kFirstStep, 2323}};
  ASSERT_EQ(spans.size(), std::size(want));
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].stage, want[i].first);
    EXPECT_EQ(*spans[i].end - spans[i].begin, milliseconds(want[i].second)) << api::StageNameText(spans[i].stage);
    EXPECT_TRUE(spans[i].contains.empty());
    if (i > 0) {
      EXPECT_EQ(spans[i].begin, *spans[i - 1].end);
    }
  }
  EXPECT_EQ(StartupTime(spans), Duration(milliseconds(5123 - 210)));
  EXPECT_EQ(Sum(spans), *StartupTime(spans));
  EXPECT_EQ(spans.back().source, StageSource::kMarker);
}

TEST(Stages, ACheckpointIsCutFromTheProgramsOwnTime) {
  WorkerMoments m = FullRun();
  m.checkpoint_time = milliseconds(900);
  std::vector<StageSpan> spans = ComputeStages(m);
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans[4].stage, StageName::kCheckpoint);
  EXPECT_EQ(spans[4].source, StageSource::kMount);
  EXPECT_EQ(*spans[4].end - spans[4].begin, milliseconds(900));
  EXPECT_EQ(*spans[5].end - spans[5].begin, milliseconds(2323 - 900));
  EXPECT_EQ(Sum(spans), *StartupTime(spans));
  m.checkpoint_time = seconds(100);  // clocks may disagree, or reading go on past the first step
  spans = ComputeStages(m);
  EXPECT_EQ(*spans[4].end - spans[4].begin, milliseconds(2323));
  EXPECT_EQ(Sum(spans), *StartupTime(spans));

  m.checkpoint_time = milliseconds(900);
  m.end(StageName::kFirstStep).reset();
  spans = ComputeStages(m);
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(*spans[4].end - spans[4].begin, milliseconds(900));
  EXPECT_EQ(spans[5].begin, *spans[4].end);
  EXPECT_FALSE(spans[5].end.has_value());
  m.end(StageName::kContainerStart).reset();
  for (const StageSpan& span : ComputeStages(m)) EXPECT_NE(span.stage, StageName::kCheckpoint) << "nothing started";

  m = FullRun();
  m.checkpoint_time = milliseconds(900);
  m.end(StageName::kCheckpoint) = ExactMoment(At(4000), StageSource::kMarker);
  spans = ComputeStages(m);
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans[4].source, StageSource::kMarker) << "the program knows better";
  EXPECT_EQ(*spans[4].end, At(4000));
}

TEST(Stages, AnImageThatWasThereTakesNoTime) {
  WorkerMoments m = FullRun();
  m.image_time = Duration::zero();
  const auto spans = ComputeStages(m);
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(spans[2].stage, StageName::kImage);
  EXPECT_EQ(*spans[2].end, spans[2].begin);
}

TEST(Stages, APullCannotTakeLongerThanFromScheduledToStarted) {
  WorkerMoments m = FullRun();
  m.image_time = std::chrono::minutes(5);
  const auto spans = ComputeStages(m);
  EXPECT_EQ(Sum(spans), *StartupTime(spans));
  EXPECT_EQ(*spans[3].end, spans[3].begin);
}

TEST(Stages, AnExactLaterInstantBoundsAnEarlierWholeSecond) {
  WorkerMoments m;
  m.start = Second(0);
  // Our watch showed the pod at .900, but it was scheduled at .300 by the scheduler's own clock.
  m.end(StageName::kQueued) = Second(0, 900);
  m.end(StageName::kScheduling) = Exact(300);
  const auto spans = ComputeStages(m);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(*spans[0].end, At(300));
  EXPECT_EQ(*spans[1].end, At(300));
}

TEST(Stages, ClocksThatDisagreeGiveZeroLengthsNeverNegativeOnes) {
  WorkerMoments m = FullRun();
  m.end(StageName::kContainerStart) = Exact(-90'000);
  const auto spans = ComputeStages(m);
  for (const StageSpan& span : spans) EXPECT_GE(*span.end, span.begin) << api::StageNameText(span.stage);
  EXPECT_EQ(Sum(spans), *StartupTime(spans));
}

TEST(Stages, ObservationCountsOnlyNearItsSecond) {
  struct Case {
    const char* name;
    std::optional<WallTime> observed;
    WallTime best;
    bool is_bound;
  };
  const Case cases[] = {
      {"never", std::nullopt, At(5000), false},
      {"inside", At(5400), At(5400), true},
      {"before, by a clock that is behind", At(4200), At(5000), true},
      {"a little late", At(6700), At(6000) - std::chrono::nanoseconds(1), true},
      {"after a restart of ours", At(5000) + hours(1), At(5000), false},
  };
  for (const Case& c : cases) {
    const Moment moment = SecondMoment(At(5000), c.observed, StageSource::kPodCondition);
    EXPECT_EQ(moment.best, c.best) << c.name;
    EXPECT_EQ(moment.latest == moment.best, c.is_bound) << c.name;
    EXPECT_LE(moment.earliest, moment.best) << c.name;
    EXPECT_LE(moment.best, moment.latest) << c.name;
  }
}

TEST(Stages, AnEarlierReportIsKeptWhereItFits) {
  const Moment second = Second(5000);
  EXPECT_EQ(PreferEarlierReport(second, At(5432)).best, At(5432));
  EXPECT_EQ(PreferEarlierReport(second, At(4999)).best, At(5000));
  EXPECT_EQ(PreferEarlierReport(second, At(6001)).best, At(5000));
  EXPECT_EQ(PreferEarlierReport(second, std::nullopt).best, At(5000));
  // A report is cut to milliseconds; the exact instant it came from stays the same instant.
  const WallTime exact = At(5432) + std::chrono::nanoseconds(999'000);
  EXPECT_EQ(PreferEarlierReport(ExactMoment(exact, StageSource::kEvent), At(5432)).best, exact);
}

TEST(Stages, UnknownStagesAreNamedInsideTheNextKnownOne) {
  WorkerMoments m = FullRun();
  m.image_time.reset();
  const auto spans = ComputeStages(m);
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[2].stage, StageName::kContainerStart);
  EXPECT_EQ(spans[2].contains, (std::vector<StageName>{StageName::kImage}));
  EXPECT_EQ(Sum(spans), *StartupTime(spans));
}

TEST(Stages, ARunThatIsStillStartingEndsWithAnOpenSpan) {
  struct Case {
    StageName last_known;
    bool has_images;
    StageName open;
  };
  const Case cases[] = {{StageName::kQueued, false, StageName::kScheduling},
                        {StageName::kScheduling, false, StageName::kImage},
                        {StageName::kScheduling, true, StageName::kContainerStart},
                        {StageName::kContainerStart, true, StageName::kFirstStep}};
  for (const Case& c : cases) {
    WorkerMoments m = FullRun();
    if (!c.has_images) m.image_time.reset();
    for (size_t i = static_cast<size_t>(c.last_known) + 1; i < kStageCount; ++i) m.ends[i].reset();
    const auto spans = ComputeStages(m);
    ASSERT_FALSE(spans.empty());
    EXPECT_EQ(spans.back().stage, c.open) << api::StageNameText(c.last_known);
    EXPECT_FALSE(spans.back().end);
    EXPECT_FALSE(StartupTime(spans));
  }
  WorkerMoments none;
  none.start = Second(0);
  const auto spans = ComputeStages(none);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].stage, StageName::kQueued);
  EXPECT_FALSE(spans[0].end);
}

TEST(Stages, AddUpForAnyInput) {
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    WorkerMoments m;
    m.start = Second(0, static_cast<int64_t>(random() % 1500));
    if (random() % 2 == 0) m.image_time = milliseconds(random() % 9000);
    for (size_t i = 0; i < kStageCount; ++i) {
      const auto at = static_cast<int64_t>(random() % 20'000) - 5'000;
      const WallTime second = std::chrono::floor<seconds>(At(at));
      switch (random() % 4) {
        case 0: break;
        case 1: m.ends[i] = ExactMoment(At(at) + Duration(random() % 1'000'000), StageSource::kEvent); break;
        case 2: m.ends[i] = SecondMoment(second, std::nullopt, StageSource::kPodCondition); break;
        default: m.ends[i] = SecondMoment(second, At(at + 300), StageSource::kPodCondition); break;
      }
    }
    const auto spans = ComputeStages(m);
    Duration sum{};
    for (size_t i = 0; i < spans.size(); ++i) {
      if (i > 0) {
        ASSERT_EQ(spans[i].begin, *spans[i - 1].end);
      }
      if (!spans[i].end) {
        ASSERT_EQ(i + 1, spans.size());
        continue;
      }
      ASSERT_GE(*spans[i].end, spans[i].begin);
      sum += *spans[i].end - spans[i].begin;
    }
    if (const auto total = StartupTime(spans)) {
      ASSERT_EQ(sum, *total);
    }
  }
}

}  // namespace
}  // namespace paceline::operator_
