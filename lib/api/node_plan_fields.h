// The fields of NodePlan. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/image_figures_fields.h"
#include "lib/api/incident_fields.h"
#include "lib/api/meta_fields.h"
#include "lib/api/node_plan.h"
#include "lib/api/node_probe_fields.h"

namespace paceline::api {

template <>
struct EnumTable<ImageState> {
  static constexpr std::pair<ImageState, std::string_view> kEntries[] = {{ImageState::kPending, "Pending"},
                                                                         {ImageState::kFetching, "Fetching"},
                                                                         {ImageState::kReady, "Ready"},
                                                                         {ImageState::kFailed, "Failed"}};
};

template <>
struct EnumTable<DependencyState> {
  static constexpr std::pair<DependencyState, std::string_view> kEntries[] = {
      {DependencyState::kRestored, "Restored"},
      {DependencyState::kInstalling, "Installing"},
      {DependencyState::kRecording, "Recording"},
      {DependencyState::kRecorded, "Recorded"},
      {DependencyState::kNotRecorded, "NotRecorded"}};
};

template <>
struct EnumTable<InstallCause> {
  static constexpr std::pair<InstallCause, std::string_view> kEntries[] = {
      {InstallCause::kNotCacheable, "NotCacheable"},
      {InstallCause::kNoStore, "NoStore"},
      {InstallCause::kNoSnapshot, "NoSnapshot"},
      {InstallCause::kSnapshotEnded, "SnapshotEnded"},
      {InstallCause::kStoreUnavailable, "StoreUnavailable"},
      {InstallCause::kDamaged, "Damaged"},
      {InstallCause::kNotTrusted, "NotTrusted"},
      {InstallCause::kQuarantined, "Quarantined"},
      {InstallCause::kNotMounted, "NotMounted"}};
};

template <typename V>
void Fields(V& v, const PlannedImage*) {
  using T = PlannedImage;
  v.Field("reference", &T::reference, {.doc = "The image as pods name it.", .required = true, .max_length = 1024});
  v.Field("profile", &T::profile, {.doc = "Which hot set. Empty means \"default\".", .max_length = 63});
  v.Field("priority", &T::priority, {.doc = "Higher is fetched first."});
}

template <typename V>
void Fields(V& v, const PlannedJob*) {
  using T = PlannedJob;
  v.Field("namespace", &T::ns, {.doc = "Namespace of the job.", .required = true, .max_length = 63});
  v.Field("name", &T::name, {.doc = "Name of the job.", .required = true, .max_length = 253});
  v.Field("uid", &T::uid, {.doc = "UID of the job.", .required = true, .max_length = 64});
  v.Field("run", &T::run, {.doc = "Name of the TrainingRun, in the same namespace.", .max_length = 253});
  v.Field("traced", &T::traced, {.doc = "Keep the traces of its ranks on this node."});
}

template <typename V>
void Fields(V& v, const PlanPeer*) {
  using T = PlanPeer;
  v.Field("node", &T::node, {.doc = "Name of the peer's node.", .required = true, .max_length = 253});
  v.Field("address", &T::address, {.doc = "host:port where it gives chunks.", .required = true, .max_length = 263});
}

template <typename V>
void Fields(V& v, const NodePlanSpec*) {
  using T = NodePlanSpec;
  v.Field("images", &T::images, {.doc = "Images to have warm.", .max_items = 256});
  // Atomic: of a keyed list the server, when an apply takes the last entry out, leaves nothing, and of the spec null.
  v.Field("jobs", &T::jobs, {.doc = "Jobs with pods on the node.", .max_items = 1024});
  // Atomic for the same reason.
  v.Field("peers", &T::peers,
          {.doc = "Nodes to ask for chunks of lazy images.", .max_items = static_cast<int64_t>(kMaxPlanPeers)});
  v.Field("probe", &T::probe,
          {.doc = "A probe that is asked for. Taken only while no pod of a training run is on the node."});
}

template <typename V>
void Fields(V& v, const NodeFacts*) {
  using T = NodeFacts;
  v.Field("kernel", &T::kernel, {.doc = "Kernel release."});
  v.Field("osImage", &T::os_image, {.doc = "Name of the operating system."});
  v.Field("architecture", &T::architecture, {.doc = "Machine architecture, as in image platforms."});
  v.Field("erofs", &T::erofs, {.doc = "The kernel mounts EROFS."});
  v.Field("erofsFileBacked", &T::erofs_file_backed, {.doc = "The kernel mounts EROFS straight from a file."});
  v.Field("fuse", &T::fuse, {.doc = "FUSE is there."});
  v.Field("containerd", &T::containerd, {.doc = "Version of containerd."});
  v.Field("nvidiaDriver", &T::nvidia_driver, {.doc = "Version of the NVIDIA driver; absent without one."});
  v.Field("gpus", &T::gpus, {.doc = "How many GPUs the driver reports.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const PlannedImageStatus*) {
  using T = PlannedImageStatus;
  v.Field("reference", &T::reference, {.doc = "The image as the spec names it.", .required = true});
  v.Field("state", &T::state, {.doc = "How far it is.", .required = true});
  v.Field("bytesFetched", &T::bytes_fetched, {.doc = "Bytes fetched for it.", .minimum = 0});
  v.Field("message", &T::message, {.doc = "Why it failed."});
}

template <typename V>
void Fields(V& v, const ImageReport*) {
  using T = ImageReport;
  v.Field("image", &T::image, {.doc = "The image as the runtime pulled it.", .required = true, .max_length = 1024});
  v.Field("manifest", &T::manifest, {.doc = "Digest of the platform's manifest.", .max_length = 71});
  v.Field("mode", &T::mode, {.doc = "Lazy: opened from its block image. Pulled: pulled whole.", .required = true});
  v.Field("reason", &T::reason, {.doc = "Why it was pulled: NotConverted, or what went wrong.", .max_length = 64});
  v.Field("message", &T::message,
          {.doc = "The same for people.", .max_length = static_cast<int64_t>(kMaxImageMessageBytes)});
  v.Field("askedAt", &T::asked_at, {.doc = "When the runtime asked for it."});
  v.Field("readyAt", &T::ready_at, {.doc = "When a container of it could be made first."});
  v.Field("store", &T::store, {.doc = "Where its block image is.", .max_length = 1024});
  v.Field("hotSet", &T::hot_set, {.doc = "What the node has of its hot set."});
  v.Field("hotSetChunks", &T::hot_set_chunks,
          {.doc = "Chunks that the hot set names.", .omit_zero = true, .minimum = 0});
  v.Field("hotSetBytes", &T::hot_set_bytes, {.doc = "Stored bytes of these.", .omit_zero = true, .minimum = 0});
  v.Field("hotSetDigest", &T::hot_set_digest, {.doc = "Digest of the hot set.", .max_length = 71});
  v.Field("figures", &T::figures, {.doc = "What was read of a lazy image since it was opened, and what it cost."});
}

template <typename V>
void Fields(V& v, const PodStage*) {
  using T = PodStage;
  v.Field("name", &T::name, {.doc = "Name of the stage, as the program wrote it.", .required = true, .max_length = 64});
  v.Field("at", &T::at, {.doc = "When the program reached it."});
  v.Field("traced", &T::is_traced,
          {.doc = "Seen in the traces of its collectives, not written by it.", .omit_zero = true});
}

template <typename V>
void Fields(V& v, const PodMount*) {
  using T = PodMount;
  v.Field("volume", &T::volume, {.doc = "Name of the volume in the pod's spec.", .required = true, .max_length = 63});
  v.Field("state", &T::state,
          {.doc = "Mounted; Restarting: its process died and is started again; Failed; Unknown: paceline-holder does "
                  "not answer.",
           .max_length = 32});
  v.Field("message", &T::message,
          {.doc = "What a person should know about it.", .max_length = static_cast<int64_t>(kMaxMountMessageBytes)});
  v.Field("restarts", &T::restarts, {.doc = "How often its process was started again.", .minimum = 0});
  v.Field("readBytes", &T::read_bytes, {.doc = "Bytes read through it.", .minimum = 0});
  v.Field("writtenBytes", &T::written_bytes, {.doc = "Bytes written through it.", .minimum = 0});
  v.Field("firstReadAt", &T::first_read_at, {.doc = "When its first byte was read."});
  v.Field("lastReadAt", &T::last_read_at,
          {.doc = "The last byte of the reading at the start: before the first pause of a minute."});
}

template <typename V>
void Fields(V& v, const PodDependencies*) {
  using T = PodDependencies;
  constexpr auto kLongestReason = static_cast<int64_t>(kMaxDependencyReasonBytes);
  v.Field("key", &T::key, {.doc = "Key of the snapshot; absent when there can be none.", .max_length = 64});
  v.Field("state", &T::state,
          {.doc = "Restored from a snapshot, or installed, and how far the recording of that is.", .required = true});
  v.Field("cause", &T::cause, {.doc = "Why they were not restored, for programs."});
  v.Field("reason", &T::reason, {.doc = "The cause as a sentence.", .max_length = kLongestReason});
  v.Field("notRecorded", &T::not_recorded, {.doc = "Why the install was not recorded.", .max_length = kLongestReason});
  v.Field("at", &T::at, {.doc = "When it was decided whether to restore them."});
  v.Field("seconds", &T::seconds, {.doc = "What finding and mounting took, or the install.", .minimum = 0});
  v.Field("digest", &T::digest, {.doc = "Manifest of the snapshot that was restored or recorded.", .max_length = 71});
  v.Field("sizeBytes", &T::size_bytes, {.doc = "Bytes of its files.", .omit_zero = true, .minimum = 0});
  v.Field("storedBytes", &T::stored_bytes,
          {.doc = "Bytes that it takes in the store, shared ones included.", .omit_zero = true, .minimum = 0});
  v.Field("recordedAt", &T::recorded_at, {.doc = "When it was recorded."});
  v.Field("expiresAt", &T::expires_at, {.doc = "When it ends."});
  v.Field("serviceAccount", &T::service_account, {.doc = "Service account of the pod.", .max_length = 253});
  v.Field("quarantined", &T::quarantined,
          {.doc = "Why the agent has put the snapshot aside; absent when it has not.", .max_length = kLongestReason});
  v.Field("quarantinedAt", &T::quarantined_at, {.doc = "When it did."});
}

template <typename V>
void Fields(V& v, const PodReport*) {
  using T = PodReport;
  v.Field("uid", &T::uid, {.doc = "UID of the pod.", .required = true, .max_length = 64});
  v.Field("namespace", &T::ns, {.doc = "Namespace of the pod.", .max_length = 63});
  v.Field("name", &T::name, {.doc = "Name of the pod.", .max_length = 253});
  v.Field("volumePublishedAt", &T::volume_published_at, {.doc = "When its stage volume was mounted."});
  v.Field("stages", &T::stages,
          {.doc = "What it wrote to /run/paceline/stage, the first line of each name.",
           .max_items = static_cast<int64_t>(kMaxPodStages)});
  v.Field("mounts", &T::mounts, {.doc = "Its volumes of type hdfs.", .max_items = static_cast<int64_t>(kMaxPodMounts)});
  v.Field("dependencies", &T::dependencies, {.doc = "What became of the dependencies that it installs."});
}

template <typename V>
void Fields(V& v, const TraceAlert*) {
  using T = TraceAlert;
  v.Field("kind", &T::kind, {.doc = "What goes on.", .required = true});
  v.Field("at", &T::at, {.doc = "When it was first seen."});
  v.Field("rank", &T::rank, {.doc = "Rank in the world that shows it; -1 for no single one.", .minimum = -1});
  v.Field("detail", &T::detail, {.doc = "What was seen.", .max_length = static_cast<int64_t>(kMaxAlertDetailBytes)});
}

template <typename V>
void Fields(V& v, const TracedRun*) {
  using T = TracedRun;
  v.Field("namespace", &T::ns, {.doc = "Namespace of the run.", .max_length = 63});
  v.Field("run", &T::run, {.doc = "Name of the TrainingRun.", .required = true, .max_length = 253});
  v.Field("processes", &T::processes, {.doc = "Processes on this node that write traces.", .minimum = 0});
  v.Field("alerts", &T::alerts,
          {.doc = "What is wrong with it, as long as it is.", .max_items = static_cast<int64_t>(kMaxTraceAlerts)});
}

template <typename V>
void Fields(V& v, const NodePlanStatus*) {
  using T = NodePlanStatus;
  v.Field("agentVersion", &T::agent_version, {.doc = "Version of the agent."});
  v.Field("agentAddress", &T::agent_address,
          {.doc = "host:port where the operator asks the agent for traces.", .max_length = 263});
  v.Field("peerAddress", &T::peer_address,
          {.doc = "host:port where other nodes ask for chunks of lazy images; absent: the node shares none.",
           .max_length = 263});
  v.Field("observedGeneration", &T::observed_generation,
          {.doc = "The metadata.generation that the agent works on.", .omit_zero = true, .minimum = 0});
  v.Field("heartbeat", &T::heartbeat, {.doc = "When the agent last wrote this status."});
  v.Field("facts", &T::facts, {.doc = "What the node can do."});
  v.Field("images", &T::images, {.doc = "The planned images on this node.", .max_items = 256});
  v.Field("imageReports", &T::image_reports,
          {.doc = "Images that the node was asked for lately and how they came there, newest last.",
           .max_items = static_cast<int64_t>(kMaxImageReports)});
  v.Field("pods", &T::pods,
          {.doc = "Pods of the node that have a volume of Paceline, and for a while those that had one.",
           .max_items = static_cast<int64_t>(kMaxPodReports),
           .list = ListType::kMap,
           .list_key = "uid"});
  v.Field(
      "traces", &T::traces,
      {.doc = "Runs whose processes on this node write traces.", .max_items = static_cast<int64_t>(kMaxTracedRuns)});
  v.Field("probe", &T::probe, {.doc = "What the last probe of the node found."});
  v.Field("conditions", &T::conditions, kConditionsField);
}

template <typename V>
void Fields(V& v, const NodePlan*) {
  using T = NodePlan;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata; the name is the node's."});
  v.Field("spec", &T::spec, {.doc = "What the node is to do. Written by the operator.", .required = true});
  v.Field("status", &T::status, {.doc = "What the node says. Written by its agent."});
}

}  // namespace paceline::api
