// The paces of all runs, as the agents have told them: the slowdown controller fills it, the straggler controller reads
// it. After a restart it is empty and filled anew, since agents keep a quarter of an hour. Thread-safe; readers share
// snapshots.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "analysis/pace.h"
#include "lib/base/mutex.h"
#include "lib/kube/resource.h"

namespace paceline::operator_ {

struct RunPaces {
  std::vector<analysis::RankPace> ranks;  // by rank
  size_t expected_ranks = 0;              // processes of the run, told or not
};

class PaceStore {
 public:
  // Adds windows to what is known of the run. A rank that has come to another node begins anew there. At most
  // `kept_windows` of each rank stay.
  void Merge(const kube::ObjectKey& run, const std::vector<analysis::RankPace>& more, size_t expected_ranks,
             size_t kept_windows = 192) EXCLUDES(mutex_);
  void Forget(const kube::ObjectKey& run) EXCLUDES(mutex_);

  // Null when nothing is known.
  std::shared_ptr<const RunPaces> Get(const kube::ObjectKey& run) const EXCLUDES(mutex_);
  std::vector<kube::ObjectKey> Runs() const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<kube::ObjectKey, std::shared_ptr<const RunPaces>> runs_ GUARDED_BY(mutex_);
};

}  // namespace paceline::operator_
