// What the agent has seen of each pod with one of our volumes: when the volume was there and which stages the program
// inside has written down. Goes into NodePlan.status, from where the operator makes a run's stage times, and to
// /v1/node.
//
// Volumes are looked at every few seconds and once more before they go away, so that the last lines of a short pod are
// not lost. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/csi/stage_file.h"
#include "agent/csi/volume_host.h"
#include "agent/csi/volume_publisher.h"
#include "agent/csi/volume_record.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::agent {

// One mounted volume of a pod.
struct MountReport {
  std::string volume;  // as the pod's spec calls it
  MountFigures figures;
  bool has_read_start = false;  // the reading at the start is over, as far as one can tell
  bool operator==(const MountReport&) const = default;
};

struct PodReport {
  PodIdentity pod;
  WallTime volume_published_at{};  // the first of its volumes
  std::vector<StageLine> stages;
  std::vector<MountReport> mounts;
  std::optional<api::PodDependencies> dependencies;
  std::optional<WallTime> ended_at;  // its last volume went away
  bool operator==(const PodReport&) const = default;
};

class PodReports {
 public:
  struct Limits {
    size_t max_pods = 256;  // ended pods are forgotten first, the longest ended first
    size_t max_stages = 16;
    size_t max_mounts = 16;
    Duration keep_ended = std::chrono::minutes(30);
    Duration read_pause = std::chrono::seconds(5);  // after which the reading at the start counts as over
  };

  // `host` and `clock` must outlive this object.
  PodReports(VolumeHost& host, const Clock& clock, Limits limits) : host_(host), clock_(clock), limits_(limits) {}

  // Reads the stage files of all `volumes`. True when any report changed in what somebody waits for: byte counts that
  // merely grow are no news, they go along with the next. Blocks on small files.
  bool Look(const std::vector<SeenVolume>& volumes) EXCLUDES(mutex_);

  // The volume is about to go: reads its file for the last time.
  void LookLast(const SeenVolume& volume) EXCLUDES(mutex_);

  // What became of a pod's dependencies, whose volume may be gone by now. Nothing for a pod that was never looked at.
  void SeeDependencies(const PodIdentity& pod, const api::PodDependencies& dependencies) EXCLUDES(mutex_);

  // In the order of publishing.
  std::vector<PodReport> Reports() const EXCLUDES(mutex_);

 private:
  std::vector<StageLine> ReadStages(const VolumeRecord& volume) const;
  bool Merge(const SeenVolume& volume, std::vector<StageLine> stages, bool is_last) EXCLUDES(mutex_);
  static bool MergeDependencies(const api::PodDependencies& seen, PodReport* report);
  bool MergeMount(const SeenVolume& volume, bool is_last, PodReport* report) const;
  bool ForgetOld(WallTime now) REQUIRES(mutex_);

  VolumeHost& host_;
  const Clock& clock_;
  const Limits limits_;
  mutable Mutex mutex_;
  std::map<std::string, PodReport> reports_ GUARDED_BY(mutex_);  // by the pod's uid
};

}  // namespace paceline::agent
