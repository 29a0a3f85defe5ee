// Keeps one DependencySnapshot for each key that agents report: makes it when the first pod installs or restores, says
// what the agents say, tells of failures by events, and removes it some time after its end. A key is the object's.
// Level-triggered; the leader's work only.
//
// Agents have no rights on these objects: what they know comes by NodePlan.status, as all else.
#pragma once

#include "lib/api/dependency_snapshot.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/kube/cache.h"
#include "lib/kube/client.h"
#include "lib/kube/controller.h"
#include "lib/kube/events.h"
#include "operator/dependencies/snapshot_status.h"
#include "operator/node_plan/node_reports.h"
#include "operator/pacer.h"
#include "operator/resources.h"

namespace paceline::operator_ {

// All must outlive the reconciler.
struct SnapshotEnvironment {
  const NodeReports& reports;
  const kube::Store<kube::PodView>& pods;
  const kube::Store<kube::ObjectView>& snapshots;
  kube::Client& client;
  kube::EventRecorder& recorder;
  const Clock& clock;
  Logger& log;
};

struct SnapshotOptions {
  Duration keep_ended = std::chrono::hours(24);             // objects of snapshots that have ended or failed
  Duration min_interval = std::chrono::seconds(1);          // between two looks at one object
  Duration agent_silence_limit = std::chrono::minutes(11);  // an agent not heard of for longer is dead
};

class SnapshotReconciler final : public kube::Reconciler {
 public:
  SnapshotReconciler(const SnapshotEnvironment& environment, const SnapshotOptions& options)
      : env_(environment), options_(options), pacer_(env_.clock, options_.min_interval) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

 private:
  std::vector<SnapshotReport> Reports(const kube::ObjectKey& key) const;
  // kNotFound when there is none and none can be made.
  Result<api::DependencySnapshot> FindOrMake(const kube::ObjectKey& key, const std::vector<SnapshotReport>& reports,
                                             Deadline deadline) const;
  Result<api::DependencySnapshot> Make(const kube::ObjectKey& key, const std::vector<SnapshotReport>& reports,
                                       Deadline deadline) const;
  Status Write(const api::DependencySnapshot& snapshot, const api::DependencySnapshotStatus& before,
               Deadline deadline) const;
  void Tell(const api::DependencySnapshot& snapshot, const api::DependencySnapshotStatus& before) const;

  const SnapshotEnvironment env_;
  const SnapshotOptions options_;
  Pacer pacer_;
};

}  // namespace paceline::operator_
