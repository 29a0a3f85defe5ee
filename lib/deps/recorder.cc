#include "lib/deps/recorder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/filesystem.h"
#include "lib/deps/lease.h"
#include "lib/deps/machine_facts.h"
#include "lib/deps/offer.h"
#include "lib/deps/tar_stream.h"
#include "lib/deps/tree_checks.h"

namespace paceline::deps {
namespace {

constexpr char kMustBeBare[] =
    "what is recorded must start bare: remove what lies in the directories, or say --empty-first";

std::string Below(const std::string& root, const char* name) { return (root == "/" ? "" : root) + "/" + name; }

class Recording {
 public:
  Recording(const RecordRequest& request, blocks::BlobStore& store, RecordProgress* progress, const Clock& clock,
            const std::stop_token& stop, const InstalledTree* installed = nullptr)
      : request_(request),
        installed_(installed),
        store_(store),
        progress_(progress),
        clock_(clock),
        stop_(stop),
        rules_(request.key.exclude, request.key.capture),
        view_(installed == nullptr ? TreeView() : installed->view),
        max_files_(installed == nullptr ? kMaxScannedFiles : installed->max_files),
        inputs_(request.key) {}

  RecordOutcome Run() {
    outcome_.status = installed_ == nullptr ? Record() : RecordWhatIsThere();
    return std::move(outcome_);
  }

 private:
  using Phase = RecordProgress::Phase;

  Deadline Soon() const { return Deadline::After(clock_, request_.convert.store_limit); }
  const std::vector<std::string>& roots() const { return request_.key.capture; }

  Status Record() {
    RETURN_IF_ERROR(TakeKey());
    ASSIGN_OR_RETURN(const bool is_there, TakeLeases());
    if (is_there) return Status();
    if (is_installed_) {
      return InvalidArgumentError(roots().front() + " holds what another snapshot brought, and " + kMustBeBare);
    }
    RETURN_IF_ERROR(MakeRoots());
    ASSIGN_OR_RETURN(before_, ScanTrees(roots(), rules_));
    RETURN_IF_ERROR(Mark());
    const Status installed = Install();
    if (!installed.ok()) return installed;
    RETURN_IF_ERROR(Capture());
    RETURN_IF_ERROR(Store());
    return LeaveSentinels();
  }

  Status RecordWhatIsThere() {
    outcome_.report.install.seconds = installed_->seconds;
    SetKey();
    ASSIGN_OR_RETURN(const bool is_there, TakeLeases());
    if (is_there) return Status();
    // Empty directories are as good as none.
    for (const std::string& root : roots()) {
      ASSIGN_OR_RETURN(before_.files[root], FactsOf(view_, root));
      before_.roots.push_back(root);
    }
    RETURN_IF_ERROR(Capture());
    return Store();
  }

  void SetKey() {
    document_ = DumpJson(KeyDocument(inputs_));
    key_ = blocks::Sha256Of(document_).Hex();
  }

  Status TakeKey() {
    ASSIGN_OR_RETURN(const BaseState base, LookAtBase(roots(), rules_));
    if (base.was_cut_off) {
      return InvalidArgumentError("an install that failed or was cut off has left " + roots().front() +
                                  " half full, and " + kMustBeBare);
    }
    is_installed_ = !base.sentinel_key.empty();
    inputs_.base = base.base;
    SetKey();
    return Status();
  }

  // From here to the end nobody else records this key, and nobody collects in the store. True when there is a snapshot
  // already.
  Result<bool> TakeLeases() {
    ASSIGN_OR_RETURN(no_collector_,
                     Lease::Take(request_.lease_folder, kStoreLease, Lease::Mode::kShared, clock_, Soon(), stop_));
    const Deadline wait = Deadline::After(clock_, request_.wait);
    ASSIGN_OR_RETURN(lease_, Lease::Take(request_.lease_folder, key_, Lease::Mode::kExclusive, clock_, wait, stop_));
    return FindExisting();
  }

  Result<bool> FindExisting() {
    if (request_.records_again) return false;
    Offer offer = FindOffer(store_, key_, request_.trust, clock_.WallNow(), Soon());
    if (offer.state == OfferState::kUnavailable) return offer.why;
    // Whatever is there and of no use is replaced.
    if (offer.state != OfferState::kUsable) return false;
    outcome_.report.was_there = true;
    outcome_.report.snapshot = *std::move(offer.snapshot);
    return true;
  }

  // So that the paths are real ones: what a root is made of must not change under the recording.
  Status MakeRoots() const {
    for (const std::string& root : roots()) RETURN_IF_ERROR(RealFileSystem().MakeDirectories(root, 0755));
    return Status();
  }

  // Found by the next recording if this one is cut off.
  Status Mark() const {
    for (const std::string& root : roots()) {
      RETURN_IF_ERROR(RealFileSystem().WriteFileAtomically(Below(root, kRecordingName), key_ + "\n", 0644));
    }
    return Status();
  }

  Status Install() {
    progress_->phase = Phase::kInstalling;
    ASSIGN_OR_RETURN(outcome_.report.install,
                     RunInstall(request_.key.command, request_.environment, request_.output, clock_));
    outcome_.ran_install = true;
    if (outcome_.report.install.code == 0) return Status();
    return UnavailableError(
        fmt::format("the install command ended with {}; nothing was recorded", outcome_.report.install.code));
  }

