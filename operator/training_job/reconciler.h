// Keeps each TrainingJob's Service and Jobs as plan.h says and its status true. Level-triggered; the leader's work
// only.
#pragma once

#include "lib/base/clock.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "operator/pacer.h"

namespace paceline::operator_ {

// What the reconciler reads and writes; all must outlive it. `jobs`, `pods` and `services` need an index by the label
// paceline.dev/job-uid; they may hold only the objects that carry it.
struct TrainingJobEnvironment {
  const kube::Store<kube::ObjectView>& training_jobs;
  const kube::Store<kube::JobView>& jobs;
  const kube::Store<kube::PodView>& pods;
  const kube::Store<kube::ObjectView>& services;
  kube::Client& client;
  kube::EventRecorder& events;
  const Clock& clock;
};

class TrainingJobReconciler final : public kube::Reconciler {
 public:
  // Two looks at one job are at least `min_interval` apart: a failure is acted on within that, and a job of 1,000
  // workers costs no pass per pod event.
  explicit TrainingJobReconciler(const TrainingJobEnvironment& environment,
                                 Duration min_interval = std::chrono::milliseconds(250))
      : env_(environment), pacer_(env_.clock, min_interval) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  const TrainingJobEnvironment env_;
  Pacer pacer_;
};

}  // namespace paceline::operator_
