// `pacectl deps restore|unmount`: puts a snapshot on its directories, mounted or copied. The mount is served by
// paceline-snapshotter, which this starts; the overlays on the directories are made here.
//
// Called by the deps commands. Blocks for store, disk and kernel.
#pragma once

#include <string>
#include <vector>

#include "cli/deps_request.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/deps/overlay.h"
#include "lib/deps/snapshot_store.h"

namespace paceline::cli {

struct RestoreOptions {
  bool copies = false;
  int threads = 0;  // of a copy; 0: one for each processor
  std::string run_folder = "/run/paceline/deps", upper_folder = "/var/lib/paceline/deps";
  std::string cache_folder, cache_quota, log_file, backing;
  bool leaves_hot_set_out = false;  // nothing is fetched ahead and nothing recorded
};

enum class RestoredBy { kNothing, kMount, kCopy };  // kNothing: it was in place

struct RestoreReport {
  RestoredBy by = RestoredBy::kNothing;
  std::string key;
  uint64_t files = 0, bytes = 0;  // that were copied
};

// kNotFound: no snapshot for this key, or it has ended; then the install is to be run. kInvalidArgument: the
// directories do not hold what the snapshot was recorded over. All else is a failure after which the install is to be
// run as well.
Result<RestoreReport> RestoreSnapshot(const DepsArguments& arguments, deps::RecordRequest request,
                                      const RestoreOptions& options, const Clock& clock);

Status UnmountSnapshot(const std::vector<std::string>& directories, const RestoreOptions& options,
                       deps::DetachMode mode, const Clock& clock);

}  // namespace paceline::cli
