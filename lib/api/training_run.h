// TrainingRun: one start of a training job of any kind, and where its time went. Written by the operator, kept after
// the end. Plain values; codec.h turns them to and from JSON and checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/image_figures.h"
#include "lib/api/meta.h"

namespace paceline::api {

// The job that a run is a start of, whatever its kind.
struct JobReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;

  friend bool operator==(const JobReference&, const JobReference&) = default;
};

struct TrainingRunSpec {
  JobReference job;
  std::string gang;        // which gang of the job, for kinds with several (LeaderWorkerSet's group); else empty
  int64_t generation = 0;  // which start of the job
  std::optional<int64_t> workers;     // pods of the gang, where the job says it
  std::optional<int64_t> world_size;  // processes of the gang, where the job says it
};

// kPending: no pod is scheduled yet. kStarting: until the first step (or, where nobody can see steps, until all
// containers run). kUnknown: the pods are gone and nobody saw how they ended.
enum class RunPhase { kPending, kStarting, kRunning, kSucceeded, kFailed, kUnknown };

// In the order in which a worker goes through them; a stage that a job does not use is absent.
enum class StageName {
  kQueued,             // job created or resumed, pods not yet created or not yet admitted by a queue
  kScheduling,         // pod created, no node yet
  kImage,              // node known, until the images are there
  kContainerStart,     // images there, until the process of the last container started; volumes included
  kDependencies,       // install or restore of dependencies
  kCheckpoint,         // first to last checkpoint byte read
  kCommunicatorReady,  // process started, until the first communicator is up
  kFirstStep,          // until the first collective or the user's marker
};

// Where a stage's times come from, best first for the same stage.
enum class StageSource { kMarker, kTracer, kMount, kCsi, kContainerStatus, kPodCondition, kEvent };

inline constexpr size_t kMaxWorkerTimes = 256;  // entries of RunStatus.workers; the summary covers all workers
inline constexpr size_t kMaxRunNodes = 4096;    // entries of RunStatus.nodes
inline constexpr size_t kMaxRunFallbacks = 64;

// One stage over all workers of the run.
struct Stage {
  StageName name = StageName::kQueued;
  std::optional<WallTime> start;  // earliest start of any worker
  std::optional<WallTime> end;    // latest end of any worker; absent while a worker is in it
  std::optional<double> min_seconds;
  std::optional<double> p50_seconds;
  std::optional<double> max_seconds;
  int64_t workers = 0;  // how many workers these numbers cover
  std::string slowest_pod;
  std::string slowest_node;
  std::optional<StageSource> source;
};

struct WorkerStage {
  StageName name = StageName::kQueued;
  std::optional<WallTime> start;
  std::optional<WallTime> end;
};

// kInstalled: there was no snapshot to restore. kFellBack: there may have been one, and it could not be used.
enum class SnapshotOutcome { kRestored, kRecorded, kInstalled, kFellBack };

// How a worker came to its dependencies.
struct WorkerDependencies {
  SnapshotOutcome outcome = SnapshotOutcome::kInstalled;
  std::string reason;             // why not restored, and why not recorded
  std::optional<double> seconds;  // that finding and mounting took, or the install; absent: not told

  friend bool operator==(const WorkerDependencies&, const WorkerDependencies&) = default;
};

struct WorkerTimes {
  int64_t rank = 0;
  std::string pod;
  std::string node;
  std::vector<WorkerStage> stages;
  std::optional<WorkerDependencies> dependencies;
};

// Bytes that moved for this run, summed over its nodes.
struct RunBytes {
  int64_t image_from_registry = 0;
  int64_t image_from_peers = 0;
  int64_t image_from_cache = 0;
  int64_t checkpoint_read = 0;
  int64_t checkpoint_written = 0;
};

struct HotSetUse {
  std::string profile;              // name of the ImageProfile
  std::optional<double> hit_ratio;  // reads served by what was prefetched, 0 to 1
};

// How one image of the run came to one of its nodes, where Paceline's snapshotter sees to it.
struct RunImage {
  std::string node;
  std::string image;  // as the pods name it
  ImageMode mode = ImageMode::kPulled;
  bool was_there = false;               // the node had it before this start, so figures count other starts, too
  std::string reason;                   // of kPulled
  std::string message;                  // likewise
  std::optional<double> ready_seconds;  // from the runtime's asking for it until a container could be made
  std::optional<HotSetState> hot_set;
  std::optional<ImageFigures> figures;  // of kLazy
};

inline constexpr size_t kMaxRunImages = 256;

struct SnapshotUse {
  std::string name;  // of the DependencySnapshot; empty when none was involved
  SnapshotOutcome outcome = SnapshotOutcome::kInstalled;
  std::string reason;  // why not restored
};

// A feature that gave way to the ordinary path, and why: lazy image to plain pull, snapshot to install.
struct Fallback {
  std::string feature;
  std::string node;
  std::string reason;
  std::optional<WallTime> at;
};

// A hot restart comes back to nodes that the start before ran on, and finds images and caches there.
enum class StartKind { kFull, kHotRestart };

// What the time before the first step cost: workers hold their nodes and GPUs from the moment they are scheduled.
struct StartupCost {
  StartKind kind = StartKind::kFull;
  double worker_seconds = 0;          // over all workers: scheduled to first step, or to now or the end without one
  std::optional<int64_t> gpus;        // of all workers; absent while one of them has not told
  std::optional<double> gpu_seconds;  // worker_seconds, each times its GPUs; absent as gpus
};

struct TrainingRunStatus {
  std::optional<RunPhase> phase;
  std::vector<std::string> nodes;
  std::vector<Stage> stages;
  std::optional<StartupCost> startup;
  std::vector<WorkerTimes> workers;
  int64_t workers_omitted = 0;   // workers beyond kMaxWorkerTimes
  std::vector<RunImage> images;  // those that were pulled first
  std::optional<RunBytes> bytes;
  std::optional<HotSetUse> hot_set;
  std::optional<SnapshotUse> snapshot;
  std::vector<Fallback> fallbacks;
  std::optional<double> slowdown;        // S: time of a step over the time without stragglers
  std::optional<double> slowdown_error;  // half width of its uncertainty
  std::vector<std::string> incidents;    // names of Incident objects
  std::optional<WallTime> queued_at;
  std::optional<WallTime> started_at;  // first process of any worker
  std::optional<WallTime> first_step_at;
  std::optional<WallTime> finished_at;
  std::optional<double> wall_seconds;  // queued_at to first step, or to now or the end while there is none
  std::vector<Condition> conditions;
};

struct TrainingRun {
  ObjectMeta metadata;
  TrainingRunSpec spec;
  TrainingRunStatus status;
};

// "ContainerStart", as in JSON and in metrics labels.
std::string_view StageNameText(StageName name);
std::string_view RunPhaseText(RunPhase phase);
std::string_view StartKindText(StartKind kind);
std::string_view SnapshotOutcomeText(SnapshotOutcome outcome);

}  // namespace paceline::api
