// Which training jobs run which image: who is told what comes of its conversion, whether anybody still needs it, and
// when it was last started. Filled by the request reconciler's look at each job, so a restarted operator has it all
// again after its first round. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/kube/events.h"

namespace paceline::operator_ {

class ImageUsers {
 public:
  // What a job runs now, in place of what it was said to run before: by profile, when a container of it last started.
  // Empty for a job that is gone. Returns the profiles for which anything is new.
  std::vector<std::string> Replace(const kube::ObjectKey& job, const kube::ObjectReference& reference,
                                   const std::map<std::string, WallTime>& images) EXCLUDES(mutex_);

  std::vector<kube::ObjectReference> JobsOf(const std::string& profile) const EXCLUDES(mutex_);
  bool IsWanted(const std::string& profile) const EXCLUDES(mutex_) { return !JobsOf(profile).empty(); }
  // kNoTime when no job is known to have started it.
  WallTime LastStart(const std::string& profile) const EXCLUDES(mutex_);

 private:
  struct Job {
    kube::ObjectReference reference;
    std::map<std::string, WallTime> images;
  };

  mutable Mutex mutex_;
  std::map<kube::ObjectKey, Job> jobs_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