  Status Capture() {
    progress_->phase = Phase::kComparing;
    const TimePoint start = clock_.Now();
    ASSIGN_OR_RETURN(const TreeScan after, ScanTrees(roots(), rules_, view_, max_files_));
    if (installed_ != nullptr) RETURN_IF_ERROR(installed_->on_scanned());
    CaptureOptions options;
    options.roots = roots();
    options.times = request_.key.times;
    options.privileges = request_.privileges;
    options.sentinel = SentinelText(key_, inputs_.base);
    options.view = view_;
    ASSIGN_OR_RETURN(tree_, CaptureTree(before_, after, options));
    if (tree_.files + tree_.removed == 0) {
      return InvalidArgumentError("the install changed nothing in " + fmt::format("{}", fmt::join(roots(), ", ")) +
                                  ": name the directories that it writes to with --capture");
    }
    progress_->phase = Phase::kChecking;
    CheckRules checks{roots(), request_.allowed_secrets, GlibcVersion(request_.key.machine.libc), view_};
    ASSIGN_OR_RETURN(findings_, CheckTree(tree_, checks));
    outcome_.report.scan_seconds = ToSeconds(clock_.Now() - start);
    if (findings_.refusals.empty()) return Status();
    return InvalidArgumentError(
        fmt::format("not published, for it would travel:\n  {}", fmt::join(findings_.refusals, "\n  ")));
  }

  SnapshotRecord MakeRecord(const blocks::ConvertedLayer& converted) const {
    SnapshotRecord record;
    record.key_document = document_;
    record.created = clock_.WallNow();
    const Duration life = request_.pinning.is_pinned ? kPinnedLife : kFloatingLife;
    record.expires = record.created + (request_.ttl.count() > 0 ? request_.ttl : life);
    record.is_pinned = request_.pinning.is_pinned;
    record.class_reason = request_.pinning.reason;
    record.install_seconds = outcome_.report.install.seconds;
    record.files = tree_.files;
    record.bytes = tree_.bytes;
    record.removed = tree_.removed;
    record.new_bytes = converted.stored_bytes;
    for (const blocks::Descriptor& data : converted.layer.data) record.stored_bytes += data.size_bytes;
    record.dropped = tree_.dropped;
    record.external_links = findings_.external_links;
    record.warnings = findings_.warnings;
    record.recorded_by = request_.recorded_by;
    return record;
  }

  Status Store() {
    progress_->phase = Phase::kStoring;
    const TimePoint start = clock_.Now();
    ASSIGN_OR_RETURN(const blocks::KnownChunks known,
                     LoadKnownChunks(store_, request_.key.ns, roots(), request_.trust, Soon()));
    blocks::ConvertOptions options = request_.convert;
    options.known = &known;
    ASSIGN_OR_RETURN(const blocks::ConvertedLayer converted,
                     blocks::ConvertTree(NewTreeSource(tree_, request_.privileges, view_), store_, options, clock_,
                                         &progress_->conversion, stop_));
    progress_->phase = Phase::kPublishing;
    SnapshotManifest manifest;
    manifest.key = key_;
    manifest.ns = request_.key.ns;
    const SnapshotRecord record = MakeRecord(converted);
    manifest.created = FormatRfc3339(record.created);
    manifest.layer = converted.layer;
    manifest.platform = "linux/" + request_.key.machine.arch;
    ASSIGN_OR_RETURN(outcome_.report.snapshot,
                     PublishSnapshot(store_, std::move(manifest), record, request_.trust.signing, Soon()));
    outcome_.report.store_seconds = ToSeconds(clock_.Now() - start);
    return Status();
  }

  // The tree here is the environment, too.
  Status LeaveSentinels() const {
    RealFileSystem files;
    for (const std::string& root : roots()) {
      RETURN_IF_ERROR(files.WriteFileAtomically(Below(root, kSentinelName), SentinelText(key_, inputs_.base), 0644));
      RETURN_IF_ERROR(files.Remove(Below(root, kRecordingName)));
    }
    return Status();
  }

  const RecordRequest& request_;
  const InstalledTree* const installed_;  // null: the install is ours to run
  blocks::BlobStore& store_;
  RecordProgress* progress_;
  const Clock& clock_;
  const std::stop_token& stop_;
  const CaptureRules rules_;
  const TreeView view_;
  const size_t max_files_;
  KeyInputs inputs_;
  std::string document_, key_;
  bool is_installed_ = false;
  std::optional<Lease> no_collector_, lease_;
  TreeScan before_;
  CapturedTree tree_;
  TreeFindings findings_;
  RecordOutcome outcome_;
};

}  // namespace

Result<BaseState> LookAtBase(const std::vector<std::string>& roots, const CaptureRules& rules) {
  BaseState state;
  size_t found = 0;
  for (const std::string& root : roots) {
    state.was_cut_off = state.was_cut_off || ::access(Below(root, kRecordingName).c_str(), F_OK) == 0;
    const Result<Sentinel> sentinel = ReadSentinel(root);
    if (!sentinel.ok()) continue;
    if (found > 0 && sentinel->key != state.sentinel_key) continue;
    state.sentinel_key = sentinel->key;
    state.base = sentinel->base;
    ++found;
  }
  state.has_sentinels = found == roots.size();
  if (found > 0) return state;
  ASSIGN_OR_RETURN(const TreeScan scan, ScanTrees(roots, rules));
  state.base = BaseOf(scan);
  return state;
}

RecordOutcome RecordInstall(const RecordRequest& request, blocks::BlobStore& store, RecordProgress* progress,
                            const Clock& clock, const std::stop_token& stop) {
  return Recording(request, store, progress, clock, stop).Run();
}

RecordOutcome RecordInstalled(const RecordRequest& request, const InstalledTree& tree, blocks::BlobStore& store,
                              RecordProgress* progress, const Clock& clock, const std::stop_token& stop) {
  return Recording(request, store, progress, clock, stop, &tree).Run();
}

}  // namespace paceline::deps
