// Where a worker's startup time went: instants (pod created, scheduled, ...) to stages that lie end to end, so that
// their lengths add up exactly to the time from the job's start to the worker's first step.
//
// Kubernetes writes most times in whole seconds. An instant therefore is a window with a best estimate, and the windows
// of a worker, which must come in order, narrow each other. What nobody reported is not guessed: its stage is unknown,
// and the next known stage says that it contains it. Pure; callers: the run reconciler.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/training_run.h"
#include "lib/base/clock.h"

namespace paceline::operator_ {

using api::StageName;
using api::StageSource;
inline constexpr size_t kStageCount = static_cast<size_t>(StageName::kFirstStep) + 1;

// False for stages that only some jobs have, or only some can report: nothing is missing when they are absent.
bool IsExpectedStage(StageName stage);

// The instant lies in [earliest, latest]; `best` is in there too.
struct Moment {
  WallTime earliest;
  WallTime best;
  WallTime latest;
  StageSource source = StageSource::kPodCondition;
};

// A time known to the nanosecond (or as good as): the window is that point.
Moment ExactMoment(WallTime at, StageSource source);
// `at` is a whole second, cut off: the instant lies in [at, at + 1 s). `observed`, when our watch first showed the
// change, bounds it when it lies there or up to kWatchLag after.
Moment SecondMoment(WallTime at, std::optional<WallTime> observed, StageSource source);
// The same instant as we reported it before; kept when it fits the window, because it may stem from an observation or
// an event that is gone now.
Moment PreferEarlierReport(const Moment& moment, std::optional<WallTime> reported);

// How late a watch may show a change and still say something about the second in which it happened.
inline constexpr Duration kWatchLag = std::chrono::seconds(2);

// What is known of one worker. Empty: not known, or not yet.
struct WorkerMoments {
  Moment start;  // the job's start: the same for all workers of a run
  // ends[i] is when stage i was over. That of kImage is not used: images are pulled between other things (volumes
  // before, init containers between), so the stage is given by its length.
  std::array<std::optional<Moment>, kStageCount> ends;
  std::optional<Duration> image_time;  // all pulls together; zero when every image was there
  // First to last checkpoint byte, as the mounts tell it. Given by its length too: what lies between the container's
  // start and the first byte is the program's own. Not used where a marker says when the checkpoint was there.
  std::optional<Duration> checkpoint_time;

  std::optional<Moment>& end(StageName stage) { return ends[static_cast<size_t>(stage)]; }
  const std::optional<Moment>& end(StageName stage) const { return ends[static_cast<size_t>(stage)]; }
};

struct StageSpan {
  StageName stage;
  WallTime begin;
  std::optional<WallTime> end;                      // empty: going on, the last of the list
  StageSource source = StageSource::kPodCondition;  // of the end
  std::vector<StageName> contains;                  // expected stages of unknown length: their time is in here
};

// The spans end to end from the start: the first begins at the job's start, each begins where the one before ended,
// times cut to whole milliseconds. Stages without a known end are left out and named in `contains` of the next known
// one. When the first step is not known the list ends with an open span for what the worker is busy with.
std::vector<StageSpan> ComputeStages(const WorkerMoments& moments);

// From the start to the first step; empty when that is not known.
std::optional<Duration> StartupTime(const std::vector<StageSpan>& spans);

}  // namespace paceline::operator_
