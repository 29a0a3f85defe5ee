// The pod webhook's decision: finds the job behind a pod that is being created and says what to add. Served by every
// replica; reads the caches and, for owners made milliseconds ago, the API server, within a short deadline. Whatever it
// cannot find out it leaves alone: the pod is always admitted.
#pragma once

#include "lib/api/job_settings.h"
#include "lib/api/meta.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/owner.h"
#include "lib/kube/webhook.h"
#include "operator/jobs/job_catalog.h"
#include "operator/node_plan/node_reports.h"
#include "operator/run_identity.h"

namespace paceline::operator_ {

struct PodWebhookOptions {
  bool adds_stage_volume = true;
  Duration agent_silence_limit = std::chrono::minutes(11);
  Duration owner_lookup_timeout = std::chrono::milliseconds(500);
};

class PodWebhook {
 public:
  // All references must outlive the webhook.
  PodWebhook(const PodWebhookOptions& options, const JobCatalog& catalog, const kube::Store<kube::NodeView>& nodes,
             const NodeReports& reports, kube::Reader& server, const Clock& clock);

  // Thread-safe. Blocks for owner look-ups only.
  Result<kube::AdmissionResponse> Handle(const kube::AdmissionRequest& request, Deadline deadline) const;

 private:
  struct Found {
    RunIdentity identity;
    std::vector<api::FieldError> errors;
    std::vector<api::Checkpoint> checkpoints;  // of an annotated job; a TrainingJob has them in its template
    bool is_traced = false;
  };
  std::optional<Found> Identify(const kube::AdmissionRequest& request, Deadline deadline) const;

  const PodWebhookOptions options_;
  const kube::Store<kube::NodeView>& nodes_;
  const NodeReports& reports_;
  const kube::OwnerLookup lookup_;
};

}  // namespace paceline::operator_
