#include "operator/image/image_users.h"

#include <algorithm>

namespace paceline::operator_ {

std::vector<std::string> ImageUsers::Replace(const kube::ObjectKey& job, const kube::ObjectReference& reference,
                                             const std::map<std::string, WallTime>& images) {
  std::vector<std::string> changed;
  MutexLock lock(mutex_);
  std::map<std::string, WallTime> before;
  if (const auto found = jobs_.find(job); found != jobs_.end()) before = std::move(found->second.images);
  for (const auto& [profile, started] : images) {
    const auto known = before.find(profile);
    if (known == before.end() || known->second != started) changed.push_back(profile);
  }
  for (const auto& [profile, started] : before) {
    if (!images.contains(profile)) changed.push_back(profile);
  }
  if (images.empty()) {
    jobs_.erase(job);
  } else {
    jobs_.insert_or_assign(job, Job{reference, images});
  }
  return changed;
}

std::vector<kube::ObjectReference> ImageUsers::JobsOf(const std::string& profile) const {
  std::vector<kube::ObjectReference> jobs;
  MutexLock lock(mutex_);
  for (const auto& [key, job] : jobs_) {
    if (job.images.contains(profile)) jobs.push_back(job.reference);
  }
  return jobs;
}

WallTime ImageUsers::LastStart(const std::string& profile) const {
  WallTime last{};
  MutexLock lock(mutex_);
  for (const auto& [key, job] : jobs_) {
    const auto found = job.images.find(profile);
    if (found != job.images.end()) last = std::max(last, found->second);
  }
  return last;
}

}  // namespace paceline::operator_
