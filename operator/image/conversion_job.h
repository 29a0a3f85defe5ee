// The Job that converts an image: its manifest, and what the server's Job and pod tell of how it went. Its name follows
// from the profile, so that two operators ask for the same Job. Pure functions.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "lib/api/image_profile.h"
#include "lib/base/result.h"
#include "operator/image/conversion_plan.h"

namespace paceline::operator_ {

// On Jobs that convert and on their pods; the value is "true".
inline constexpr std::string_view kConversionLabel = "paceline.dev/conversion";

struct ConversionJobSettings {
  std::string ns;                                      // where the Jobs run
  std::string store;                                   // for pacectl: docker://REGISTRY/REPOSITORY or file:///FOLDER
  std::shared_ptr<const nlohmann::json> pod_template;  // ParseConversionTemplate; null: nothing is converted
  Duration time_limit = std::chrono::hours(2);

  bool is_complete() const { return !store.empty() && pod_template != nullptr; }
};

// A PodTemplateSpec as JSON whose first container runs pacectl; its args are put behind ours. kInvalidArgument.
Result<std::shared_ptr<const nlohmann::json>> ParseConversionTemplate(std::string_view text);

nlohmann::json ConversionJobManifest(const api::ImageProfile& profile, const ConversionJobSettings& settings);

// How a Job stands. `pod` is its pod, or null when it has none.
ConversionJobFacts ReadConversionJob(const nlohmann::json& job, const nlohmann::json* pod,
                                     const api::ImageProfile& profile);

// docs/formats/conversion-report.md. kDataLoss for what is no report.
Result<ConversionReport> ParseConversionReport(std::string_view text);

}  // namespace paceline::operator_
