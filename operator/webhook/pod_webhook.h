// The pod webhook's decision: finds the job behind a pod that is being created and says what to add. Served by every
// replica; reads the caches and, for owners made milliseconds ago, the API server, within a short deadline. Whatever it
// cannot find out it leaves alone: the pod is always admitted.
#pragma once

#include "lib/api/job_settings.h"
#include "lib/api/meta.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/events.h"
#include "lib/kube/owner.h"
#include "lib/kube/webhook.h"
#include "operator/dependencies/planner.h"
#include "operator/jobs/job_catalog.h"
#include "operator/node_plan/node_reports.h"
#include "operator/run_identity.h"

namespace paceline::operator_ {

struct PodWebhookOptions {
  bool adds_stage_volume = true;
  Duration agent_silence_limit = std::chrono::minutes(11);
  Duration owner_lookup_timeout = std::chrono::milliseconds(500);
  Duration install_lookup_timeout = std::chrono::seconds(2);
};

// What the webhook stands on; all must outlive it.
struct PodWebhookEnvironment {
  const JobCatalog& catalog;
  const kube::Store<kube::NodeView>& nodes;
  const NodeReports& reports;
  kube::Reader& server;
  ImageLookup* images;  // null: none can be looked up
  kube::EventRecorder& events;
  const Clock& clock;
};

class PodWebhook {
 public:
  PodWebhook(const PodWebhookOptions& options, const PodWebhookEnvironment& environment);

  // Thread-safe. Blocks for look-ups only: of owners, and for jobs that install, of the image and its inputs.
  Result<kube::AdmissionResponse> Handle(const kube::AdmissionRequest& request, Deadline deadline) const;

 private:
  struct Found {
    RunIdentity identity;
    std::vector<api::FieldError> errors;
    std::vector<api::Checkpoint> checkpoints;  // of an annotated job; a TrainingJob has them in its template
    bool is_traced = false;
    std::optional<api::DependencySettings> dependencies;
    kube::ObjectReference job;
  };
  std::optional<Found> Identify(const kube::AdmissionRequest& request, Deadline deadline) const;

  std::string ArchitectureFor(const nlohmann::json& pod) const;
  std::optional<InjectedInstall> PlanInstall(const kube::AdmissionRequest& request, const Found& found,
                                             const std::string& why_no_volume, Deadline deadline,
                                             std::vector<std::string>* warnings) const;

  const PodWebhookOptions options_;
  const PodWebhookEnvironment environment_;
  const kube::OwnerLookup lookup_;
  const InstallPlanner installs_;
};

}  // namespace paceline::operator_
