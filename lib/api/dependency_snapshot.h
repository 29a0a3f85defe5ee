// DependencySnapshot: the recorded result of an install command, found again by the inputs that decided it. Namespaced,
// because tenants never share one. Plain values; codec.h turns them to and from JSON and checks them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/api/meta.h"

namespace paceline::api {

struct InputFile {
  std::string path;
  std::string sha256;
};

// Everything that the key is computed from, kept readable so that a miss can be explained.
struct SnapshotInputs {
  std::string image_digest;  // of the platform's manifest
  std::string architecture;
  std::string gpu_driver_major;  // empty: not part of the key
  std::string cuda_version;      // empty: not part of the key
  std::string install;
  std::vector<InputFile> files;
  std::map<std::string, std::string> environment;
  std::vector<std::string> capture;
  std::vector<std::string> exclude;
  int64_t format_version = 1;
};

struct DependencySnapshotSpec {
  std::string key;  // hex digest over the inputs and the namespace
  SnapshotInputs inputs;
  std::optional<Duration> ttl;
};

inline constexpr size_t kMaxSnapshotFiles = 256;
inline constexpr size_t kMaxSnapshotVariables = 64;
inline constexpr size_t kMaxSnapshotPaths = 64;        // of capture and of exclude
inline constexpr size_t kMaxSnapshotTextBytes = 4096;  // of a variable
inline constexpr size_t kMaxInstallBytes = 16384;
inline constexpr size_t kMaxRecentRuns = 256;

enum class SnapshotState { kRecording, kReady, kExpired, kFailed, kQuarantined };

struct DependencySnapshotStatus {
  std::optional<SnapshotState> state;
  std::string digest;  // of the snapshot's manifest
  int64_t size_bytes = 0;
  int64_t stored_bytes = 0;
  std::string recorded_by_run;
  std::string recorded_by_pod;
  std::string recorded_by_node;
  std::string recorded_by_service_account;
  std::optional<WallTime> recorded_at;
  std::optional<WallTime> expires_at;
  std::optional<WallTime> last_used;
  int64_t uses = 0;                      // runs
  std::vector<std::string> recent_runs;  // that are counted in `uses`, latest last
  std::vector<Condition> conditions;
};

struct DependencySnapshot {
  ObjectMeta metadata;
  DependencySnapshotSpec spec;
  DependencySnapshotStatus status;
};

// "Ready", as in JSON and in metrics labels.
std::string_view SnapshotStateText(SnapshotState state);

}  // namespace paceline::api
