#include "agent/csi/deps_volume.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/csi/held_mounts.h"
#include "lib/base/json.h"
#include "lib/base/mutex.h"
#include "lib/deps/offer.h"
#include "lib/deps/quarantine.h"

namespace paceline::agent {
namespace {

using api::InstallCause;

constexpr char kHeldKind[] = "deps";
constexpr char kServer[] = "paceline-snapshotter";
constexpr char kFateSuffix[] = ".json";
constexpr char kControlVariable[] = "PACELINE_SNAPSHOTTER_CONTROL";
constexpr char kKeeperVariable[] = "PACELINE_SNAPSHOTTER_KEEPER";
constexpr char kHotSetVariable[] = "PACELINE_SNAPSHOTTER_HOT_SET";
constexpr char kWrapperName[] = "paceline-deps";
constexpr unsigned kOpenMode = 0777;  // any user of the pod may write
constexpr unsigned kWayMode = 0755;   // the way there
constexpr unsigned kOwnMode = 0700;   // for nobody but us
constexpr size_t kMaxWrapperBytes = 64 << 20;
constexpr Duration kListLimit = std::chrono::seconds(5);
constexpr Duration kPutAsideLimit = std::chrono::seconds(5);
constexpr Duration kPutAsideAgain = std::chrono::minutes(1);  // after a failure

void GiveUp(InstallCause cause, std::string reason, DepsFate* fate) {
  fate->image.clear();
  fate->snapshot = {};
  fate->cause = cause;
  fate->reason = std::move(reason);
}

// What a mount's statistics say of chunks that the store has no right bytes of; 0 when they say nothing.
int64_t LostChunks(const std::string& stats) {
  const Result<Json> json = ParseJson(stats);
  return json.ok() ? JsonIntOr(*json, "lostChunks", 0).value_or(0) : 0;
}

std::optional<InstallCause> CauseOf(deps::OfferState state) {
  switch (state) {
    case deps::OfferState::kUsable: return std::nullopt;
    case deps::OfferState::kNone: return InstallCause::kNoSnapshot;
    case deps::OfferState::kEnded: return InstallCause::kSnapshotEnded;
    case deps::OfferState::kQuarantined: return InstallCause::kQuarantined;
    case deps::OfferState::kDamaged: return InstallCause::kDamaged;
    case deps::OfferState::kNotTrusted: return InstallCause::kNotTrusted;
    case deps::OfferState::kUnavailable: break;
  }
  return InstallCause::kStoreUnavailable;
}

// As the pod's log and its run say it.
std::string ReasonOf(const deps::Offer& offer) {
  if (offer.state == deps::OfferState::kNone) return "no snapshot yet";
  if (offer.state == deps::OfferState::kEnded) return "the snapshot has ended";
  return "the snapshot cannot be used: " + offer.why.message();
}

// A bind of the volume's folder; one that was deleted under its mount is none.
bool IsBindOf(const MountEntry& mount, const std::string& volume_id) {
  return mount.root.ends_with("/deps/" + volume_id);
}

class DepsVolumeImpl final : public DepsVolume {
 public:
  DepsVolumeImpl(DepsVolumeOptions options, std::unique_ptr<HolderClient> holder, VolumeHost& host,
                 const FileSystem& files, const Clock& clock, Logger& log)
      : options_(std::move(options)),
        folders_(options_.state_dir + "/deps"),
        staging_(options_.state_dir + "/deps-new"),
        trash_(options_.state_dir + "/deps-trash"),
        fates_(options_.state_dir + "/deps-state"),
        holder_(std::move(holder)),
        host_(host),
        files_(files),
        clock_(clock),
        log_(log),
        recorder_(
            options_.recorder, host,
            [this](const std::string& volume_id, const InstallVolume& volume, const RecordingEnd& end) {
              NoteEnd(volume_id, volume, end);
            },
            clock, log) {}

