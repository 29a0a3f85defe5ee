// Carries the conversion of one image out: makes the Job, waits for its end, writes what came of it into the
// ImageProfile and tells the jobs that use the image. A key is a profile. Level-triggered: what is to be done follows
// from the profile's status and the Job (conversion_plan.h), both read from the server, never from a cache that might
// be behind our own last write. The leader's work only, by one worker, so that the limit of conversions holds.
#pragma once

#include <optional>
#include <string>

#include "lib/base/metrics.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "operator/image/conversion_job.h"
#include "operator/image/image_users.h"
#include "operator/node_plan/node_reports.h"

namespace paceline::operator_ {

// Profiles by the manifest that their block image belongs to.
inline constexpr std::string_view kProfileManifestIndex = "manifest";
kube::CacheIndex<kube::ObjectView> ProfileManifestIndex();

// All must outlive the reconciler.
struct ImageProfileEnvironment {
  const kube::Store<kube::ObjectView>& profiles;
  const kube::Store<kube::JobView>& conversions;  // Jobs with kConversionLabel
  const ImageUsers& users;
  const NodeReports& reports;
  kube::Client& client;
  kube::EventRecorder& recorder;
  const Clock& clock;
  MetricsRegistry& metrics;
};

struct ImageProfileOptions {
  ConversionJobSettings job;
  int64_t at_once = 2;  // conversions
};

class ImageProfileReconciler final : public kube::Reconciler {
 public:
  ImageProfileReconciler(const ImageProfileEnvironment& environment, ImageProfileOptions options);

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  // What the server has now. Nothing when the profile is gone.
  Result<std::optional<api::ImageProfile>> FetchProfile(const std::string& name, Deadline deadline);
  Result<std::optional<ConversionJobFacts>> FetchJob(const api::ImageProfile& profile, Deadline deadline);
  Result<bool> HasRoom(Deadline deadline);
  // The plan, with its Job made where it asks for one.
  Result<ConversionPlan> Carry(const api::ImageProfile& profile, const std::optional<ConversionJobFacts>& job,
                               Deadline deadline);
  Status Write(const api::ImageProfile& profile, const api::ImageProfileStatus& status, Deadline deadline);
  Status DeleteJob(const api::ImageProfile& profile, const std::string& uid, Deadline deadline);
  void Tell(const api::ImageProfile& profile, const ConversionPlan& plan);
  void Count(const ConversionPlan& plan, const std::optional<ConversionJobFacts>& job);

  const ImageProfileEnvironment env_;
  const ImageProfileOptions options_;
  MetricFamily<Counter>& conversions_;
  MetricFamily<Histogram>& seconds_;
};

}  // namespace paceline::operator_
