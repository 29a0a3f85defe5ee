// NodePlan: what the operator wants one node's agent to do, and what the agent says about its node. The object has the
// node's name. Plain values; codec.h turns them to and from JSON and checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/image_figures.h"
#include "lib/api/incident.h"
#include "lib/api/meta.h"
#include "lib/api/node_probe.h"

namespace paceline::api {

struct PlannedImage {
  std::string reference;  // as pods name it
  std::string profile;    // which hot set; empty: "default"
  int64_t priority = 0;   // higher first; ties in list order
};

struct PlannedJob {
  std::string ns;
  std::string name;
  std::string uid;
  std::string run;      // name of the TrainingRun, in the same namespace
  bool traced = false;  // keep the traces of its ranks
};

// A node that shares chunks of lazy images.
struct PlanPeer {
  std::string node;
  std::string address;  // host:port where its snapshotter gives chunks
};

struct NodePlanSpec {
  std::vector<PlannedImage> images;
  std::vector<PlannedJob> jobs;
  std::vector<PlanPeer> peers;  // at most kMaxPlanPeers, never the node itself
  std::optional<ProbeRequest> probe;
};

// What the node can do, as the agent found it. Absent: not looked at or not there.
struct NodeFacts {
  std::string kernel;
  std::string os_image;
  std::string architecture;
  std::optional<bool> erofs;              // the kernel mounts EROFS
  std::optional<bool> erofs_file_backed;  // ... straight from a file, without a loop device
  std::optional<bool> fuse;
  std::string containerd;     // version
  std::string nvidia_driver;  // version
  std::optional<int64_t> gpus;
};

enum class ImageState { kPending, kFetching, kReady, kFailed };

struct PlannedImageStatus {
  std::string reference;
  ImageState state = ImageState::kPending;
  int64_t bytes_fetched = 0;
  std::string message;
};

// A stage that a pod has reached: a line of its stage file (docs/formats/stage-marker.md), or what its traces show.
struct PodStage {
  std::string name;  // "first_step"
  std::optional<WallTime> at;
  bool is_traced = false;  // from the traces
};

// A volume of type hdfs in a pod.
struct PodMount {
  std::string volume;  // as the pod's spec calls it
  std::string state;   // "Mounted", "Restarting", "Failed", "Unknown"
  std::string message;
  int64_t restarts = 0;  // of the process behind it
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  std::optional<WallTime> first_read_at;  // the reading with which the program started, once it is over
  std::optional<WallTime> last_read_at;
};

// kInstalling: the pod has its directories, and its install is not over. kNotRecorded: it is over, or was never to be
// recorded.
enum class DependencyState { kRestored, kInstalling, kRecording, kRecorded, kNotRecorded };

// Why a pod's dependencies were not restored.
enum class InstallCause {
  kNotCacheable,      // nobody could say the key
  kNoStore,           // the agent knows of no store
  kNoSnapshot,        // none of this key yet
  kSnapshotEnded,     // there is one, and its time is over
  kStoreUnavailable,  // the store did not answer, or refused
  kDamaged,           // what the store gave is not what it should be
  kNotTrusted,        // not signed by anybody who is trusted here
  kQuarantined,       // there is one, and it has been put aside
  kNotMounted,        // found, and not to be mounted
};

// Where a pod stands with the dependencies that it installs or has restored.
struct PodDependencies {
  std::string key;  // of the snapshot; empty: not cacheable
  DependencyState state = DependencyState::kInstalling;
  std::optional<InstallCause> cause;  // absent: restored
  std::string reason;                 // the cause as a sentence
  std::string not_recorded;           // why the install is not recorded
  std::optional<WallTime> at;         // when it was decided whether to restore
  std::optional<double> seconds;      // that finding and mounting took, or the install
  // Of the snapshot that was restored or recorded.
  std::string digest;
  int64_t size_bytes = 0;
  int64_t stored_bytes = 0;
  std::optional<WallTime> recorded_at;
  std::optional<WallTime> expires_at;
  std::string service_account;             // the pod's
  std::string quarantined;                 // why the agent has put the snapshot aside; empty: it has not
  std::optional<WallTime> quarantined_at;  // when

  friend bool operator==(const PodDependencies&, const PodDependencies&) = default;
};

// What the agent saw of a pod that has one of our volumes. Kept for a while after the pod's end.
struct PodReport {
  std::string uid;
  std::string ns;
  std::string name;
  std::optional<WallTime> volume_published_at;  // the stage volume was mounted
  std::vector<PodStage> stages;                 // the first line of each name, in the file's order
  std::vector<PodMount> mounts;
  std::optional<PodDependencies> dependencies;
};

// What the agent has noticed in the traces of a run's processes on its node, for as long as it goes on.
struct TraceAlert {
  TriggerKind kind = TriggerKind::kStall;
  std::optional<WallTime> at;  // when it was first seen
  int64_t rank = -1;           // in the world, that shows it, which is rarely the culprit; -1: no single one
  std::string detail;
};

struct TracedRun {
  std::string ns;
  std::string run;        // name of the TrainingRun
  int64_t processes = 0;  // with a trace ring on this node
  std::vector<TraceAlert> alerts;
};

// How an image that the node was asked for came there, where Paceline's snapshotter sees to it.
struct ImageReport {
  std::string image;     // as the runtime pulled it, "registry.test:5000/train:1"
  std::string manifest;  // digest of the platform's manifest
  ImageMode mode = ImageMode::kPulled;
  std::string reason;                // of kPulled: "NotConverted", "Unavailable", ...
  std::string message;               // likewise, for people
  std::optional<WallTime> asked_at;  // the runtime asked for it
  std::optional<WallTime> ready_at;  // a container of it was made
  std::string store;                 // of kLazy, as what follows
  std::optional<HotSetState> hot_set;
  int64_t hot_set_chunks = 0;
  int64_t hot_set_bytes = 0;
  std::string hot_set_digest;
  std::optional<ImageFigures> figures;
};

inline constexpr size_t kMaxImageReports = 64;
inline constexpr size_t kMaxImageMessageBytes = 1024;
inline constexpr size_t kMaxPlanPeers = 32;
inline constexpr size_t kMaxTracedRuns = 256;
inline constexpr size_t kMaxTraceAlerts = 16;
inline constexpr size_t kMaxAlertDetailBytes = 1024;
inline constexpr size_t kMaxPodReports = 256;
inline constexpr size_t kMaxPodStages = 16;
inline constexpr size_t kMaxPodMounts = 16;
inline constexpr size_t kMaxMountMessageBytes = 1024;
inline constexpr size_t kMaxDependencyReasonBytes = 1024;

struct NodePlanStatus {
  std::string agent_version;
  std::string agent_address;  // host:port of its HTTP interface; empty: not told
  std::string peer_address;   // host:port where its snapshotter gives chunks; empty: it shares none
  int64_t observed_generation = 0;
  std::optional<WallTime> heartbeat;
  std::optional<NodeFacts> facts;
  std::vector<PlannedImageStatus> images;
  std::vector<ImageReport> image_reports;  // newest last
  std::vector<PodReport> pods;
  std::vector<TracedRun> traces;
  std::optional<ProbeStatus> probe;  // absent: none was ever asked for
  std::vector<Condition> conditions;
};

struct NodePlan {
  ObjectMeta metadata;
  NodePlanSpec spec;
  NodePlanStatus status;
};

std::string_view DependencyStateText(DependencyState state);
// "NoSnapshot", as in JSON and in metrics labels.
std::string_view InstallCauseText(InstallCause cause);

}  // namespace paceline::api
