#include "cli/deps_tables.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/fs_tables.h"

namespace paceline::cli {
namespace {

constexpr size_t kShownKeyDigits = 12;
constexpr size_t kShownText = 60;

std::string Cut(const std::string& text) {
  return text.size() <= kShownText ? text : text.substr(0, kShownText - 3) + "...";
}

std::string SnapshotState(const deps::FoundSnapshot& snapshot, WallTime now) {
  if (snapshot.manifest.quarantine) return "quarantined";
  return deps::HasEnded(snapshot.record, now) ? "expired" : "ready";
}

}  // namespace

Table SnapshotTable(const std::vector<deps::FoundSnapshot>& snapshots, WallTime now) {
  Table table{{"KEY", "NAMESPACE", "STATE", "CREATED", "EXPIRES", "FILES", "SIZE", "STORED", "NEW", "COMMAND"}, {}};
  for (const deps::FoundSnapshot& snapshot : snapshots) {
    const deps::SnapshotRecord& record = snapshot.record;
    table.rows.push_back({snapshot.manifest.key.substr(0, kShownKeyDigits), snapshot.manifest.ns,
                          SnapshotState(snapshot, now), FormatRfc3339(record.created), FormatRfc3339(record.expires),
                          fmt::format("{}", record.files), SizeText(record.bytes), SizeText(record.stored_bytes),
                          SizeText(record.new_bytes), Cut(deps::KeyField(record, "command"))});
  }
  return table;
}

nlohmann::json SnapshotValue(const deps::FoundSnapshot& snapshot, WallTime now) {
  nlohmann::json value = ParseJson(deps::EncodeRecord(snapshot.record)).value_or(nlohmann::json::object());
  value["key"] = snapshot.manifest.key;
  value["namespace"] = snapshot.manifest.ns;
  value["digest"] = snapshot.descriptor.digest.ToString();
  value["state"] = SnapshotState(snapshot, now);
  if (const auto& aside = snapshot.manifest.quarantine; aside) {
    value["quarantine"] = {{"why", aside->why}, {"by", aside->by}, {"at", aside->at}};
  }
  value["diffId"] = snapshot.manifest.layer.diff_id.ToString();
  return value;
}

std::string ShowSnapshot(const deps::FoundSnapshot& snapshot, WallTime now) {
  const deps::SnapshotRecord& record = snapshot.record;
  std::string text = fmt::format(
      "key        {}\ndigest     {}\nnamespace  {}\nstate      {}\ncreated    {}\nexpires    {}\nclass      {} ({})\n",
      snapshot.manifest.key, snapshot.descriptor.digest.ToString(), snapshot.manifest.ns, SnapshotState(snapshot, now),
      FormatRfc3339(record.created), FormatRfc3339(record.expires), record.is_pinned ? "pinned" : "floating",
      record.class_reason);
  if (const auto& aside = snapshot.manifest.quarantine; aside) {
    text += fmt::format("put aside  {} by {}: {}\n", aside->at, aside->by, aside->why);
  }
  for (const auto& [name, value] : record.recorded_by) text += fmt::format("{:<10} {}\n", "by " + name, value);
  text +=
      fmt::format("command    {}\ninstall    {}\nfiles      {} ({}), {} removed\nstored     {}, {} of it new\n",
                  deps::KeyField(record, "command"), FormatSeconds(record.install_seconds), record.files,
                  SizeText(record.bytes), record.removed, SizeText(record.stored_bytes), SizeText(record.new_bytes));
  for (const std::string& directory : deps::KeyList(record, "capture")) text += "directory  " + directory + "\n";
  for (const auto& [reason, count] : record.dropped) text += fmt::format("left out   {} ({})\n", reason, count);
  for (const deps::ExternalLink& link : record.external_links) {
    text += fmt::format("needs      {} (linked from {})\n", deps::LinkTarget(link.path, link.target), link.path);
  }
  for (const std::string& warning : record.warnings) text += "warning    " + warning + "\n";
  return text;
}

std::string CollectSummary(const deps::CollectReport& report, bool is_dry_run) {
  std::string text = is_dry_run ? "would remove: " : "removed: ";
  uint64_t snapshots = 0;
  for (const auto& [reason, count] : report.removed) {
    text += fmt::format("{} {} snapshots, ", count, deps::RemovalReasonText(reason));
    snapshots += count;
  }
  if (snapshots == 0) text += "no snapshots, ";
  text += fmt::format("{} blobs with {}; {} blobs are in use, {} too young to tell", report.blobs.removed,
                      SizeText(report.blobs.removed_bytes), report.blobs.kept, report.blobs.young);
  if (report.in_use > 0) text += fmt::format("; {} ended snapshots are still mounted somewhere", report.in_use);
  return text + "\n";
}

nlohmann::json CollectValue(const deps::CollectReport& report, bool is_dry_run) {
  nlohmann::json value = {{"removedBlobs", report.blobs.removed}, {"removedBytes", report.blobs.removed_bytes},
                          {"youngBlobs", report.blobs.young},     {"keptBlobs", report.blobs.kept},
                          {"inUseSnapshots", report.in_use},      {"dryRun", is_dry_run}};
  for (const deps::RemovalReason reason : {deps::RemovalReason::kExpired, deps::RemovalReason::kSuperseded,
                                           deps::RemovalReason::kOrphaned, deps::RemovalReason::kQuarantined}) {
    const auto found = report.removed.find(reason);
    value[std::string(deps::RemovalReasonText(reason)) + "Snapshots"] =
        found == report.removed.end() ? uint64_t{0} : found->second;
  }
  return value;
}

std::string RecordSummary(const deps::RecordReport& report, double seconds) {
  const deps::SnapshotRecord& record = report.snapshot.record;
  const std::string key = report.snapshot.manifest.key.substr(0, kShownKeyDigits);
  if (report.was_there) {
    return fmt::format("{} is recorded already ({}); nothing was run. Put it in place with: pacectl deps restore\n",
                       key, FormatRfc3339(record.created));
  }
  std::string text =
      fmt::format("recorded {}: {} files, {}, {} stored, {} of it new; {} in all, the install took {}\n", key,
                  record.files, SizeText(record.bytes), SizeText(record.stored_bytes), SizeText(record.new_bytes),
                  FormatSeconds(seconds), FormatSeconds(report.install.seconds));
  for (const std::string& warning : record.warnings) text += "warning: " + warning + "\n";
  return text;
}

nlohmann::json RecordValue(const deps::RecordReport& report, WallTime now, double seconds) {
  nlohmann::json value = SnapshotValue(report.snapshot, now);
  value["wasThere"] = report.was_there;
  value["seconds"] = seconds;
  value["compareSeconds"] = report.scan_seconds;
  value["storeSeconds"] = report.store_seconds;
  return value;
}

Table DifferenceTable(const std::vector<deps::KeyDifference>& differences) {
  Table table{{"FIELD", "RECORDED", "NOW"}, {}};
  for (const deps::KeyDifference& difference : differences) {
    table.rows.push_back({difference.field, Cut(difference.recorded), Cut(difference.now)});
  }
  return table;
}

nlohmann::json DifferencesValue(const std::vector<deps::KeyDifference>& differences) {
  nlohmann::json list = nlohmann::json::array();
  for (const deps::KeyDifference& difference : differences) {
    list.push_back({{"field", difference.field}, {"recorded", difference.recorded}, {"now", difference.now}});
  }
  return list;
}

std::string PhaseText(const deps::RecordProgress& progress) {
  using Phase = deps::RecordProgress::Phase;
  switch (progress.phase.load()) {
    case Phase::kScanning: return "looking at the directories";
    case Phase::kInstalling: return "";
    case Phase::kComparing: return "looking for what the install changed";
    case Phase::kChecking: return "looking for credentials and dead ends";
    case Phase::kStoring:
      return fmt::format("{} read  {} stored", SizeText(progress.conversion.tar_bytes),
                         SizeText(progress.conversion.stored_bytes));
    case Phase::kPublishing: return "publishing";
  }
  return "";
}

}  // namespace paceline::cli