  std::string_view name() const override { return kDepsVolumeType; }
  bool serves_persistent() const override { return false; }
  Status Validate(const VolumeSpec& spec) const override { return ReadDepsOrder(spec).status(); }
  Status Publish(const VolumeSpec& spec, Deadline deadline) override;
  Status Unpublish(const VolumeSpec& spec, Deadline deadline) override;
  std::optional<VolumeHealth> Look(const VolumeSpec& spec, Deadline deadline) override;
  Status RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) override;
  Status TakeOutTrash() override;
  DepsRecorder& recorder() override { return recorder_; }
  Result<std::set<blocks::Digest>> UsedSnapshots() override;

 private:
  DepsFate Decide(const VolumeSpec& spec, const DepsOrder& order, Deadline deadline);
  deps::Offer FindOffer(const DepsOrder& order, Deadline deadline);
  // True when the snapshot is out of the way; the fate says so then.
  bool PutAside(const deps::QuarantineOrder& order, InstallCause cause, Deadline deadline, DepsFate* fate);
  void SeeLostChunks(const VolumeSpec& spec, const std::string& stats, DepsFate* fate);
  Status MountSnapshot(const VolumeSpec& spec, const std::string& image, Deadline deadline);
  Status StopMount(const std::string& volume_id, Deadline deadline);
  Status MakeFolder(const VolumeSpec& spec, const DepsOrder& order);
  Status FillFolder(const std::string& folder, const DepsOrder& order);
  Status BindFolder(const VolumeSpec& spec);
  Status Discard(const std::string& volume_id);
  Status RemoveOrphanMounts(const std::function<bool(const std::string& volume_id)>& is_known);

  void NoteEnd(const std::string& volume_id, const InstallVolume& volume, const RecordingEnd& end);
  void NoteNoInstall(const VolumeSpec& spec);
  Result<DepsFate> LoadFate(const std::string& volume_id) const;
  Status StoreFate(const std::string& volume_id, const DepsFate& fate);
  std::string FatePath(const std::string& volume_id) const {
    return fmt::format("{}/{}{}", fates_, volume_id, kFateSuffix);
  }
  std::string FolderOf(const std::string& volume_id) const { return folders_ + "/" + volume_id; }
  static std::string TreeAt(const VolumeSpec& spec) { return spec.target.path + "/" + kDepsTree; }

