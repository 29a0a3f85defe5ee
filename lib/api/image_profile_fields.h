// The fields of ImageProfile. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/image_profile.h"
#include "lib/api/meta_fields.h"

namespace paceline::api {

template <typename V>
void Fields(V& v, const ImageProfileSpec*) {
  using T = ImageProfileSpec;
  v.Field("image", &T::image,
          {.doc = "Repository of the image, without tag and digest.", .required = true, .max_length = 1024});
  v.Field("digest", &T::digest,
          {.doc = "Digest of the manifest of one platform.",
           .required = true,
           .max_length = 71,
           .pattern = kDigestPattern,
           .pattern_words = kDigestWords});
  v.Field("profile", &T::profile,
          {.doc = "Which use of the image, for images that start different programs.",
           .defaulted = true,
           .max_length = 63,
           .pattern = kDnsLabelPattern,
           .pattern_words = kDnsLabelWords});
  v.TransitionRule("self == oldSelf", "a profile's spec never changes");
}

template <typename V>
void Fields(V& v, const BlockArtifact*) {
  using T = BlockArtifact;
  v.Field("repository", &T::repository, {.doc = "Where the block image is.", .required = true, .max_length = 1024});
  v.Field("digest", &T::digest,
          {.doc = "Digest of its manifest.",
           .required = true,
           .max_length = 71,
           .pattern = kDigestPattern,
           .pattern_words = kDigestWords});
  v.Field("sizeBytes", &T::size_bytes, {.doc = "Bytes of all its blobs.", .minimum = 0});
}

template <typename V>
void Fields(V& v, const HotSet*) {
  using T = HotSet;
  v.Field("version", &T::version, {.doc = "Counted up when records are merged.", .required = true, .minimum = 1});
  v.Field("digest", &T::digest,
          {.doc = "Digest of the ranges.",
           .required = true,
           .max_length = 71,
           .pattern = kDigestPattern,
           .pattern_words = kDigestWords});
  v.Field("sizeBytes", &T::size_bytes, {.doc = "Bytes that the ranges cover.", .minimum = 0});
  v.Field("chunks", &T::chunks, {.doc = "Chunks that the ranges cover.", .minimum = 0});
  v.Field("ranges", &T::ranges,
          {.doc = "The ranges, compressed, in base64. Absent when they are stored beside the block image.",
           .max_length = 524288});
}

template <typename V>
void Fields(V& v, const ImageProfileStatus*) {
  using T = ImageProfileStatus;
  v.Field("artifact", &T::artifact, {.doc = "The block image; absent until there is one."});
  v.Field("hotSet", &T::hot_set, {.doc = "What starts read; absent until a start was recorded."});
  v.Field("startsSeen", &T::starts_seen, {.doc = "Starts that were recorded.", .minimum = 0});
  v.Field("coverage", &T::coverage,
          {.doc = "Share of a start's reads that the hot set holds.", .minimum = 0, .maximum = 1});
  v.Field("hitRatio", &T::hit_ratio,
          {.doc = "Share of the latest starts' reads that found what was prefetched.", .minimum = 0, .maximum = 1});
  v.Field("lastUsed", &T::last_used, {.doc = "When a container last started from the image."});
  v.Field("conditions", &T::conditions, kConditionsField);
}

template <typename V>
void Fields(V& v, const ImageProfile*) {
  using T = ImageProfile;
  v.Field("metadata", &T::metadata, {.doc = "Standard metadata."});
  v.Field("spec", &T::spec, {.doc = "Which image and which use of it.", .required = true});
  v.Field("status", &T::status, {.doc = "What is known of it."});
}

}  // namespace paceline::api
