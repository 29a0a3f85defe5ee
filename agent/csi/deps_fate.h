// What was decided about a volume of type deps, and what became of it: written down once, so that neither a restarted
// agent nor a repeated call of kubelet decides again, and told to the operator from there. Written and read only here.
//
// Used by the volume type. Plain values, pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "lib/api/node_plan.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/deps/snapshot_store.h"

namespace paceline::agent {

inline constexpr std::array kInstallCauses = {
    api::InstallCause::kNotCacheable,     api::InstallCause::kNoStore,    api::InstallCause::kNotTrusted,
    api::InstallCause::kQuarantined,      api::InstallCause::kNoSnapshot, api::InstallCause::kSnapshotEnded,
    api::InstallCause::kStoreUnavailable, api::InstallCause::kDamaged,    api::InstallCause::kNotMounted};

// Of the snapshot that was restored or recorded; without a digest there is none.
struct SnapshotFacts {
  std::string digest;  // of its manifest
  int64_t size_bytes = 0;
  int64_t stored_bytes = 0;
  std::optional<WallTime> recorded_at;
  std::optional<WallTime> expires_at;
};
SnapshotFacts FactsOf(const deps::FoundSnapshot& snapshot);

// How a recording ended.
enum class RecordingResult {
  kRecorded,
  kSuperfluous,  // another worker had recorded the same
  kSkipped,      // nothing that may be recorded: the program had started, the directories were not empty, ...
  kRefused,      // it must not travel: credentials, editable installs
  kAborted,      // another worker was at it, or files changed
  kFailed,       // the store, the disk
};

struct DepsFate {
  std::string key;                         // "" without one
  std::string image;                       // digest of the block image that is mounted; "" when directories are empty
  std::optional<api::InstallCause> cause;  // why they are empty
  std::string reason;                      // the same as a sentence
  bool may_be_held = false;                // the mount was given up, and the holder did not say that it is gone
  bool is_over = false;                    // it was recorded, or it is known that it will not be
  std::string outcome;                     // why it was not recorded
  std::optional<WallTime> at;              // when it was decided
  std::optional<double> seconds;           // that finding and mounting took, or the install
  SnapshotFacts snapshot;
  std::string service_account;             // the pod's
  std::string quarantined;                 // why the snapshot was put aside from here; empty: it was not
  std::optional<WallTime> quarantined_at;  // when
};

std::string RenderDepsFate(const DepsFate& fate);
// Of what an older agent wrote as well. An error for what is none.
Result<DepsFate> ParseDepsFate(std::string_view text);

// As the operator is told. `is_recording`: at this moment.
api::PodDependencies DependenciesOf(const DepsFate& fate, bool is_recording);

}  // namespace paceline::agent