  const DepsVolumeOptions options_;
  const std::string folders_;  // one for each volume, named by its id: what is bound to the target
  const std::string staging_;  // where such a folder is made before it gets its name
  const std::string trash_;    // folders of ended volumes
  const std::string fates_;    // out of the reach of containers
  const std::unique_ptr<HolderClient> holder_;
  VolumeHost& host_;
  const FileSystem& files_;
  const Clock& clock_;
  Logger& log_;
  Mutex mutex_;
  std::map<std::string, TimePoint> put_aside_again_ GUARDED_BY(mutex_);  // by volume: when to try again
  DepsRecorder recorder_;                                                // last: its threads use all of the above
};

Status DepsVolumeImpl::Publish(const VolumeSpec& spec, Deadline deadline) {
  ASSIGN_OR_RETURN(const DepsOrder order, ReadDepsOrder(spec));
  const Result<DepsFate> known = LoadFate(spec.volume_id);
  if (!known.ok() && known.status().code() != StatusCode::kNotFound) return known.status();
  const bool is_first = !known.ok();
  const TimePoint begin = clock_.Now();
  DepsFate fate = is_first ? Decide(spec, order, deadline) : *known;
  RETURN_IF_ERROR(MakeFolder(spec, order));
  RETURN_IF_ERROR(BindFolder(spec));
  if (!fate.image.empty()) {
    const Status mounted = MountSnapshot(spec, fate.image, deadline);
    if (!mounted.ok() && !is_first) return mounted;
    if (!mounted.ok()) {
      RETURN_IF_ERROR(host_.Unmount(TreeAt(spec)));
      GiveUp(InstallCause::kNotMounted, "the snapshot could not be mounted: " + mounted.message(), &fate);
      fate.may_be_held = !StopMount(spec.volume_id, deadline).ok();
    }
  }
  if (is_first) {
    if (!fate.image.empty()) fate.seconds = ToSeconds(clock_.Now() - begin);
    RETURN_IF_ERROR(StoreFate(spec.volume_id, fate));
    if (options_.metrics != nullptr) options_.metrics->CountStart(fate);
    log_.Info(fate.image.empty() ? "dependencies are to be installed" : "dependencies restored",
              {{"volume", spec.volume_id},
               {"pod", spec.pod.ns + "/" + spec.pod.name},
               {"key", order.key ? KeyOf(order) : ""},
               {"reason", fate.reason}});
  }
  const bool may_record = fate.image.empty() && !fate.is_over && order.key && !options_.store.empty();
  if (may_record) recorder_.Watch(spec.volume_id, {FolderOf(spec.volume_id), order, spec.pod, fate});
  return Status();
}

// Never fails: whatever keeps a snapshot from being used means that the install runs.
DepsFate DepsVolumeImpl::Decide(const VolumeSpec& spec, const DepsOrder& order, Deadline deadline) {
  DepsFate fate;
  fate.service_account = spec.pod.service_account;
  fate.at = std::chrono::floor<std::chrono::microseconds>(clock_.WallNow());  // as it is kept and told
  if (!order.key) {
    GiveUp(InstallCause::kNotCacheable, order.reason.empty() ? "no key" : order.reason, &fate);
    fate.is_over = true;
    return fate;
  }
  fate.key = KeyOf(order);
  if (options_.store.empty()) {
    GiveUp(InstallCause::kNoStore, "this agent has no store (dependencies.store)", &fate);
    fate.is_over = true;
    return fate;
  }
  const Deadline limit = deadline.Min(Deadline::After(clock_, options_.find_limit));
  deps::Offer offer = FindOffer(order, limit);
  const auto is_wrong = [](const deps::Offer& seen) {
    return seen.state == deps::OfferState::kDamaged || seen.state == deps::OfferState::kNotTrusted;
  };
  // A second look, from the beginning: what was cut short on the way is whole now.
  if (is_wrong(offer)) offer = FindOffer(order, limit);
  const std::optional<InstallCause> cause = CauseOf(offer.state);
  if (!cause) {
    fate.image = blocks::Sha256Of(deps::DerivedImage(offer.snapshot->manifest, offer.snapshot->descriptor)).ToString();
    fate.snapshot = FactsOf(*offer.snapshot);
    return fate;
  }
  GiveUp(*cause, ReasonOf(offer), &fate);
  if (is_wrong(offer)) {
    deps::QuarantineOrder quarantine{fate.key, spec.pod.ns, std::nullopt, offer.why.message(), options_.node};
    if (offer.snapshot) quarantine.snapshot = offer.snapshot->descriptor.digest;
    PutAside(quarantine, *cause, limit, &fate);
  }
  return fate;
}

deps::Offer DepsVolumeImpl::FindOffer(const DepsOrder& order, Deadline deadline) {
  deps::Trust trust;
  if (options_.trust.is_required) {
    Result<deps::Trust> loaded = deps::LoadTrust(options_.trust, files_);
    if (!loaded.ok()) return {deps::OfferState::kUnavailable, loaded.status(), std::nullopt};
    trust = *std::move(loaded);
  }
  const Result<std::unique_ptr<blocks::BlobStore>> store = options_.open_for_reading();
  if (!store.ok()) {
    const bool is_absent = store.status().code() == StatusCode::kNotFound;
    return {is_absent ? deps::OfferState::kNone : deps::OfferState::kUnavailable, store.status(), std::nullopt};
  }
  return deps::FindOffer(**store, KeyOf(order), trust, clock_.WallNow(), deadline);
}

bool DepsVolumeImpl::PutAside(const deps::QuarantineOrder& order, InstallCause cause, Deadline deadline,
                              DepsFate* fate) {
  const WallTime now = std::chrono::floor<std::chrono::microseconds>(clock_.WallNow());
  const auto run = [&]() -> Result<bool> {
    ASSIGN_OR_RETURN(const std::unique_ptr<blocks::BlobStore> store, options_.open_for_writing());
    return deps::PutAside(*store, order, now, deadline);
  };
  const Result<bool> done = run();
  if (!done.ok()) {
    log_.Warn("dependency snapshot not put aside", {{"key", order.key}, {"error", done.status()}});
    return false;
  }
  fate->quarantined = order.why;
  fate->quarantined_at = now;
  if (!*done) return true;  // another node was first
  log_.Warn("dependency snapshot put aside", {{"key", order.key},
                                              {"namespace", order.ns},
                                              {"digest", order.snapshot ? order.snapshot->ToString() : ""},
                                              {"reason", order.why}});
  if (options_.metrics != nullptr) options_.metrics->CountQuarantine(cause);
  return true;
}

// The program has got an I/O error, or will when it reads there. Nobody else should.
void DepsVolumeImpl::SeeLostChunks(const VolumeSpec& spec, const std::string& stats, DepsFate* fate) {
  const int64_t lost = LostChunks(stats);
  const Result<blocks::Digest> snapshot = blocks::ParseDigest(fate->snapshot.digest);
  if (lost == 0 || !fate->quarantined.empty() || !snapshot.ok()) return;
  {
    MutexLock lock(mutex_);
    TimePoint& again = put_aside_again_[spec.volume_id];
    if (clock_.Now() < again) return;
    again = clock_.Now() + kPutAsideAgain;
  }
  const std::string why = fmt::format("the store has no right bytes of {} of its chunks", lost);
  const deps::QuarantineOrder order{fate->key, spec.pod.ns, *snapshot, why, options_.node};
  if (!PutAside(order, InstallCause::kDamaged, Deadline::After(clock_, kPutAsideLimit), fate)) return;
  StoreFate(spec.volume_id, *fate).IgnoreError();  // else it is put aside once more, which changes nothing
}

Result<std::set<blocks::Digest>> DepsVolumeImpl::UsedSnapshots() {
  std::set<blocks::Digest> used;
  const Result<std::vector<std::string>> names = host_.ListDirectory(fates_);
  if (names.status().code() == StatusCode::kNotFound) return used;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const Result<DepsFate> fate = LoadFate(name.substr(0, name.rfind(kFateSuffix)));
    if (!fate.ok() && fate.status().code() != StatusCode::kNotFound) return fate.status();
    if (!fate.ok() || fate->image.empty()) continue;
    if (const Result<blocks::Digest> digest = blocks::ParseDigest(fate->snapshot.digest); digest.ok()) {
      used.insert(*digest);
    }
  }
  return used;
}

