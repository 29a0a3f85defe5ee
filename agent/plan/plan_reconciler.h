// Makes the node's plan and what the agent says about it agree: looks at the plan, works out the status, writes it when
// it tells something new or when the heartbeat is due. Run by a kube::Controller in a cluster and with a plan file
// alike.
//
// Reconcile is called by one worker; LastOutcome from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/plan/node_status.h"
#include "agent/plan/plan_store.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "lib/kube/controller.h"

namespace paceline::agent {

class PlanReconciler final : public kube::Reconciler {
 public:
  struct Options {
    // A status without news is written this often, so that the operator can tell a quiet agent from a dead one.
    Duration heartbeat = std::chrono::minutes(5);
    // Writes with news are at least this far apart; pods report stages in bursts.
    Duration min_write_interval = std::chrono::seconds(1);
    // A plan file is looked at this often; zero where changes are announced.
    Duration poll_interval = Duration::zero();
    // Told the plan before `state` is asked; must not block. May be null.
    std::function<void(const api::NodePlan&)> on_plan = nullptr;
  };

  // `state` is called for each reconcile and must not block. All references must outlive the object.
  PlanReconciler(Options options, PlanStore& store, std::function<NodeState()> state, const Clock& clock, Logger& log)
      : options_(std::move(options)), store_(store), state_(std::move(state)), clock_(clock), log_(log) {}

  Result<kube::Action> Reconcile(const kube::ObjectKey& key, Deadline deadline, std::stop_token stop) override;

  struct Outcome {
    Status status = UnavailableError("no plan was looked at yet");
    int64_t observed_generation = 0;
    int64_t writes = 0;
  };
  Outcome LastOutcome() const EXCLUDES(mutex_);

 private:
  struct Written {
    api::NodePlanStatus status;
    std::string plan_uid;
    std::string seen_version;  // of the plan that the write was based on
    TimePoint at;
  };

  Result<kube::Action> Look(Deadline deadline);
  kube::Action Next(Duration until_heartbeat) const;
  // Returns true when it is another outcome than the last time.
  bool Remember(const Status& status) EXCLUDES(mutex_);

  const Options options_;
  PlanStore& store_;
  const std::function<NodeState()> state_;
  const Clock& clock_;
  Logger& log_;
  std::optional<Written> written_;  // used by the worker alone
  mutable Mutex mutex_;
  Outcome outcome_ GUARDED_BY(mutex_);
};

}  // namespace paceline::agent
