#include "agent/csi/deps_keeper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/deps/uses.h"

namespace paceline::agent {
namespace {

constexpr Duration kStoreLimit = std::chrono::minutes(2);
constexpr Duration kLongestPeriod = std::chrono::hours(1);
constexpr Duration kShortestPeriod = std::chrono::seconds(1);
// A use is written anew when a day of its week is over.
constexpr Duration kRenewAfter = std::chrono::hours(24);

// Uses must be there well before the grace is over.
Duration PeriodOf(const DepsKeeperOptions& options) {
  Duration period = std::min(kLongestPeriod, options.grace / 4);
  if (options.collect_period.count() > 0) period = std::min(period, options.collect_period);
  return std::max(period, kShortestPeriod);
}

}  // namespace

DepsKeeper::DepsKeeper(DepsKeeperOptions options, const Clock& clock, Logger& log)
    : options_(std::move(options)), clock_(clock), log_(log) {}

DepsKeeper::~DepsKeeper() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void DepsKeeper::Start() {
  if (options_.store.empty()) return;
  thread_ = std::jthread([this](std::stop_token stop) {
    do {
      LookAfter();
    } while (clock_.SleepFor(PeriodOf(options_), stop));
  });
}

void DepsKeeper::LookAfter() {
  const Status kept = KeepUses();
  if (kept.code() == StatusCode::kUnimplemented) {
    if (!has_told_of_store_ && options_.collect_period.count() > 0) {
      log_.Info("agents remove no dependency snapshots from this store: it cannot list them; let its own rules do so",
                {{"store", options_.store}});
    }
    has_told_of_store_ = true;
    return;
  }
  Tell("uses of dependency snapshots were not written, retrying", kept, &use_failure_);
  // Without them others would not know what is used here; and so do we not know what others use.
  if (kept.ok() && options_.collect_period.count() > 0 && !options_.folder.empty()) Collect();
}

Status DepsKeeper::KeepUses() {
  ASSIGN_OR_RETURN(const std::set<blocks::Digest> used, options_.list_used());
  const Result<std::unique_ptr<blocks::BlobStore>> readable = options_.open_for_reading();
  // Opening it for writing would make it, perhaps on a disk where the real one is not mounted.
  if (readable.status().code() == StatusCode::kNotFound && used.empty()) return Status();
  if (!readable.ok()) return readable.status();
  const Deadline deadline = Deadline::After(clock_, kStoreLimit);
  ASSIGN_OR_RETURN(const std::vector<deps::Use> noted, deps::ListUses(**readable, options_.node, deadline));
  const WallTime now = clock_.WallNow();
  std::vector<std::string> over;
  std::set<blocks::Digest> missing = used;
  for (const deps::Use& use : noted) {
    if (!used.contains(use.snapshot)) over.push_back(use.tag);
    if (use.until > now + deps::kUseLife - kRenewAfter) missing.erase(use.snapshot);
  }
  if (over.empty() && missing.empty()) return Status();
  ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store, options_.open_for_writing());
  for (const std::string& tag : over) RETURN_IF_ERROR(store->RemoveTag(tag, deadline));
  Status first_failure;
  for (const blocks::Digest& snapshot : missing) {
    const Status written = deps::WriteUse(*store, snapshot, options_.node, now + deps::kUseLife, deadline);
    // Of a snapshot whose manifest is gone there is nothing to keep.
    if (written.ok() || written.code() == StatusCode::kNotFound) continue;
    if (first_failure.ok()) first_failure = written;
  }
  return first_failure;
}

void DepsKeeper::Collect() {
  deps::CollectOptions collect;
  collect.grace = options_.grace;
  collect.min_interval = options_.collect_period;
  if (!options_.open_for_reading().ok()) return;  // there is none yet
  const Result<deps::CollectReport> report =
      deps::CollectStore(options_.folder, options_.lease_folder, collect, clock_);
  // Somebody records or collects: the next time.
  if (report.status().code() == StatusCode::kAborted) return;
  Tell("store of dependency snapshots not cleaned up, retrying", report.status(), &collect_failure_);
  if (!report.ok() || !report->was_due) return;
  if (options_.metrics != nullptr) options_.metrics->CountCollection(*report);
  if (report->removed_keys.empty() && report->blobs.removed == 0) return;
  log_.Info("dependency snapshots removed from the store",
            {{"snapshots", fmt::format("{}", fmt::join(report->removed_keys, ", "))},
             {"in_use", report->in_use},
             {"blobs", report->blobs.removed},
             {"bytes", report->blobs.removed_bytes}});
}

// Once for each new reason.
void DepsKeeper::Tell(const std::string& what, const Status& status, Status* before) {
  if (!status.ok() && !(status == *before)) log_.Warn(what, {{"error", status}});
  *before = status;
}

}  // namespace paceline::agent