Status DepsVolumeImpl::MountSnapshot(const VolumeSpec& spec, const std::string& image, Deadline deadline) {
  const Deadline limit = deadline.Min(Deadline::After(clock_, options_.mount_limit));
  MountOrder order;
  order.name = HeldMountName(kHeldKind, spec.volume_id);
  order.owner = spec.volume_id;
  order.program = kServer;
  order.arguments = {"serve", "--store", options_.store, "--image", image, "--directory", "{mountPoint}", "--writable"};
  order.arguments.insert(order.arguments.end(), options_.serve_arguments.begin(), options_.serve_arguments.end());
  // Not as flags, with which an older snapshotter would not start.
  order.environment[kControlVariable] = "{control}";
  order.environment[kHotSetVariable] = "record";
  order.environment[kKeeperVariable] = "true";
  Result<HeldMount> mount = holder_->Start(order, limit);
  for (const char* newest : {kKeeperVariable, kHotSetVariable, kControlVariable}) {
    if (mount.status().code() != StatusCode::kPermissionDenied) break;
    // A holder that is older than this agent lets no such variable through. The mount works without.
    order.environment.erase(newest);
    mount = holder_->Start(order, limit);
  }
  if (mount.status().code() == StatusCode::kAlreadyExists) {
    // It runs with what an agent of other settings has said, and stays as it is.
    ASSIGN_OR_RETURN(std::optional<HeldMount> running, holder_->Look(order.name, limit));
    if (IsHeld(running)) mount = *std::move(running);
  }
  if (!mount.ok()) return mount.status();
  ASSIGN_OR_RETURN(const HeldMount ready,
                   AwaitHeld(*holder_, *std::move(mount), "the store may not answer", clock_, limit));
  return BindHeld(host_, TreeAt(spec), ready);
}

