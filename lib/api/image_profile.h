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
  std::string image;   // repository without tag, "registry/team/train"
  std::string digest;  // of the platform's manifest, "sha256:..."
  std::string profile = "default";
};

// The block image made from the OCI image; immutable.
struct BlockArtifact {
  std::string repository;
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

struct ImageProfileStatus {
  std::optional<BlockArtifact> artifact;
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
