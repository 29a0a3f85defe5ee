// What Kubernetes and the node's agent tell about one worker, read from its pod, the pod's events, our own watch and
// the markers, and turned into the instants that stages.h lays end to end.
//
// Where times come from, and how exact each is: docs/formats/stage-marker.md and docs/decisions/0006-stage-times.md.
// Pure; callers: the run reconciler.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/node_plan.h"
#include "lib/api/training_run.h"
#include "lib/kube/views.h"
#include "operator/training_run/stages.h"

namespace paceline::operator_ {

// When our own watch showed a change first. Empty: before our time, or not yet.
struct ObservedTimes {
  std::optional<WallTime> created;
  std::optional<WallTime> scheduled;
  std::optional<WallTime> started;

  friend bool operator==(const ObservedTimes&, const ObservedTimes&) = default;
};

// A stage as the node's agent reports it: a line of the pod's stage file, or what its traces show.
struct Marker {
  std::string name;
  WallTime at;
  api::StageSource source = api::StageSource::kMarker;  // or kTracer
};

using EventPointer = std::shared_ptr<const kube::EventView>;

struct WorkerInput {
  std::shared_ptr<const kube::PodView> pod;  // never null
  std::vector<EventPointer> events;          // of this pod (by uid), in any order
  ObservedTimes observed;
  std::vector<Marker> markers;
  std::vector<api::PodMount> mounts;                            // its checkpoint volumes
  std::shared_ptr<const std::vector<api::ImageReport>> images;  // of its node's snapshotter; null: none reports
  std::optional<api::PodDependencies> dependencies;
  std::string marker_absence;  // why there cannot be markers ("no agent on node a"); empty: there can
  std::optional<int64_t> rank;
};

// The instant of an event to better than a second, where the event says it: eventTime, or the nanoseconds that
// client-go puts into the name of the first event of a series. Empty when neither is there or they contradict
// firstTimestamp.
std::optional<WallTime> EventInstant(const kube::EventView& event);

// All pulls of the pod's images together, overlaps counted once: zero when all were on the node. Empty until every
// container has its Pulled event, and for good when one got lost.
std::optional<Duration> ImageTime(const WorkerInput& worker);

// `reported` are the times of the same pod in the run's status, or null: they fill in what has expired since.
WorkerMoments MomentsOf(const WorkerInput& worker, const Moment& start, const api::WorkerTimes* reported);

// True when the pod's containers have all started at least once.
bool HasStarted(const kube::PodView& pod);
bool IsFinished(const kube::PodView& pod);  // Succeeded or Failed

// When the container's process started first, in whole seconds; empty when it has not.
std::optional<WallTime> FirstStart(const kube::ContainerStatus& status);

}  // namespace paceline::operator_
