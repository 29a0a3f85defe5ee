// Records what an install command does to some directories and publishes it: whole or not at all, whenever this process
// dies. docs/formats/dependency-snapshot.md.
//
// Called by `pacectl deps record`, and by the node agent for what a container has installed. Blocks for as long as the
// install takes, and then for disk and store. One thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/image/layer_converter.h"
#include "lib/deps/captured_tree.h"
#include "lib/deps/command.h"
#include "lib/deps/install_inputs.h"
#include "lib/deps/snapshot_store.h"

namespace paceline::deps {

struct RecordRequest {
  KeyInputs key;  // all but `base`, which is looked at here
  Pinning pinning;
  std::vector<std::string> environment;  // that the install gets
  CommandOutput output = CommandOutput::kAsIs;
  Duration ttl{0};  // 0: as the pinning says
  Privileges privileges = Privileges::kDropped;
  std::vector<std::string> allowed_secrets;
  bool records_again = false;  // also over a snapshot that is there
  Trust trust;  // a snapshot that it does not let be used is replaced; with its key the new one is signed
  std::map<std::string, std::string> recorded_by;  // for the record
  std::string lease_folder;
  Duration wait{0};  // for another recorder of the same key
  blocks::ConvertOptions convert;
};

// What a person who waits wants to see; read by any thread.
struct RecordProgress {
  enum class Phase { kScanning, kInstalling, kComparing, kChecking, kStoring, kPublishing };
  std::atomic<Phase> phase{Phase::kScanning};
  blocks::ConvertProgress conversion;
};

struct RecordReport {
  FoundSnapshot snapshot;
  bool was_there = false;  // then nothing was run
  CommandEnd install;
  double scan_seconds = 0, store_seconds = 0;
};

// kAborted: another recorder is at work, or files changed while they were read. kInvalidArgument: the tree must not be
// published (credentials, editable installs), or a recording that was cut off has left the directories in between.
// kUnavailable with the exit code in the message: the install failed. In every case nothing was published.
struct RecordOutcome {
  Status status;        // of the recording
  RecordReport report;  // whole when ok; the install's end in any case
  bool ran_install = false;
};
RecordOutcome RecordInstall(const RecordRequest& request, blocks::BlobStore& store, RecordProgress* progress,
                            const Clock& clock, const std::stop_token& stop);

// What somebody else has installed into directories that were empty before.
struct InstalledTree {
  TreeView view;       // in which the request's capture directories lie
  double seconds = 0;  // that the install took
  size_t max_files = kMaxScannedFiles;
  // Called when it is known what there is. From then on files may come, but one that changes before it is read ends the
  // recording. A failure ends it, too.
  std::function<Status()> on_scanned;
};
// As RecordInstall, but the install is over. The key's `base` must be "". Nothing is written into the directories.
RecordOutcome RecordInstalled(const RecordRequest& request, const InstalledTree& tree, blocks::BlobStore& store,
                              RecordProgress* progress, const Clock& clock, const std::stop_token& stop);

// Where the capture directories are now: what a key needs of them. With the sentinels of a restored or recorded tree
// the base is the one that they name.
struct BaseState {
  std::string base;
  bool has_sentinels = false;  // all directories have one, all with this key
  std::string sentinel_key;
  bool was_cut_off = false;  // a recording has begun here and not ended
};
Result<BaseState> LookAtBase(const std::vector<std::string>& roots, const CaptureRules& rules);

// How long a snapshot is used, unless the request says otherwise: pinned, floating (section 1.1 of the format).
inline constexpr Duration kPinnedLife = std::chrono::hours(24 * 30);
inline constexpr Duration kFloatingLife = std::chrono::hours(24);

}  // namespace paceline::deps
