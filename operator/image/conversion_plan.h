// What is to be done next about the conversion of one image, and what its profile says of it: one pure function of the
// profile's status and the Job that is there, so that a restarted operator goes on where another one was.
// docs/decisions/0021-who-converts-images.md. Caller: the profile reconciler.
#pragma once

#include <optional>
#include <string>

#include "lib/api/advice.h"
#include "lib/api/image_profile.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"

namespace paceline::operator_ {

// What pacectl left; either an image or an error.
struct ConversionReport {
  Status error;
  std::string image, source;  // digests
  int64_t source_bytes = 0, stored_bytes = 0;
  double seconds = 0;
};

enum class ConversionJobEnd { kNone, kSucceeded, kFailed };

// The Job of the profile's name, as the server has it.
struct ConversionJobFacts {
  std::string uid;
  bool is_ours = true;  // owned by this profile, not by one of the same name that is gone
  bool is_being_deleted = false;
  ConversionJobEnd end = ConversionJobEnd::kNone;
  std::optional<ConversionReport> report;
  std::string failure;         // "DeadlineExceeded", "OOMKilled", ...; of kFailed, where somebody told
  std::string failure_detail;  // the end of the container's log, or what Kubernetes says
  std::string waiting;         // why its pod does not run yet
};

struct ConversionInput {
  const api::ImageProfile& profile;
  std::optional<ConversionJobFacts> job;
  std::string store;       // where the artifact has to be
  std::string refused;     // why the Job that was to be made was not accepted
  bool is_wanted = false;  // a job is there whose pods run the image
  bool has_room = true;    // fewer conversions than the limit run
  WallTime now;
};

enum class ConversionStep { kNone, kCreateJob, kDeleteJob };

struct ConversionPlan {
  api::ImageProfileStatus status;
  ConversionStep step = ConversionStep::kNone;  // kDeleteJob: after the status is written
  std::optional<Duration> look_again;
  const api::Advice* news = nullptr;  // the state has changed: to be told to the jobs, with the condition's message
};

// Condition of ImageProfile: True when the block image is there.
inline constexpr std::string_view kConvertedCondition = "Converted";

ConversionPlan PlanConversion(const ConversionInput& input);

// How long after the latest of `failures` failures in a row it is tried again.
Duration ConversionBackoff(int64_t failures, StatusCode code);

}  // namespace paceline::operator_
