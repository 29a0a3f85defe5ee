// Publishes and unpublishes inline volumes for kubelet: checks the request, keeps the records that make every step
// repeatable after a crash, and hands the work to the volume's type. Knows nothing of gRPC; csi_server.h translates.
//
// The node service, the HTTP API and the metrics use one object from many threads: thread-safe. Calls for different
// volumes run side by side, a second call for a volume that is being worked on gets kAborted and is repeated by
// kubelet.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/csi/volume_host.h"
#include "agent/csi/volume_record.h"
#include "agent/csi/volume_type.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace paceline::agent {

// NodePublishVolume's arguments as they came.
struct PublishRequest {
  std::string volume_id;
  std::string target_path;
  bool is_read_only = false;
  // The pod's volumeAttributes, and csi.storage.k8s.io/pod.* from kubelet.
  std::map<std::string, std::string> context;
  // Contents of the volume's Secret.
  std::map<std::string, std::string> secrets;
};

// A published volume and how it does.
struct SeenVolume {
  VolumeRecord record;
  std::optional<MountFigures> figures;  // of types that have some
  std::optional<api::PodDependencies> dependencies;
};

// What Recover found and did; for one log line.
struct RecoveryReport {
  int kept = 0;                       // volumes of pods that are still there, now as they should be
  int removed = 0;                    // volumes of pods that are gone
  std::vector<std::string> problems;  // what could not be mended, each with its volume; tried again later
};

class VolumePublisher {
 public:
  struct Options {
    std::string kubelet_dir;  // "/var/lib/kubelet"
    std::string state_dir;    // records live in its folder `volumes`; must exist
    // Called without a lock before a published volume goes away, with what is in it still to be seen; may be null.
    std::function<void(const VolumeRecord& record)> before_removal;
  };

  // `types` have distinct names and are used with `host`, which must outlive this object, as `clock` must.
  VolumePublisher(Options options, VolumeHost& host, std::vector<std::unique_ptr<VolumeType>> types,
                  const Clock& clock);

  // Reads the records, mends the volumes of pods that are still there and removes those of pods that are not. Call
  // once, before anything else. Fails only when the records cannot be listed at all; single volumes go into the report.
  Result<RecoveryReport> Recover(Deadline deadline) EXCLUDES(mutex_);

  // Ok means: the volume is at its target and will be found again after a crash. kInvalidArgument for a bad request,
  // kAlreadyExists when it is published otherwise, kAborted while another call works on it, kUnavailable when kubelet
  // should ask again. After any other failure of a first call nothing is left behind.
  Status Publish(const PublishRequest& request, Deadline deadline) EXCLUDES(mutex_);

  // Ok when nothing of the volume is left, also when there never was anything.
  Status Unpublish(const std::string& volume_id, const std::string& target_path, Deadline deadline) EXCLUDES(mutex_);

  // Removes volumes whose pod is gone though nobody unpublished them, and lets the types empty their trash. Returns the
  // first failure, having gone on after it. May take long; call now and then from a thread of its own.
  Status CleanUp(Deadline deadline) EXCLUDES(mutex_);

  // Looks at every published volume, and mends those that need it. Failures to mend are in the figures' message.
  std::vector<SeenVolume> Look(Deadline deadline) EXCLUDES(mutex_);
  // The same for one volume, without mending.
  SeenVolume LookAt(const VolumeRecord& volume, Deadline deadline) const;

  // Volumes that are there now, by id, and those that ended lately, oldest first.
  std::vector<VolumeRecord> Volumes() const EXCLUDES(mutex_);
  std::vector<VolumeRecord> EndedVolumes() const EXCLUDES(mutex_);

 private:
  class Turn;  // holds the right to work on one volume

  Result<VolumeSpec> CheckRequest(const PublishRequest& request, VolumeType** type) const;
  Status PublishNew(const VolumeSpec& spec, VolumeType& type, Deadline deadline) EXCLUDES(mutex_);
  Status PublishAgain(VolumeRecord record, VolumeType& type, Deadline deadline) EXCLUDES(mutex_);
  Status RemoveVolume(VolumeRecord record, Deadline deadline) EXCLUDES(mutex_);
  Status Mend(const std::string& volume_id, Deadline deadline) EXCLUDES(mutex_);
  std::string KeyOf(const std::string& volume_id, const TargetPath& target) const EXCLUDES(mutex_);
  Status RemoveUnrecorded(const std::string& volume_id, const TargetPath& target, Deadline deadline);
  Status RecoverVolume(const VolumeRecord& record, bool is_pod_there, Deadline deadline, RecoveryReport* report);
  Result<std::set<std::string>> PodsOnDisk() const;
  Status LoadRecords(RecoveryReport* report) EXCLUDES(mutex_);

  Status Store(const VolumeRecord& record) EXCLUDES(mutex_);
  Status Forget(const std::string& volume_id) EXCLUDES(mutex_);
  std::optional<VolumeRecord> Find(const std::string& volume_id) const EXCLUDES(mutex_);
  VolumeType* FindType(std::string_view name) const;
  std::string RecordPath(const std::string& volume_id) const;

  const Options options_;
  VolumeHost& host_;
  const std::vector<std::unique_ptr<VolumeType>> types_;
  const Clock& clock_;

  mutable Mutex mutex_;
  std::map<std::string, VolumeRecord> records_ GUARDED_BY(mutex_);
  std::set<std::string> busy_ GUARDED_BY(mutex_);
  std::deque<VolumeRecord> ended_ GUARDED_BY(mutex_);
};

}  // namespace paceline::agent
