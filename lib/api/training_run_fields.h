// The fields of TrainingRun. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/image_figures_fields.h"
#include "lib/api/meta_fields.h"
#include "lib/api/training_run.h"

namespace paceline::api {

template <>
struct EnumTable<RunPhase> {
  static constexpr std::pair<RunPhase, std::string_view> kEntries[] = {
      {RunPhase::kPending, "Pending"},     {RunPhase::kStarting, "Starting"}, {RunPhase::kRunning, "Running"},
      {RunPhase::kSucceeded, "Succeeded"}, {RunPhase::kFailed, "Failed"},     {RunPhase::kUnknown, "Unknown"}};
};

template <>
struct EnumTable<StageName> {
  static constexpr std::pair<StageName, std::string_view> kEntries[] = {
      {StageName::kQueued, "Queued"},
      {StageName::kScheduling, "Scheduling"},
      {StageName::kImage, "Image"},
      {StageName::kContainerStart, "ContainerStart"},
      {StageName::kDependencies, "Dependencies"},
      {StageName::kCheckpoint, "Checkpoint"},
      {StageName::kCommunicatorReady, "CommunicatorReady"},
      {StageName::kFirstStep, "FirstStep"}};
};

template <>
struct EnumTable<StageSource> {
  static constexpr std::pair<StageSource, std::string_view> kEntries[] = {
      {StageSource::kMarker, "Marker"},
      {StageSource::kTracer, "Tracer"},
      {StageSource::kMount, "Mount"},
      {StageSource::kCsi, "CSI"},
      {StageSource::kContainerStatus, "ContainerStatus"},
      {StageSource::kPodCondition, "PodCondition"},
      {StageSource::kEvent, "Event"}};
};

template <>
struct EnumTable<SnapshotOutcome> {
  static constexpr std::pair<SnapshotOutcome, std::string_view> kEntries[] = {
      {SnapshotOutcome::kRestored, "Restored"},
      {SnapshotOutcome::kRecorded, "Recorded"},
      {SnapshotOutcome::kInstalled, "Installed"},
      {SnapshotOutcome::kFellBack, "FellBack"}};
};

template <>
struct EnumTable<StartKind> {
  static constexpr std::pair<StartKind, std::string_view> kEntries[] = {{StartKind::kFull, "Full"},
                                                                        {StartKind::kHotRestart, "HotRestart"}};
};

template <typename V>
void Fields(V& v, const JobReference*) {
  using T = JobReference;
  v.Field("apiVersion", &T::api_version, {.doc = "Group and version of the job.", .required = true, .max_length = 317});
  v.Field("kind", &T::kind, {.doc = "Kind of the job.", .required = true, .max_length = 63});
  v.Field("name", &T::name, {.doc = "Name of the job, in the same namespace.", .required = true, .max_length = 253});
  v.Field("uid", &T::uid, {.doc = "UID of the job.", .required = true, .max_length = 64});
}

template <typename V>
void Fields(V& v, const TrainingRunSpec*) {
  using T = TrainingRunSpec;
  v.Field("job", &T::job, {.doc = "The job that this is a start of.", .required = true});
  v.Field("gang", &T::gang,
          {.doc = "Which gang of the job, for kinds that have several, such as the groups of a LeaderWorkerSet.",
           .max_length = 253});
  v.Field("generation", &T::generation,
          {.doc = "Which start of the job: 0 for the first.", .required = true, .minimum = 0});
  v.Field("workers", &T::workers, {.doc = "Pods of the gang, where the job says how many.", .minimum = 0});
  v.Field("worldSize", &T::world_size, {.doc = "Processes of the gang, where the job says how many.", .minimum = 0});
  v.TransitionRule("self == oldSelf", "a run's spec never changes");
}

template <typename V>
void Fields(V& v, const Stage*) {
  using T = Stage;
  v.Field("name", &T::name, {.doc = "Which stage.", .required = true});
  v.Field("start", &T::start, {.doc = "When the first worker entered it."});
  v.Field("end", &T::end, {.doc = "When the last worker left it; absent while one is in it."});
  v.Field("minSeconds", &T::min_seconds, {.doc = "Shortest time of a worker.", .minimum = 0});
  v.Field("p50Seconds", &T::p50_seconds, {.doc = "Median time of the workers.", .minimum = 0});
  v.Field("maxSeconds", &T::max_seconds, {.doc = "Longest time of a worker.", .minimum = 0});
  v.Field("workers", &T::workers, {.doc = "How many workers these numbers cover.", .minimum = 0});
  v.Field("slowestPod", &T::slowest_pod, {.doc = "The pod of maxSeconds."});
  v.Field("slowestNode", &T::slowest_node, {.doc = "Its node."});
  v.Field("source", &T::source, {.doc = "Where the times come from."});
}

template <typename V>
void Fields(V& v, const WorkerStage*) {
  using T = WorkerStage;
  v.Field("name", &T::name, {.doc = "Which stage.", .required = true});
  v.Field("start", &T::start, {.doc = "When the worker entered it."});
  v.Field("end", &T::end, {.doc = "When the worker left it."});
}

template <typename V>
void Fields(V& v, const WorkerDependencies*) {
  using T = WorkerDependencies;
  v.Field("outcome", &T::outcome,
          {.doc = "Restored; Recorded: installed and recorded; Installed: there was no snapshot; FellBack: there may "
                  "have been one that could not be used.",
           .required = true});
  v.Field("reason", &T::reason, {.doc = "Why they were not restored, and why not recorded."});
  v.Field("seconds", &T::seconds, {.doc = "What finding and mounting took, or the install.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const WorkerTimes*) {
  using T = WorkerTimes;
  v.Field("rank", &T::rank, {.doc = "Place of the worker in its gang.", .required = true, .minimum = 0});
  v.Field("pod", &T::pod, {.doc = "Its pod."});
  v.Field("node", &T::node, {.doc = "The pod's node."});
  v.Field("stages", &T::stages,
          {.doc = "Its stages, in order.", .max_items = 8, .list = ListType::kMap, .list_key = "name"});
  v.Field("dependencies", &T::dependencies, {.doc = "How it came to its dependencies."});
}

template <typename V>
void Fields(V& v, const RunBytes*) {
  using T = RunBytes;
  v.Field("imageFromRegistry", &T::image_from_registry, {.doc = "Image bytes from the registry.", .minimum = 0});
  v.Field("imageFromPeers", &T::image_from_peers, {.doc = "Image bytes from other nodes.", .minimum = 0});
  v.Field("imageFromCache", &T::image_from_cache, {.doc = "Image bytes that the nodes had.", .minimum = 0});
  v.Field("checkpointRead", &T::checkpoint_read, {.doc = "Checkpoint bytes read.", .minimum = 0});
  v.Field("checkpointWritten", &T::checkpoint_written, {.doc = "Checkpoint bytes written.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const HotSetUse*) {
  using T = HotSetUse;
  v.Field("profile", &T::profile, {.doc = "Name of the ImageProfile that was used."});
  v.Field("hitRatio", &T::hit_ratio,
          {.doc = "Share of the reads that found what was prefetched.", .minimum = 0, .maximum = 1});
}

template <typename V>
void Fields(V& v, const RunImage*) {
  using T = RunImage;
  v.Field("node", &T::node, {.doc = "The node.", .required = true, .max_length = 253});
  v.Field("image", &T::image, {.doc = "The image as the pods name it.", .required = true, .max_length = 1024});
  v.Field("mode", &T::mode, {.doc = "Lazy: opened from its block image. Pulled: pulled whole.", .required = true});
  v.Field("wasThere", &T::was_there,
          {.doc = "The node had it before this start; figures then count other starts, too.", .omit_zero = true});
  v.Field("reason", &T::reason, {.doc = "Why it was pulled: NotConverted, or what went wrong.", .max_length = 64});
  v.Field("message", &T::message, {.doc = "The same for people.", .max_length = 1024});
  v.Field("readySeconds", &T::ready_seconds,
          {.doc = "From the runtime's asking for it until a container of it could be made.", .minimum = 0});
  v.Field("hotSet", &T::hot_set, {.doc = "What the node has of its hot set."});
  v.Field("figures", &T::figures, {.doc = "What was read of a lazy image since it was opened, and what it cost."});
}

template <typename V>
void Fields(V& v, const SnapshotUse*) {
  using T = SnapshotUse;
  v.Field("name", &T::name, {.doc = "Name of the DependencySnapshot; absent when none was involved."});
  v.Field(
      "outcome", &T::outcome,
      {.doc = "Restored from it, recorded it, installed without one, or fell back to installing.", .required = true});
  v.Field("reason", &T::reason, {.doc = "Why it was not restored."});
}

template <typename V>
void Fields(V& v, const Fallback*) {
  using T = Fallback;
  v.Field("feature", &T::feature, {.doc = "What gave way to the ordinary path.", .required = true});
  v.Field("node", &T::node, {.doc = "On which node."});
  v.Field("reason", &T::reason, {.doc = "Why.", .required = true});
  v.Field("at", &T::at, {.doc = "When."});
}

template <typename V>
void Fields(V& v, const StartupCost*) {
  using T = StartupCost;
  v.Field("kind", &T::kind,
          {.doc = "Full, or HotRestart: a later start of the job on nodes that the start before ran on.",
           .required = true});
  v.Field("workerSeconds", &T::worker_seconds,
          {.doc = "Over all workers, the time from getting a node to the first step; while there is none, to now or to "
                  "the end.",
           .minimum = 0});
  v.Field("gpus", &T::gpus, {.doc = "GPUs of all workers; absent while one of them has not told.", .minimum = 0});
  v.Field("gpuSeconds", &T::gpu_seconds,
          {.doc = "GPU time held before the first step: workerSeconds, each times its GPUs.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const TrainingRunStatus*) {
  using T = TrainingRunStatus;
  v.Field("phase", &T::phase, {.doc = "How far the run is."});
  v.Field("nodes", &T::nodes,
          {.doc = "Nodes of its pods, sorted; the first 4096.",
           .max_items = static_cast<int64_t>(kMaxRunNodes),
           .list = ListType::kSet});
  v.Field("stages", &T::stages,
          {.doc = "The startup of all workers, stage by stage, in order.",
           .max_items = 8,
           .list = ListType::kMap,
           .list_key = "name"});
  v.Field("startup", &T::startup, {.doc = "What the startup cost."});
  v.Field(
      "workers", &T::workers,
      {.doc = "The startup worker by worker, at most 256: the first ranks, and the slowest of each stage. The stages "
              "above cover all workers.",
       .max_items = static_cast<int64_t>(kMaxWorkerTimes)});
  v.Field("workersOmitted", &T::workers_omitted,
          {.doc = "Workers that the list above leaves out.", .omit_zero = true, .minimum = 0});
  v.Field("images", &T::images,
          {.doc = "How the images came to the nodes, where Paceline's snapshotter runs: those that were pulled first.",
           .max_items = static_cast<int64_t>(kMaxRunImages)});
  v.Field("bytes", &T::bytes, {.doc = "Bytes that moved for this run, over all its nodes."});
  v.Field("hotSet", &T::hot_set, {.doc = "How the recorded hot blocks served this run."});
  v.Field("snapshot", &T::snapshot, {.doc = "What became of the dependency snapshot."});
  v.Field("fallbacks", &T::fallbacks,
          {.doc = "Features that gave way to the ordinary path.", .max_items = static_cast<int64_t>(kMaxRunFallbacks)});
  v.Field("slowdown", &T::slowdown,
          {.doc = "Time of a step over what it would be without stragglers; 1 is none.", .minimum = 0});
  v.Field("slowdownError", &T::slowdown_error, {.doc = "Half width of the uncertainty of slowdown.", .minimum = 0});
  v.Field("incidents", &T::incidents, {.doc = "Names of the run's Incidents, latest last.", .max_items = 64});
  v.Field("queuedAt", &T::queued_at, {.doc = "When the start was asked for."});
  v.Field("startedAt", &T::started_at, {.doc = "When the first process of any worker started."});
  v.Field("firstStepAt", &T::first_step_at, {.doc = "When all workers had taken their first step."});
  v.Field("finishedAt", &T::finished_at, {.doc = "When the last worker ended."});
  v.Field("wallSeconds", &T::wall_seconds,
          {.doc = "From queuedAt to firstStepAt; while there is none, to now or to the end.", .minimum = 0});
  v.Field("conditions", &T::conditions, kConditionsField);
}

template <typename V>
void Fields(V& v, const TrainingRun*) {
  using T = TrainingRun;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata."});
  v.Field("spec", &T::spec, {.doc = "Which start of which job.", .required = true});
  v.Field("status", &T::status, {.doc = "Where its time went."});
}

}  // namespace paceline::api
