#include "agent/plan/plan_reconciler.h"

#include <algorithm>

namespace paceline::agent {

Result<kube::Action> PlanReconciler::Reconcile(const kube::ObjectKey& /*there is one plan*/, Deadline deadline,
                                               std::stop_token /*nothing here waits long*/) {
  Result<kube::Action> action = Look(deadline);
  const bool is_new = Remember(action.status());
  // The controller would not come back to a plan that cannot be read, nor log one that is missing: both are waited for.
  const StatusCode code = action.status().code();
  const bool is_polled = options_.poll_interval > Duration::zero();
  if (code == StatusCode::kNotFound || (code == StatusCode::kInvalidArgument && is_polled)) {
    if (is_new) log_.Warn("no usable plan, waiting for one", {{"error", action.status()}});
    return Next(options_.heartbeat);
  }
  return action;
}

Result<kube::Action> PlanReconciler::Look(Deadline deadline) {
  ASSIGN_OR_RETURN(api::NodePlan plan, store_.Read());
  if (written_ && written_->plan_uid != plan.metadata.uid) written_.reset();  // deleted and made anew
  // Until our own last write comes back by the watch, the status in hand is older than what we know to be there.
  const bool is_behind = written_ && written_->seen_version == plan.metadata.resource_version;
  if (is_behind) plan.status = written_->status;
  if (options_.on_plan) options_.on_plan(plan);
  const api::NodePlanStatus status = BuildStatus(plan, state_(), clock_.WallNow());

  const bool has_news = !IsSameReport(plan.status, status);
  if (written_) {
    const Duration age = clock_.Now() - written_->at;
    if (has_news && age < options_.min_write_interval) return Next(options_.min_write_interval - age);
    if (!has_news && age < options_.heartbeat) return Next(options_.heartbeat - age);
  }
  ASSIGN_OR_RETURN(std::string version, store_.WriteStatus(status, deadline));
  const bool is_unchanged = version == plan.metadata.resource_version;  // the server took it for no change
  written_ =
      Written{status, plan.metadata.uid, is_unchanged ? std::string() : plan.metadata.resource_version, clock_.Now()};
  MutexLock lock(mutex_);
  outcome_.observed_generation = status.observed_generation;
  ++outcome_.writes;
  return Next(options_.heartbeat);
}

kube::Action PlanReconciler::Next(Duration wait) const {
  if (options_.poll_interval > Duration::zero()) wait = std::min(wait, options_.poll_interval);
  return kube::Action::RequeueAfter(wait);
}

bool PlanReconciler::Remember(const Status& status) {
  MutexLock lock(mutex_);
  const bool is_new = !(outcome_.status == status);
  outcome_.status = status;
  return is_new;
}

PlanReconciler::Outcome PlanReconciler::LastOutcome() const {
  MutexLock lock(mutex_);
  return outcome_;
}

}  // namespace paceline::agent
