// Keeps the store of dependency snapshots in order, for as long as the agent runs: notes there which snapshots this
// node uses, and now and then removes what nobody will restore any more. Every agent does; of several, one at a time
// collects. docs/formats/dependency-snapshot.md, section 3.1.
//
// Owned by the volume service. Its work is that of one thread; the first failure of a kind is logged.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <thread>

#include "agent/csi/deps_metrics.h"
#include "agent/csi/deps_recorder.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/blocks/format/digest.h"
#include "lib/deps/collector.h"

namespace paceline::agent {

struct DepsKeeperOptions {
  std::string store;   // URL; empty: nothing is done
  std::string folder;  // of a store in a folder; empty: another kind, which is not collected
  std::string lease_folder;
  std::string node;
  OpenStore open_for_reading, open_for_writing;
  Duration collect_period = std::chrono::hours(6);  // of the store, whoever collects; 0: never from here
  Duration grace = std::chrono::hours(24);
  // Manifests of the snapshots that volumes of this node have mounted. A failure: nobody knows.
  std::function<Result<std::set<blocks::Digest>>()> list_used;
  DepsMetrics* metrics = nullptr;  // must outlive the keeper; may be null
};

class DepsKeeper {
 public:
  // Everything passed by reference must outlive it.
  DepsKeeper(DepsKeeperOptions options, const Clock& clock, Logger& log);
  ~DepsKeeper();

  // Starts the thread; tests call LookAfter themselves.
  void Start();
  // Writes uses anew and removes those that are over, then collects when it is due.
  void LookAfter();

 private:
  Status KeepUses();
  void Collect();
  void Tell(const std::string& what, const Status& status, Status* before);

  const DepsKeeperOptions options_;
  const Clock& clock_;
  Logger& log_;
  Status use_failure_, collect_failure_;
  bool has_told_of_store_ = false;
  std::jthread thread_;
};

}  // namespace paceline::agent
