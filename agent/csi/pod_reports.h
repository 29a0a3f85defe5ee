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
#include "agent/csi/volume_record.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::agent {

struct PodReport {
  PodIdentity pod;
  WallTime volume_published_at{};  // the first of its volumes
  std::vector<StageLine> stages;
  std::optional<WallTime> ended_at;  // its last volume went away
  bool operator==(const PodReport&) const = default;
};

class PodReports {
 public:
  struct Limits {
    size_t max_pods = 256;  // ended pods are forgotten first, the longest ended first
    size_t max_stages = 16;
    Duration keep_ended = std::chrono::minutes(30);
  };

  // `host` and `clock` must outlive this object.
  PodReports(VolumeHost& host, const Clock& clock, Limits limits) : host_(host), clock_(clock), limits_(limits) {}

  // Reads the stage files of all `volumes`. True when any report changed. Blocks on small files.
  bool Look(const std::vector<VolumeRecord>& volumes) EXCLUDES(mutex_);

  // The volume is about to go: reads its file for the last time.
  void LookLast(const VolumeRecord& volume) EXCLUDES(mutex_);

  // In the order of publishing.
  std::vector<PodReport> Reports() const EXCLUDES(mutex_);

 private:
  std::vector<StageLine> ReadStages(const VolumeRecord& volume) const;
  bool Merge(const VolumeRecord& volume, std::vector<StageLine> stages) EXCLUDES(mutex_);
  bool ForgetOld(WallTime now) REQUIRES(mutex_);

  VolumeHost& host_;
  const Clock& clock_;
  const Limits limits_;
  mutable Mutex mutex_;
  std::map<std::string, PodReport> reports_ GUARDED_BY(mutex_);  // by the pod's uid
};

}  // namespace paceline::agent
