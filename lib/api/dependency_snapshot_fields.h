// The fields of DependencySnapshot. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/dependency_snapshot.h"
#include "lib/api/fields.h"
#include "lib/api/meta_fields.h"

namespace paceline::api {

template <>
struct EnumTable<SnapshotState> {
  static constexpr std::pair<SnapshotState, std::string_view> kEntries[] = {
      {SnapshotState::kRecording, "Recording"},
      {SnapshotState::kReady, "Ready"},
      {SnapshotState::kExpired, "Expired"},
      {SnapshotState::kFailed, "Failed"},
      {SnapshotState::kQuarantined, "Quarantined"}};
};

template <typename V>
void Fields(V& v, const InputFile*) {
  using T = InputFile;
  v.Field("path", &T::path, {.doc = "The file as the job names it.", .required = true, .max_length = 1024});
  v.Field("sha256", &T::sha256,
          {.doc = "Digest of its contents.",
           .required = true,
           .max_length = 64,
           .pattern = "^[0-9a-f]{64}$",
           .pattern_words = "must be 64 hexadecimal digits"});
}

template <typename V>
void Fields(V& v, const SnapshotInputs*) {
  using T = SnapshotInputs;
  v.Field("imageDigest", &T::image_digest,
          {.doc = "Digest of the manifest of the image's platform.",
           .required = true,
           .max_length = 71,
           .pattern = kDigestPattern,
           .pattern_words = kDigestWords});
  v.Field("architecture", &T::architecture, {.doc = "Machine architecture.", .required = true, .max_length = 64});
  v.Field("gpuDriverMajor", &T::gpu_driver_major,
          {.doc = "Major version of the GPU driver; absent when it does not matter.", .max_length = 16});
  v.Field("cudaVersion", &T::cuda_version, {.doc = "CUDA version; absent when it does not matter.", .max_length = 16});
  v.Field("install", &T::install,
          {.doc = "The install command.", .required = true, .max_length = static_cast<int64_t>(kMaxInstallBytes)});
  v.Field("files", &T::files,
          {.doc = "Input files and their contents' digests, includes too; the first 256.",
           .max_items = static_cast<int64_t>(kMaxSnapshotFiles),
           .list = ListType::kMap,
           .list_key = "path"});
  v.Field("environment", &T::environment,
          {.doc = "Environment variables that are part of the key; the first 64.",
           .max_length = static_cast<int64_t>(kMaxSnapshotTextBytes),
           .max_items = static_cast<int64_t>(kMaxSnapshotVariables)});
  v.Field("capture", &T::capture,
          {.doc = "Directories that are kept.", .max_length = 1024, .max_items = 64, .list = ListType::kSet});
  v.Field("exclude", &T::exclude,
          {.doc = "Patterns that are left out.", .max_length = 1024, .max_items = 64, .list = ListType::kSet});
  v.Field("formatVersion", &T::format_version,
          {.doc = "Version of the snapshot's format.", .defaulted = true, .minimum = 1});
}

template <typename V>
void Fields(V& v, const DependencySnapshotSpec*) {
  using T = DependencySnapshotSpec;
  v.Field("key", &T::key,
          {.doc = "Digest over the inputs and the namespace.",
           .required = true,
           .max_length = 64,
           .pattern = "^[0-9a-f]{64}$",
           .pattern_words = "must be 64 hexadecimal digits"});
  v.Field("inputs", &T::inputs, {.doc = "What the key was computed from.", .required = true});
  v.Field("ttl", &T::ttl, {.doc = "How long the snapshot is good, where the job says so."});
  v.TransitionRule("self.key == oldSelf.key", "a snapshot's key never changes");
}

template <typename V>
void Fields(V& v, const DependencySnapshotStatus*) {
  using T = DependencySnapshotStatus;
  v.Field(
      "state", &T::state,
      {.doc = "Recording: one worker installs and is recorded. Ready: restored from now on. Expired: older than its "
              "ttl. Quarantined: put aside, because what the store holds is damaged or not signed by anybody who is "
              "trusted; the next install is recorded anew. Failed: not usable, see the conditions."});
  v.Field("digest", &T::digest, {.doc = "Digest of the snapshot's manifest."});
  v.Field("sizeBytes", &T::size_bytes, {.doc = "Bytes of its files.", .minimum = 0});
  v.Field("storedBytes", &T::stored_bytes,
          {.doc = "Bytes that it takes in the store, shared ones included.", .omit_zero = true, .minimum = 0});
  v.Field("recordedByRun", &T::recorded_by_run, {.doc = "The TrainingRun whose install was recorded."});
  v.Field("recordedByPod", &T::recorded_by_pod, {.doc = "Its pod."});
  v.Field("recordedByNode", &T::recorded_by_node, {.doc = "The pod's node."});
  v.Field("recordedByServiceAccount", &T::recorded_by_service_account, {.doc = "The pod's service account."});
  v.Field("recordedAt", &T::recorded_at, {.doc = "When."});
  v.Field("expiresAt", &T::expires_at, {.doc = "When the ttl ends."});
  v.Field("lastUsed", &T::last_used, {.doc = "When it was last restored."});
  v.Field("uses", &T::uses, {.doc = "How many runs restored it.", .minimum = 0});
  v.Field("recentRuns", &T::recent_runs,
          {.doc = "The latest runs that are counted in uses.", .max_items = static_cast<int64_t>(kMaxRecentRuns)});
  v.Field("conditions", &T::conditions, kConditionsField);
}

template <typename V>
void Fields(V& v, const DependencySnapshot*) {
  using T = DependencySnapshot;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata."});
  v.Field("spec", &T::spec, {.doc = "What the snapshot is of.", .required = true});
  v.Field("status", &T::status, {.doc = "Whether it can be used."});
}

}  // namespace paceline::api