Status DepsVolumeImpl::StopMount(const std::string& volume_id, Deadline deadline) {
  const std::string name = HeldMountName(kHeldKind, volume_id);
  ASSIGN_OR_RETURN(const std::optional<HeldMount> stopped, holder_->Stop(name, deadline));
  if (!stopped) return Status();
  return AwaitHeldEnd(*holder_, name, clock_, deadline).status();
}

Status DepsVolumeImpl::MakeFolder(const VolumeSpec& spec, const DepsOrder& order) {
  const std::string folder = FolderOf(spec.volume_id);
  RETURN_IF_ERROR(host_.MakeDirectory(folders_, kOwnMode));
  ASSIGN_OR_RETURN(const bool exists, host_.DirectoryExists(folder));
  if (exists) return Status();
  // Made whole under another name, so that a folder of this name is always usable, whatever cut us off.
  const std::string draft = staging_ + "/" + spec.volume_id;
  RETURN_IF_ERROR(host_.MakeDirectory(staging_, kOwnMode));
  RETURN_IF_ERROR(host_.RemoveTree(draft));
  RETURN_IF_ERROR(FillFolder(draft, order));
  return host_.Rename(draft, folder);
}

Status DepsVolumeImpl::FillFolder(const std::string& folder, const DepsOrder& order) {
  const Result<std::string> wrapper = files_.ReadFile(options_.wrapper, kMaxWrapperBytes);
  // Without it the container has no command to run.
  if (!wrapper.ok()) return UnavailableError("deps volume: this agent has no wrapper: " + wrapper.status().message());
  const std::string program = folder + "/" + kDepsProgram, tree = folder + "/" + kDepsTree;
  RETURN_IF_ERROR(host_.MakeDirectory(folder, kWayMode));
  RETURN_IF_ERROR(host_.MakeDirectory(program, kWayMode));
  RETURN_IF_ERROR(host_.WriteFile(program + "/" + kWrapperName, *wrapper, kWayMode));
  RETURN_IF_ERROR(host_.MakeDirectory(folder + "/" + kDepsControl, kOpenMode));
  RETURN_IF_ERROR(host_.MakeDirectory(tree, kWayMode));
  for (const std::string& directory : order.capture) {
    for (size_t end = directory.find('/', 1); end != std::string::npos; end = directory.find('/', end + 1)) {
      RETURN_IF_ERROR(host_.MakeDirectory(tree + directory.substr(0, end), kWayMode));
    }
    RETURN_IF_ERROR(host_.MakeDirectory(tree + directory, kOpenMode));
  }
  return Status();
}

Status DepsVolumeImpl::BindFolder(const VolumeSpec& spec) {
  const std::string& target = spec.target.path;
  ASSIGN_OR_RETURN(const std::optional<MountEntry> mounted, host_.MountAt(target));
  if (mounted && IsBindOf(*mounted, spec.volume_id)) return Status();
  if (mounted) RETURN_IF_ERROR(host_.Unmount(target));
  RETURN_IF_ERROR(host_.MakeDirectory(target, kMountPointMode));
  return host_.BindMount(FolderOf(spec.volume_id), target);
}

Status DepsVolumeImpl::Unpublish(const VolumeSpec& spec, Deadline deadline) {
  const Result<DepsFate> fate = LoadFate(spec.volume_id);
  if (!fate.ok() && fate.status().code() == StatusCode::kNotFound && spec.type != kDepsVolumeType) {
    ASSIGN_OR_RETURN(const bool is_ours, host_.DirectoryExists(FolderOf(spec.volume_id)));
    if (!is_ours) return Status();  // every type is asked about a volume that has no record
  }
  RETURN_IF_ERROR(host_.Unmount(TreeAt(spec)));
  RETURN_IF_ERROR(host_.Unmount(spec.target.path));
  // There only if it was made while the folder was not bound.
  RETURN_IF_ERROR(host_.RemoveDirectory(TreeAt(spec)));
  RETURN_IF_ERROR(host_.RemoveDirectory(spec.target.path));
  const bool is_held = fate.ok() && !fate->image.empty();
  // What is not known to be without a mount may have one.
  if (is_held || !fate.ok() || fate->may_be_held) {
    const Status stopped = StopMount(spec.volume_id, deadline);
    // Without a holder there is no mount that is worth waiting for.
    if (!stopped.ok() && (is_held || stopped.code() != StatusCode::kUnavailable)) return stopped;
  }
  if (options_.metrics != nullptr) options_.metrics->ForgetMount(spec.volume_id);
  {
    MutexLock lock(mutex_);
    put_aside_again_.erase(spec.volume_id);
  }
  recorder_.EndWatch(spec.volume_id);
  NoteNoInstall(spec);
  RETURN_IF_ERROR(Discard(spec.volume_id));
  return host_.RemoveFile(FatePath(spec.volume_id));
}

