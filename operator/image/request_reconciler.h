// Sees to it that each image of a job that asks for conversion has an ImageProfile, and keeps who uses it. A key is a
// job (JobKey::ToObjectKey). Level-triggered; the leader's work only. What is wrong with the wish itself is told to the
// job once; the job is never held up.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "operator/image/image_users.h"
#include "operator/image/pod_images.h"
#include "operator/jobs/job_catalog.h"
#include "operator/pacer.h"

namespace paceline::api {
struct Advice;
}

namespace paceline::operator_ {

// All must outlive the reconciler. `pods` needs the indexes of PodIndexes.
struct ImageRequestEnvironment {
  const JobCatalog& catalog;
  const kube::Store<kube::PodView>& pods;
  const kube::Store<kube::NodeView>& nodes;
  const kube::Store<kube::ObjectView>& profiles;
  ImageUsers& users;
  std::function<void(const std::string& profile)> wake;  // the profile is to be looked at
  kube::Client& client;
  kube::EventRecorder& recorder;
  const Clock& clock;
};

struct ImageRequestOptions {
  bool is_complete = false;                         // there is a store and a template: images can be converted
  std::vector<std::string> images;                  // patterns of repositories; empty: all
  Duration min_interval = std::chrono::seconds(2);  // between two looks at one job
};

class ImageRequestReconciler final : public kube::Reconciler {
 public:
  ImageRequestReconciler(ImageRequestEnvironment environment, ImageRequestOptions options)
      : env_(std::move(environment)), options_(std::move(options)), pacer_(env_.clock, options_.min_interval) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override
      EXCLUDES(mutex_);

 private:
  // The images of a job that are to be converted; tells what cannot be.
  std::vector<PodImage> Wanted(const kube::ObjectKey& key, const nlohmann::json& job,
                               const std::vector<std::shared_ptr<const kube::PodView>>& pods) EXCLUDES(mutex_);
  Status Ensure(const std::string& name, const PodImage& image, Deadline deadline);
  void TellOnce(const kube::ObjectKey& key, const nlohmann::json& job, const api::Advice& advice,
                const std::string& what) EXCLUDES(mutex_);
  void Forget(const kube::ObjectKey& key) EXCLUDES(mutex_);

  const ImageRequestEnvironment env_;
  const ImageRequestOptions options_;
  Pacer pacer_;
  Mutex mutex_;
  std::map<kube::ObjectKey, std::set<std::string>> told_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
