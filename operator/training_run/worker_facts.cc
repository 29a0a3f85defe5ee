#include "operator/training_run/worker_facts.h"

#include <algorithm>
#include <charconv>

#include "lib/base/units.h"

namespace paceline::operator_ {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

bool IsWithinSecond(WallTime at, WallTime second) { return at >= second && at < second + kSecond; }

// client-go names an event "<object>.<nanoseconds since 1970 in hex>".
std::optional<WallTime> InstantInName(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view hex = name.substr(dot + 1);
  uint64_t nanos = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), nanos, 16);
  if (error != std::errc() || end != hex.data() + hex.size()) return std::nullopt;
  if (nanos > static_cast<uint64_t>(Duration::max().count())) return std::nullopt;
  return WallTime(Duration(static_cast<int64_t>(nanos)));
}

// The container's name in "spec.containers{main}" or "spec.initContainers{setup}"; empty for others.
std::string_view ContainerOf(const kube::EventView& event) {
  const std::string_view path = event.involved_object.field_path;
  const size_t open = path.find('{');
  if (open == std::string_view::npos || path.back() != '}') return {};
  return path.substr(open + 1, path.size() - open - 2);
}

// The first event of that reason, for one container when `container` is not empty.
const kube::EventView* FirstEvent(const std::vector<EventPointer>& events, std::string_view reason,
                                  std::string_view container = {}) {
  const kube::EventView* first = nullptr;
  for (const EventPointer& event : events) {
    if (event->reason != reason || (!container.empty() && ContainerOf(*event) != container)) continue;
    if (first == nullptr || event->first_time < first->first_time) first = event.get();
  }
  return first;
}

WallTime BestTime(const kube::EventView& event) {
  return EventInstant(event).value_or(event.first_time != kube::kNoTime ? event.first_time : event.When());
}

// "... in 1.2s (3.4s including waiting)": the time with waiting, else the time without.
std::optional<Duration> PullLength(std::string_view message) {
  const size_t in = message.rfind(" in ");
  if (in == std::string_view::npos) return std::nullopt;
  std::string_view rest = message.substr(in + 4);
  if (const size_t open = rest.find('(');
      open != std::string_view::npos && rest.find("including waiting") != std::string_view::npos) {
    rest = rest.substr(open + 1);
  }
  const Result<Duration> length = ParseDuration(rest.substr(0, rest.find_first_of(" ,.()", rest.find('s'))));
  return length.ok() ? std::optional(*length) : std::nullopt;
}

struct Interval {
  WallTime begin, end;
};

std::optional<Interval> PullInterval(const std::vector<EventPointer>& events, std::string_view container) {
  const kube::EventView* pulled = FirstEvent(events, "Pulled", container);
  if (pulled == nullptr) return std::nullopt;
  const WallTime end = BestTime(*pulled);
  const std::string_view message = pulled->message;
  if (message.find("already present") != std::string_view::npos) return Interval{end, end};
  if (const auto length = PullLength(message)) return Interval{end - *length, end};
  const kube::EventView* pulling = FirstEvent(events, "Pulling", container);
  if (pulling == nullptr) return std::nullopt;
  return Interval{std::min(BestTime(*pulling), end), end};
}

Duration UnionLength(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Duration length{};
  WallTime covered = WallTime::min();
  for (const Interval& interval : intervals) {
    const WallTime begin = std::max(interval.begin, covered);
    if (interval.end > begin) length += interval.end - begin;
    covered = std::max(covered, interval.end);
  }
  return length;
}

std::optional<Moment> Scheduled(const WorkerInput& worker) {
  const kube::Condition* condition = kube::FindCondition(worker.pod->status.conditions, "PodScheduled");
  if (condition == nullptr || condition->status != "True" || condition->last_transition_time == kube::kNoTime) {
    return std::nullopt;
  }
  const WallTime second = condition->last_transition_time;
  if (const kube::EventView* event = FirstEvent(worker.events, "Scheduled")) {
    const auto instant = EventInstant(*event);
    if (instant && IsWithinSecond(*instant, second)) return ExactMoment(*instant, StageSource::kEvent);
  }
  return SecondMoment(second, worker.observed.scheduled, StageSource::kPodCondition);
}

std::optional<Moment> ContainerStarted(const WorkerInput& worker, const kube::ContainerStatus& status) {
  const auto second = FirstStart(status);
  const kube::EventView* event = FirstEvent(worker.events, "Started", status.name);
  const auto instant = event == nullptr ? std::nullopt : EventInstant(*event);
  if (!second) return instant ? std::optional(ExactMoment(*instant, StageSource::kEvent)) : std::nullopt;
  // The status forgets all but the last two runs of a container, the event is of the first.
  if (instant && status.restart_count > 0 && *instant < *second) return ExactMoment(*instant, StageSource::kEvent);
  if (instant && *instant >= *second && *instant < *second + 2 * kSecond) {
    // kubelet writes the event just after the runtime started the process.
    const WallTime at = std::min(*instant, *second + kSecond - std::chrono::nanoseconds(1));
    return Moment{*second, at, at, StageSource::kContainerStatus};
  }
  return SecondMoment(*second, worker.observed.started, StageSource::kContainerStatus);
}

// The start of the last container; empty until all have started.
std::optional<Moment> AllStarted(const WorkerInput& worker) {
  const kube::PodView& pod = *worker.pod;
  if (pod.status.containers.empty() || pod.status.containers.size() < pod.spec.containers.size()) return std::nullopt;
  std::optional<Moment> last;
  for (const kube::ContainerStatus& status : pod.status.containers) {
    const auto started = ContainerStarted(worker, status);
    if (!started) return std::nullopt;
    if (!last || started->best > last->best) last = started;
  }
  return last;
}