// kubelet waits, and an environment has many files: out of the way in one step, emptied later.
Status DepsVolumeImpl::Discard(const std::string& volume_id) {
  const std::string folder = FolderOf(volume_id);
  ASSIGN_OR_RETURN(const bool exists, host_.DirectoryExists(folder));
  if (!exists) return Status();
  RETURN_IF_ERROR(host_.MakeDirectory(trash_, kOwnMode));
  const Status moved = host_.Rename(folder, trash_ + "/" + volume_id);
  // Of the same volume, published before: nobody needs it.
  if (moved.code() != StatusCode::kAlreadyExists) return moved;
  return host_.RemoveTree(folder);
}

std::optional<VolumeHealth> DepsVolumeImpl::Look(const VolumeSpec& spec, Deadline deadline) {
  Result<DepsFate> fate = LoadFate(spec.volume_id);
  if (!fate.ok()) return std::nullopt;
  VolumeHealth health;
  health.dependencies = DependenciesOf(*fate, recorder_.IsBusy(spec.volume_id));
  if (fate->image.empty()) return health;
  const Result<std::optional<HeldMount>> answer = holder_->Look(HeldMountName(kHeldKind, spec.volume_id), deadline);
  if (!answer.ok()) {
    health.figures = {.state = "Unknown", .message = answer.status().message()};
    return health;
  }
  if (!IsHeld(*answer)) {
    health.figures = {.state = "Failed", .message = "no process serves the dependencies"};
    health.needs_mending = true;
    return health;
  }
  const HeldMount& mount = **answer;
  health.figures.restarts = mount.restarts;
  health.figures.state = mount.state == HeldState::kMounted ? "Mounted" : "Restarting";
  if (mount.state == HeldState::kFailed) health.figures = {.state = "Failed", .message = ReasonOf(mount)};
  if (mount.state == HeldState::kMounted) {
    const Result<std::string> stats = holder_->AskMount(mount.control_socket, "stats", deadline);
    if (stats.ok() && options_.metrics != nullptr) options_.metrics->SeeMount(spec.volume_id, *stats);
    if (stats.ok()) {
      SeeLostChunks(spec, *stats, &*fate);
      health.dependencies = DependenciesOf(*fate, false);
    }
  }
  const Result<bool> is_bound = IsBound(host_, TreeAt(spec), mount);
  health.needs_mending =
      mount.state == HeldState::kFailed || (mount.state == HeldState::kMounted && (!is_bound.ok() || !*is_bound));
  return health;
}

Status DepsVolumeImpl::RemoveOrphans(const std::function<bool(const std::string& volume_id)>& is_known) {
  RETURN_IF_ERROR(host_.RemoveTree(staging_));
  RETURN_IF_ERROR(RemoveOrphanMounts(is_known));
  ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, host_.Mounts());
  const Result<std::vector<std::string>> folders = host_.ListDirectory(folders_);
  for (const std::string& name : folders.value_or(std::vector<std::string>())) {
    bool is_in_use = is_known(name);  // a record that got lost must not cost a running pod its files
    for (const MountEntry& mount : mounts) is_in_use = is_in_use || IsBindOf(mount, name);
    if (!is_in_use) RETURN_IF_ERROR(host_.RemoveTree(FolderOf(name)));
  }
  const Result<std::vector<std::string>> fates = host_.ListDirectory(fates_);
  for (const std::string& name : fates.value_or(std::vector<std::string>())) {
    const std::string volume_id = name.substr(0, name.rfind(kFateSuffix));
    if (!is_known(volume_id)) RETURN_IF_ERROR(host_.RemoveFile(FatePath(volume_id)));
  }
  return Status();
}

