// Records what containers have installed into the directories of their deps volumes, beside everything else that the
// agent does: looks for the wrapper's reports, decides whether there is something to record, lets the wrapper go on
// once the files are known, and publishes the snapshot with lib/deps: whole or not at all, whenever this process dies.
// docs/formats/dependency-snapshot.md, section 6.
//
// Owned by the volume type. Thread-safe. Recordings run in threads of their own at the lowest priority.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "agent/csi/deps_fate.h"
#include "agent/csi/deps_order.h"
#include "agent/csi/volume_host.h"
#include "lib/base/mutex.h"
#include "lib/deps/trust.h"

namespace paceline {
class Logger;
}
namespace paceline::deps {
class TreeView;
}

namespace paceline::agent {

// Names in the folder of a deps volume, and in its folder `control`.
inline constexpr char kDepsTree[] = "tree";
inline constexpr char kDepsControl[] = "control";
inline constexpr char kDepsProgram[] = "program";
inline constexpr char kDepsReport[] = "report";
inline constexpr char kDepsAnswer[] = "answer";
inline constexpr char kDepsStarted[] = "started";

using OpenStore = std::function<Result<std::unique_ptr<blocks::BlobStore>>()>;

struct DepsRecorderOptions {
  OpenStore open_for_writing;
  deps::TrustFiles trust;  // recordings are signed with its key
  std::string node;        // for the record
  std::string lease_folder;
  int threads = 1;            // that compress, of each recording
  size_t most_at_once = 2;    // recordings
  size_t max_files = 500000;  // of one: their names are kept in memory
  Duration look_period = std::chrono::milliseconds(250);
};

// What the wrapper says of an install.
struct InstallReport {
  std::string how;  // "installed", "in place", ""
  std::string key;
  bool was_clean = false;
  double seconds = 0;
};
// kInvalidArgument for what is none: the file is the container's.
Result<InstallReport> ParseInstallReport(std::string_view text);

// A volume without a snapshot.
struct InstallVolume {
  std::string folder;
  DepsOrder order;
  PodIdentity pod;
  DepsFate fate;  // as it was when the watch began
};

// What became of it.
struct RecordingEnd {
  RecordingResult result = RecordingResult::kSkipped;
  std::string why_not;                    // empty: recorded
  double install_seconds = 0;             // as the wrapper says
  std::optional<SnapshotFacts> snapshot;  // this one, or another worker's
  double seconds = 0;                     // of recording
  uint64_t new_bytes = 0;                 // that the store did not have
};

class DepsRecorder {
 public:
  // Called once for each volume, from any thread; the volume may be gone.
  using OnEnd = std::function<void(const std::string& volume_id, const InstallVolume& volume, const RecordingEnd& end)>;

  // Everything passed by reference must outlive it.
  DepsRecorder(DepsRecorderOptions options, VolumeHost& host, OnEnd on_end, const Clock& clock, Logger& log);
  // Stops recordings; what they were at is not published.
  ~DepsRecorder();

  // Starts the thread that looks around; tests call LookAround themselves.
  void Start();

  // From now on until its end the volume's report is looked for. Nothing when it is known.
  void Watch(const std::string& volume_id, const InstallVolume& volume) EXCLUDES(mutex_);
  // The pod is over: takes a last look, before the folder is moved. A recording that runs goes on.
  void EndWatch(const std::string& volume_id) EXCLUDES(mutex_);
  // Whether a recording reads the volume's files.
  bool IsBusy(const std::string& volume_id) const EXCLUDES(mutex_);

  // One look at every volume.
  void LookAround() EXCLUDES(mutex_);
  // Blocks until no recording runs.
  void AwaitIdle() EXCLUDES(mutex_);

 private:
  struct Recording {
    bool is_over = false;
    std::jthread thread;
  };

  void Look(const std::string& volume_id, const InstallVolume& volume) EXCLUDES(mutex_);
  // "" when it has begun, else why not.
  std::string Begin(const std::string& volume_id, const InstallVolume& volume, const InstallReport& report)
      EXCLUDES(mutex_);
  void Record(const std::string& volume_id, const InstallVolume& volume, const InstallReport& report,
              const deps::TreeView& view, const std::stop_token& stop) const;
  void End(const std::string& volume_id, const InstallVolume& volume, const RecordingEnd& end) const;
  void Answer(const InstallVolume& volume, const std::string& text) const;
  bool HasStarted(const InstallVolume& volume) const;
  void JoinEnded() EXCLUDES(mutex_);

  const DepsRecorderOptions options_;
  VolumeHost& host_;
  const OnEnd on_end_;
  const Clock& clock_;
  Logger& log_;

  mutable Mutex mutex_;
  CondVar one_is_over_;
  std::map<std::string, InstallVolume> watched_ GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Recording>> recordings_ GUARDED_BY(mutex_);
  std::jthread looker_;
};

}  // namespace paceline::agent