struct MarkerStage {
  std::string_view marker;
  StageName stage;
};
constexpr MarkerStage kMarkerStages[] = {{"dependencies_ready", StageName::kDependencies},
                                         {"checkpoint_loaded", StageName::kCheckpoint},
                                         {"communicator_ready", StageName::kCommunicatorReady},
                                         {"first_step", StageName::kFirstStep}};

void AddMarkers(const WorkerInput& worker, StageSource source, WorkerMoments& moments) {
  for (const Marker& marker : worker.markers) {
    // A clock that was never set, or a leftover of another pod.
    if (marker.source != source || marker.at < worker.pod->meta.creation_time) continue;
    for (const MarkerStage& known : kMarkerStages) {
      std::optional<Moment>& end = moments.end(known.stage);
      const bool is_better = !end || (end->source == source && marker.at < end->best);
      if (marker.name == known.marker && is_better) end = ExactMoment(marker.at, source);
    }
  }
}

// All directories together: from the first byte of any to the last byte of any.
std::optional<Duration> CheckpointTime(const WorkerInput& worker) {
  std::optional<WallTime> first, last;
  for (const api::PodMount& mount : worker.mounts) {
    if (!mount.first_read_at || !mount.last_read_at || *mount.first_read_at < worker.pod->meta.creation_time) continue;
    first = first ? std::min(*first, *mount.first_read_at) : *mount.first_read_at;
    last = last ? std::max(*last, *mount.last_read_at) : *mount.last_read_at;
  }
  if (!first) return std::nullopt;
  return std::max(*last - *first, Duration::zero());
}

void AddReported(const kube::PodView& pod, const api::WorkerTimes& reported, WorkerMoments& moments) {
  const Moment created = SecondMoment(pod.meta.creation_time, std::nullopt, StageSource::kPodCondition);
  for (const api::WorkerStage& stage : reported.stages) {
    // Pods of some kinds come back under the same name.
    if (stage.name == StageName::kQueued && stage.end &&
        (*stage.end < created.earliest - kSecond || *stage.end > created.latest + kSecond)) {
      return;
    }
    if (!stage.end) continue;
    if (stage.name == StageName::kImage) {
      if (!moments.image_time && stage.start) moments.image_time = *stage.end - *stage.start;
      continue;
    }
    if (stage.name == StageName::kCheckpoint && !moments.end(StageName::kCheckpoint)) {
      if (!moments.checkpoint_time && stage.start) moments.checkpoint_time = *stage.end - *stage.start;
      continue;
    }
    std::optional<Moment>& end = moments.end(stage.name);
    end = end ? PreferEarlierReport(*end, stage.end) : ExactMoment(*stage.end, StageSource::kEvent);
  }
}

}  // namespace

std::optional<WallTime> EventInstant(const kube::EventView& event) {
  if (event.event_time != kube::kNoTime) return event.event_time;
  const auto instant = InstantInName(event.meta.name);
  if (!instant || event.first_time == kube::kNoTime || !IsWithinSecond(*instant, event.first_time)) return std::nullopt;
  return instant;
}

std::optional<Duration> ImageTime(const WorkerInput& worker) {
  std::vector<Interval> intervals;
  const auto add_all = [&](const std::vector<kube::ContainerSpec>& containers) {
    for (const kube::ContainerSpec& container : containers) {
      const auto interval = PullInterval(worker.events, container.name);
      if (!interval) return false;
      intervals.push_back(*interval);
    }
    return true;
  };
  if (worker.pod->spec.containers.empty()) return std::nullopt;
  if (!add_all(worker.pod->spec.init_containers) || !add_all(worker.pod->spec.containers)) return std::nullopt;
  return UnionLength(std::move(intervals));
}

WorkerMoments MomentsOf(const WorkerInput& worker, const Moment& start, const api::WorkerTimes* reported) {
  WorkerMoments moments;
  moments.start = start;
  moments.end(StageName::kQueued) =
      SecondMoment(worker.pod->meta.creation_time, worker.observed.created, StageSource::kPodCondition);
  moments.end(StageName::kScheduling) = Scheduled(worker);
  moments.image_time = ImageTime(worker);
  moments.end(StageName::kContainerStart) = AllStarted(worker);
  // What the program says of itself goes before what its collectives show.
  AddMarkers(worker, StageSource::kMarker, moments);
  AddMarkers(worker, StageSource::kTracer, moments);
  moments.checkpoint_time = CheckpointTime(worker);
  if (reported != nullptr) AddReported(*worker.pod, *reported, moments);
  return moments;
}

std::optional<WallTime> FirstStart(const kube::ContainerStatus& status) {
  std::optional<WallTime> first;
  const auto take = [&first](WallTime at) {
    if (at != kube::kNoTime && (!first || at < *first)) first = at;
  };
  for (const kube::ContainerState* state : {&status.last_state, &status.state}) {
    if (state->running) take(state->running->started_at);
    if (state->terminated) take(state->terminated->started_at);
  }
  return first;
}

bool HasStarted(const kube::PodView& pod) {
  return !pod.status.containers.empty() && pod.status.containers.size() >= pod.spec.containers.size() &&
         std::all_of(pod.status.containers.begin(), pod.status.containers.end(),
                     [](const kube::ContainerStatus& status) { return FirstStart(status).has_value(); });
}

bool IsFinished(const kube::PodView& pod) { return pod.status.phase == "Succeeded" || pod.status.phase == "Failed"; }

}  // namespace paceline::operator_