Status DepsVolumeImpl::RemoveOrphanMounts(const std::function<bool(const std::string& volume_id)>& is_known) {
  const Deadline deadline = Deadline::After(clock_, kListLimit);
  const Result<std::vector<HeldMount>> held = holder_->List(deadline);
  if (held.status().code() == StatusCode::kUnavailable) return Status();  // without a holder nothing is mounted
  if (!held.ok()) return held.status();
  ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, host_.Mounts());
  for (const HeldMount& mount : *held) {
    if (mount.name != HeldMountName(kHeldKind, mount.owner) || is_known(mount.owner)) continue;
    const std::optional<MountEntry> served = FindMount(mounts, mount.mount_point);
    bool is_in_use = false;
    for (const MountEntry& entry : mounts) {
      is_in_use = is_in_use || (served && entry.device == served->device && entry.mount_point != mount.mount_point);
    }
    if (!is_in_use) RETURN_IF_ERROR(holder_->Stop(mount.name, deadline).status());
  }
  return Status();
}

Status DepsVolumeImpl::TakeOutTrash() {
  const Result<std::vector<std::string>> names = host_.ListDirectory(trash_);
  if (names.status().code() == StatusCode::kNotFound) return Status();
  if (!names.ok()) return names.status();
  Status first_failure;
  for (const std::string& name : *names) {
    if (recorder_.IsBusy(name)) continue;
    Status removed = host_.RemoveTree(trash_ + "/" + name);
    if (!removed.ok() && first_failure.ok()) first_failure = std::move(removed);
  }
  return first_failure;
}

void DepsVolumeImpl::NoteEnd(const std::string& volume_id, const InstallVolume& volume, const RecordingEnd& end) {
  DepsFate fate = volume.fate;
  fate.is_over = true;
  fate.outcome = end.why_not;
  fate.seconds = end.install_seconds;
  fate.snapshot = end.snapshot.value_or(SnapshotFacts{});
  if (options_.metrics != nullptr) options_.metrics->CountRecording(end.result, end.seconds, end.new_bytes);
  // A restarted agent would decide again, and say it again. Not written for a volume that is gone.
  if (LoadFate(volume_id).ok()) StoreFate(volume_id, fate).IgnoreError();
  if (options_.on_end) options_.on_end(volume.pod, DependenciesOf(fate, false));
}

// A pod that ends in the middle leaves nothing to record.
void DepsVolumeImpl::NoteNoInstall(const VolumeSpec& spec) {
  Result<DepsFate> fate = LoadFate(spec.volume_id);
  if (!fate.ok() || !fate->image.empty() || fate->is_over || recorder_.IsBusy(spec.volume_id)) return;
  fate->is_over = true;
  fate->outcome = "the pod ended before its install did";
  if (options_.on_end) options_.on_end(spec.pod, DependenciesOf(*fate, false));
}

Result<DepsFate> DepsVolumeImpl::LoadFate(const std::string& volume_id) const {
  ASSIGN_OR_RETURN(const std::string text, host_.ReadFile(FatePath(volume_id)));
  Result<DepsFate> fate = ParseDepsFate(text);
  // As if it had never been decided: the folder says what is there, and it is not recorded.
  if (!fate.ok()) return DepsFate{.reason = "its record is damaged", .is_over = true};
  return fate;
}

Status DepsVolumeImpl::StoreFate(const std::string& volume_id, const DepsFate& fate) {
  RETURN_IF_ERROR(host_.MakeDirectory(fates_, kOwnMode));
  return host_.WriteFile(FatePath(volume_id), RenderDepsFate(fate));
}

}  // namespace

std::unique_ptr<DepsVolume> DepsVolume::New(DepsVolumeOptions options, std::unique_ptr<HolderClient> holder,
                                            VolumeHost& host, const FileSystem& files, const Clock& clock,
                                            Logger& log) {
  return std::make_unique<DepsVolumeImpl>(std::move(options), std::move(holder), host, files, clock, log);
}

}  // namespace paceline::agent
