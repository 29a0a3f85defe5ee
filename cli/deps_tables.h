// What `pacectl deps` prints. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "lib/deps/collector.h"
#include "lib/deps/recorder.h"
#include "lib/deps/snapshot_store.h"

namespace paceline::cli {

Table SnapshotTable(const std::vector<deps::FoundSnapshot>& snapshots, WallTime now);
nlohmann::json SnapshotValue(const deps::FoundSnapshot& snapshot, WallTime now);
// All that is known of one, for a person.
std::string ShowSnapshot(const deps::FoundSnapshot& snapshot, WallTime now);

// What a collection has removed, or would remove.
std::string CollectSummary(const deps::CollectReport& report, bool is_dry_run);
nlohmann::json CollectValue(const deps::CollectReport& report, bool is_dry_run);

std::string RecordSummary(const deps::RecordReport& report, double seconds);
nlohmann::json RecordValue(const deps::RecordReport& report, WallTime now, double seconds);

Table DifferenceTable(const std::vector<deps::KeyDifference>& differences);
nlohmann::json DifferencesValue(const std::vector<deps::KeyDifference>& differences);

// What a recording is at.
std::string PhaseText(const deps::RecordProgress& progress);

}  // namespace paceline::cli
