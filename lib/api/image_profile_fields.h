// The fields of ImageProfile. Internal to lib/api; see fields.h.
#pragma once

#include "lib/api/fields.h"
#include "lib/api/image_profile.h"
#include "lib/api/meta_fields.h"

namespace paceline::api {

template <>
struct EnumTable<ConversionState> {
  static constexpr std::pair<ConversionState, std::string_view> kEntries[] = {
      {ConversionState::kWaiting, "Waiting"},
      {ConversionState::kConverting, "Converting"},
      {ConversionState::kReady, "Ready"},
      {ConversionState::kFailed, "Failed"}};
};

template <typename V>
void Fields(V& v, const ImageProfileSpec*) {
  using T = ImageProfileSpec;
  v.Field("image", &T::image,
          {.doc = "Repository of the image, without tag and digest.", .required = true, .max_length = 1024});
  v.Field(
      "digest", &T::digest,
      {.doc = "Digest by which pods run the image: of its manifest, or of its index where it is for several platforms.",
       .required = true,
       .max_length = 71,
       .pattern = kDigestPattern,
       .pattern_words = kDigestWords});
  v.Field("platform", &T::platform, {.doc = "The platform meant, such as linux/amd64.", .max_length = 63});
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
  v.Field("repository", &T::repository,
          {.doc = "The store that the block image is in.", .required = true, .max_length = 1024});
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
void Fields(V& v, const ConversionTries*) {
  using T = ConversionTries;
  v.Field("failures", &T::failures, {.doc = "Tries that failed, since the last that did not.", .minimum = 0});
  v.Field("nextTryAt", &T::next_try_at, {.doc = "When it is tried again, while a job needs it."});
  v.Field("lastJobUid", &T::last_job_uid, {.doc = "UID of the Job of the last try that ended.", .max_length = 64});
}

template <typename V>
void Fields(V& v, const ImageProfileStatus*) {
  using T = ImageProfileStatus;
  v.Field("state", &T::state, {.doc = "How far the conversion is; absent when nobody has asked for one."});
  v.Field("artifact", &T::artifact, {.doc = "The block image; absent until there is one."});
  v.Field("manifest", &T::manifest,
          {.doc = "Digest of the platform's manifest, which the block image belongs to.", .max_length = 71});
  v.Field("sourceBytes", &T::source_bytes,
          {.doc = "Bytes of the original's layers, as they are pulled.", .omit_zero = true, .minimum = 0});
  v.Field("convertedAt", &T::converted_at, {.doc = "When the conversion was seen to be there."});
  v.Field("tries", &T::tries, {.doc = "Tries to convert that failed."});
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
