#include "operator/training_run/observed_times.h"

namespace paceline::operator_ {
namespace {

bool IsScheduled(const kube::PodView* pod) {
  return pod != nullptr && kube::IsConditionTrue(pod->status.conditions, "PodScheduled");
}

}  // namespace

void ObservedTimesTracker::SeePod(const kube::CacheChange<kube::PodView>& change) {
  const WallTime now = clock_.WallNow();
  const kube::PodView* before = change.before.get();
  const kube::PodView* after = change.after.get();
  if (after == nullptr) {
    MutexLock lock(mutex_);
    const auto found = pods_.find(before->meta.uid.view());
    if (found != pods_.end()) pods_.erase(found);
    return;
  }
  // Another pod under the same name, of which the deletion was missed.
  const bool is_same = before != nullptr && before->meta.uid == after->meta.uid;
  if (!is_same) before = nullptr;
  const bool is_created = before == nullptr;
  const bool is_scheduled = IsScheduled(after) && !IsScheduled(before);
  const bool is_started = HasStarted(*after) && (before == nullptr || !HasStarted(*before));
  if (!is_created && !is_scheduled && !is_started) return;
  MutexLock lock(mutex_);
  if (!is_same && change.before != nullptr) {
    const auto old = pods_.find(change.before->meta.uid.view());
    if (old != pods_.end()) pods_.erase(old);
  }
  ObservedTimes& times = pods_[after->meta.uid.str()];
  if (is_created) times.created = now;
  if (is_scheduled) times.scheduled = now;
  if (is_started) times.started = now;
}

void ObservedTimesTracker::SeeJob(const kube::CacheChange<kube::ObjectView>& change) {
  const WallTime now = clock_.WallNow();
  MutexLock lock(mutex_);
  if (change.after == nullptr) {
    const auto found = jobs_.find(change.before->meta.uid.view());
    if (found != jobs_.end()) jobs_.erase(found);
    return;
  }
  jobs_.try_emplace(change.after->meta.uid.str(), now);
}

ObservedTimes ObservedTimesTracker::OfPod(std::string_view uid) const {
  MutexLock lock(mutex_);
  const auto found = pods_.find(uid);
  return found == pods_.end() ? ObservedTimes{} : found->second;
}

std::optional<WallTime> ObservedTimesTracker::JobCreated(std::string_view uid) const {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(uid);
  return found == jobs_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace paceline::operator_
