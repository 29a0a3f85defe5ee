// ImageProfile: what is known of one image for one purpose: where its block image is and which parts a start reads.
// Plain values; codec.h turns them to and from JSON and checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/meta.h"

namespace paceline::api {

struct ImageProfileSpec {
  std::string image;     // repository without tag, "registry/team/train"
  std::string digest;    // by which pods run it, "sha256:...": of its manifest, or of its index over several platforms
  std::string platform;  // "linux/amd64"
  std::string profile = "default";
};

// How far the conversion is. kWaiting: for others to end, or for somebody to need it.
enum class ConversionState { kWaiting, kConverting, kReady, kFailed };

// The block image made from the OCI image; immutable.
struct BlockArtifact {
  std::string repository;  // the store's URL
  std::string digest;
  int64_t size_bytes = 0;
};

struct HotSet {
  int64_t version = 0;  // counted up by each merge of records
  std::string digest;   // of the ranges, so that caches can tell versions apart
  int64_t size_bytes = 0;
  int64_t chunks = 0;
  std::string ranges;  // base64 of the compressed list; empty when it lives beside the artifact
};

// What the operator needs to know of its tries.
struct ConversionTries {
  int64_t failures = 0;  // in a row
  std::optional<WallTime> next_try_at;
  std::string last_job_uid;  // of the Job whose end is counted
};

struct ImageProfileStatus {
  std::optional<ConversionState> state;
  std::optional<BlockArtifact> artifact;
  std::string manifest;      // digest of the platform's manifest, which the artifact is bound to
  int64_t source_bytes = 0;  // of the original's layers, as they are pulled
  std::optional<WallTime> converted_at;
  std::optional<ConversionTries> tries;
  std::optional<HotSet> hot_set;
  int64_t starts_seen = 0;
  std::optional<double> coverage;   // share of starts' first reads that the hot set holds, 0 to 1
  std::optional<double> hit_ratio;  // over the latest starts, 0 to 1
  std::optional<WallTime> last_used;
  std::vector<Condition> conditions;
};

struct ImageProfile {
  ObjectMeta metadata;
  ImageProfileSpec spec;
  ImageProfileStatus status;
};

}  // namespace paceline::api
