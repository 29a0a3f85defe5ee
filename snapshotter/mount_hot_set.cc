#include "snapshotter/mount_hot_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/filesystem.h"
#include "snapshotter/read_around.h"

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxSetBytes = 64 << 20;
constexpr Duration kLookPeriod = std::chrono::seconds(1);
// A set is replaced when a mount has read so much more than it names, as a part of it.
constexpr size_t kGrowthPart = 4;

// `known` followed by what of `accesses` it lacks; how many those were.
size_t Extend(const std::vector<blocks::Digest>& indexes, const std::vector<blocks::Access>& accesses, HotSet* known) {
  if (known->layers != indexes) *known = {indexes, {}};
  std::set<blocks::ChunkId> there;
  for (const blocks::Access& access : known->accesses) there.insert({access.layer, access.chunk});
  const size_t before = known->accesses.size();
  for (const blocks::Access& access : accesses) {
    if (!there.contains({access.layer, access.chunk})) known->accesses.push_back(access);
  }
  return known->accesses.size() - before;
}

// The oldest go.
void KeepNewest(const std::string& folder, size_t count) {
  RealFileSystem files;
  const Result<std::vector<std::string>> names = files.List(folder);
  if (!names.ok() || names->size() <= count) return;
  std::vector<std::pair<WallTime, std::string>> sets;
  for (const std::string& name : *names) {
    const Result<FileInfo> info = files.StatLink(folder + "/" + name);
    if (info.ok() && name.ends_with(".json")) sets.emplace_back(info->modified, folder + "/" + name);
  }
  std::sort(sets.begin(), sets.end());
  for (size_t i = 0; i + count < sets.size(); ++i) files.Remove(sets[i].second).IgnoreError();
}

}  // namespace

MountHotSet::MountHotSet(MountHotSetOptions options, HotSetImage image, OpenStore open_store, const Clock& clock,
                         Logger& log)
    : options_(std::move(options)),
      image_(std::move(image)),
      open_store_(std::move(open_store)),
      clock_(clock),
      log_(log) {
  if (options_.use == HotSetUse::kNone && !options_.given) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

MountHotSet::~MountHotSet() = default;

void MountHotSet::Finish() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (!std::exchange(is_recording_, false)) return;
  Record(Deadline::After(clock_, options_.last_limit));
}

HotSetFacts MountHotSet::facts() const {
  MutexLock lock(mutex_);
  return facts_;
}

void MountHotSet::Tell(HotSetPhase phase, const HotSet& set) {
  HotSetFacts facts;
  if (!set.accesses.empty()) facts = FactsAbout(image_.reader, image_.indexes, set);
  facts.phase = phase;
  MutexLock lock(mutex_);
  facts_ = std::move(facts);
}

void MountHotSet::Run(const std::stop_token& stop) {
  is_recording_ = Begin();
  if (!is_recording_ || !AwaitWindow(stop)) return;
  is_recording_ = false;
  Record(Deadline::After(clock_, options_.store_limit));
}

bool MountHotSet::Begin() {
  const Result<HotSet> found = Find(Deadline::After(clock_, options_.store_limit));
  const bool may_record = options_.use == HotSetUse::kRecord && !options_.given;
  if (found.ok()) {
    const size_t chunks = PrefetchHotSet(image_.reader, image_.indexes, *found, options_.max_prefetch_bytes);
    Tell(HotSetPhase::kFetched, *found);
    log_.Info("fetching the hot set", {{"image", image_.digest.ToString()}, {"chunks", chunks}});
    known_ = *found;
    save_mode_ = HotSetSave::kReplace;
    return may_record;
  }
  if (found.status().code() != StatusCode::kNotFound) {
    // Recording one would only meet the same trouble.
    Tell(HotSetPhase::kFailed, {});
    log_.Warn("hot set is not fetched", {{"image", image_.digest.ToString()}, {"error", found.status()}});
    return false;
  }
  Tell(may_record ? HotSetPhase::kRecording : HotSetPhase::kNone, {});
  if (may_record) image_.around.Begin();
  return may_record;
}

Result<HotSet> MountHotSet::Find(Deadline deadline) {
  if (options_.given) return *options_.given;
  const Result<std::shared_ptr<blocks::BlobStore>> store = open_store_(blocks::StoreAccess::kRead);
  Result<HotSet> shared = store.ok() ? LoadHotSet(**store, image_.digest, deadline) : store.status();
  if (shared.ok()) return shared;
  Result<HotSet> kept = FindOnNode();
  if (kept.ok()) return kept;
  if (shared.status().code() != StatusCode::kDataLoss) return shared.status();
  save_mode_ = HotSetSave::kReplace;
  return NotFoundError("a damaged set is as none");
}

Result<HotSet> MountHotSet::FindOnNode() const {
  ASSIGN_OR_RETURN(const std::string text, RealFileSystem().ReadFile(PathOnNode(), kMaxSetBytes));
  return ParseHotSet(text);
}

bool MountHotSet::AwaitWindow(const std::stop_token& stop) const {
  // From the first read on: between mount and program an image may have to be pulled.
  std::optional<TimePoint> first;
  while (!(first = image_.reader.accesses().first())) {
    if (!clock_.SleepFor(kLookPeriod, stop)) return false;
  }
  return clock_.SleepUntil(*first + options_.window, stop);
}

void MountHotSet::Record(Deadline deadline) {
  image_.around.End();
  const size_t before = known_.accesses.size();
  const size_t added = Extend(image_.indexes, image_.reader.accesses().accesses(), &known_);
  if (added == 0 || added * kGrowthPart < before) return;
  Tell(HotSetPhase::kRecorded, known_);
  const Status shared = Share(known_, deadline);
  if (shared.ok() || shared.code() == StatusCode::kAlreadyExists) {
    log_.Info("hot set recorded", {{"image", image_.digest.ToString()}, {"chunks", known_.accesses.size()}});
    return;
  }
  const Status kept = KeepOnNode(known_);
  log_.Info("hot set stays on this node", {{"image", image_.digest.ToString()},
                                           {"chunks", known_.accesses.size()},
                                           {"path", kept.ok() ? PathOnNode() : kept.message()},
                                           {"error", shared}});
}

Status MountHotSet::Share(const HotSet& set, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::shared_ptr<blocks::BlobStore> store, open_store_(blocks::StoreAccess::kWrite));
  return SaveHotSet(*store, image_.digest, set, save_mode_, deadline);
}

Status MountHotSet::KeepOnNode(const HotSet& set) const {
  RealFileSystem files;
  RETURN_IF_ERROR(files.MakeDirectories(options_.folder, 0700));
  RETURN_IF_ERROR(files.WriteFileAtomically(PathOnNode(), EncodeHotSet(set), 0600));
  KeepNewest(options_.folder, options_.max_kept);
  return Status();
}

}  // namespace paceline::snapshotter
