#include "operator/training_run/stages.h"

#include <algorithm>

namespace paceline::operator_ {
namespace {

WallTime ToMillis(WallTime time) { return std::chrono::floor<std::chrono::milliseconds>(time); }

// The instants happened in this order, so none can be later than the latest possible time of a later one. Clocks of
// different machines may disagree by more than the windows are wide; then the earlier instant keeps its earliest time.
void NarrowFromTheEnd(std::vector<Moment>& moments) {
  for (size_t i = moments.size(); i-- > 1;) {
    Moment& before = moments[i - 1];
    before.latest = std::max(before.earliest, std::min(before.latest, moments[i].latest));
    before.best = std::clamp(before.best, before.earliest, before.latest);
  }
}

void KeepOrder(std::vector<Moment>& moments) {
  for (size_t i = 1; i < moments.size(); ++i) moments[i].best = std::max(moments[i].best, moments[i - 1].best);
}

StageName Following(StageName stage) { return static_cast<StageName>(static_cast<size_t>(stage) + 1); }

// What a worker is busy with when `last` is the last stage known to be over.
StageName OpenStage(StageName last) {
  StageName next = Following(last);
  while (!IsExpectedStage(next)) next = Following(next);
  return next;
}

// Known ends in order, without that of the image stage.
std::vector<StageName> KnownStages(const WorkerMoments& moments) {
  std::vector<StageName> known;
  for (size_t i = 0; i < kStageCount; ++i) {
    if (moments.ends[i] && static_cast<StageName>(i) != StageName::kImage) known.push_back(static_cast<StageName>(i));
  }
  return known;
}

// Gives the first `length` of the time after scheduling to the image stage. `spans` ends with the span that it is cut
// from, which may be open.
void CutImageStage(std::vector<StageSpan>& spans, Duration length) {
  StageSpan& rest = spans.back();
  WallTime image_end = ToMillis(rest.begin + length);
  if (rest.end) image_end = std::min(image_end, *rest.end);
  const StageSpan image{StageName::kImage, rest.begin, image_end, StageSource::kEvent, {}};
  rest.begin = image_end;
  spans.insert(spans.end() - 1, image);
}

// Gives the first `length` of the program's own time to the checkpoint stage. The span that it is cut from may be open.
void CutCheckpointStage(std::vector<StageSpan>& spans, Duration length) {
  const auto rest = std::find_if(spans.begin(), spans.end(),
                                 [](const StageSpan& span) { return span.stage > StageName::kCheckpoint; });
  if (rest == spans.end() || rest == spans.begin()) return;  // the containers have not started
  WallTime checkpoint_end = ToMillis(rest->begin + length);
  if (rest->end) checkpoint_end = std::min(checkpoint_end, *rest->end);
  const StageSpan checkpoint{StageName::kCheckpoint, rest->begin, checkpoint_end, StageSource::kMount, {}};
  rest->begin = checkpoint_end;
  spans.insert(rest, checkpoint);
}

}  // namespace

bool IsExpectedStage(StageName stage) {
  return stage != StageName::kDependencies && stage != StageName::kCheckpoint && stage != StageName::kCommunicatorReady;
}

Moment ExactMoment(WallTime at, StageSource source) { return Moment{at, at, at, source}; }

Moment SecondMoment(WallTime at, std::optional<WallTime> observed, StageSource source) {
  const WallTime latest = at + std::chrono::seconds(1) - std::chrono::nanoseconds(1);
  if (!observed || *observed > latest + kWatchLag) return Moment{at, at, latest, source};
  // The change came before we saw it, so what we saw bounds it.
  const WallTime seen = std::clamp(*observed, at, latest);
  return Moment{at, seen, seen, source};
}

Moment PreferEarlierReport(const Moment& moment, std::optional<WallTime> reported) {
  // Reports are cut to milliseconds, so one may lie just before the window that it came from.
  if (!reported || *reported < ToMillis(moment.earliest) || *reported > moment.latest) return moment;
  const WallTime at = std::max(*reported, moment.earliest);
  return Moment{moment.earliest, at, moment.latest, moment.source};
}

std::vector<StageSpan> ComputeStages(const WorkerMoments& moments) {
  const std::vector<StageName> known = KnownStages(moments);
  std::vector<Moment> chain = {moments.start};
  for (const StageName stage : known) chain.push_back(*moments.end(stage));
  NarrowFromTheEnd(chain);
  KeepOrder(chain);

  std::vector<StageSpan> spans;
  StageName next = StageName::kQueued;
  const auto add = [&](StageName stage, WallTime begin, std::optional<WallTime> end, StageSource source) {
    StageSpan span{stage, ToMillis(begin), end ? std::optional(ToMillis(*end)) : std::nullopt, source, {}};
    bool has_image = false;
    for (; next < stage; next = Following(next)) {
      if (next == StageName::kImage && moments.image_time) {
        has_image = true;
      } else if (IsExpectedStage(next)) {
        span.contains.push_back(next);
      }
    }
    next = Following(stage);
    spans.push_back(std::move(span));
    if (has_image && spans.size() > 1) CutImageStage(spans, *moments.image_time);
  };
  for (size_t i = 0; i < known.size(); ++i) add(known[i], chain[i].best, chain[i + 1].best, chain[i + 1].source);

  if (known.empty()) {
    add(StageName::kQueued, moments.start.best, std::nullopt, StageSource::kPodCondition);
  } else if (known.back() != StageName::kFirstStep) {
    StageName open = OpenStage(known.back());
    if (open == StageName::kImage && moments.image_time) open = StageName::kContainerStart;
    add(open, chain.back().best, std::nullopt, StageSource::kPodCondition);
    spans.back().contains.clear();  // it is not over: nothing is missing yet
  }
  if (moments.checkpoint_time && !moments.end(StageName::kCheckpoint)) {
    CutCheckpointStage(spans, *moments.checkpoint_time);
  }
  return spans;
}

std::optional<Duration> StartupTime(const std::vector<StageSpan>& spans) {
  if (spans.empty() || spans.back().stage != StageName::kFirstStep || !spans.back().end) return std::nullopt;
  return *spans.back().end - spans.front().begin;
}

}  // namespace paceline::operator_
