#include "snapshotter/plugin/hot_set_recorder.h"

#include <algorithm>

#include "lib/base/filesystem.h"
#include "snapshotter/hot_set_store.h"

namespace paceline::snapshotter {
namespace {

// What was read of all images of a chain: layers numbered through, those of lower images first.
HotSet Gather(const std::vector<ImagePtr>& chain) {
  HotSet set;
  for (const ImagePtr& image : chain) {
    const auto first = static_cast<uint32_t>(set.layers.size());
    for (const blocks::Digest& index : IndexDigests(image->manifest)) set.layers.push_back(index);
    for (blocks::Access access : image->reader->accesses().accesses()) {
      access.layer += first;
      set.accesses.push_back(access);
    }
  }
  return set;
}

}  // namespace

HotSetRecorder::HotSetRecorder(HotSetOptions options, ImageTable& images, const Clock& clock, Logger& log,
                               PluginMetrics& metrics)
    : options_(std::move(options)), images_(images), clock_(clock), log_(log), metrics_(metrics) {}

void HotSetRecorder::OnPull(const ImagePtr& image) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[image->digest];
  // Pulled again, its chunks may have been evicted meanwhile.
  if (entry.state == State::kRecording) return;
  entry.state = State::kUnknown;
  if (entry.chain.empty()) entry.chain = {image};
  changed_.NotifyAll();
}

void HotSetRecorder::OnContainer(const std::vector<ImagePtr>& chain) {
  MutexLock lock(mutex_);
  // An image that came before this process did has been started before.
  const auto found = entries_.find(chain.back()->digest);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.state == State::kDone || entry.has_container) return;
  entry.has_container = true;
  entry.chain = chain;
  entry.due = clock_.Now() + options_.window;
  if (entry.state == State::kAbsent) entry.state = State::kRecording;
  changed_.NotifyAll();
}

std::optional<HotSetRecorder::Task> HotSetRecorder::NextTask(std::stop_token stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    TimePoint next = TimePoint::max();
    for (const auto& [digest, entry] : entries_) {
      if (entry.state == State::kUnknown) return Task{digest, entry.chain, entry.state};
      if (entry.state != State::kRecording) continue;
      if (entry.due <= clock_.Now()) return Task{digest, entry.chain, entry.state};
      next = std::min(next, entry.due);
    }
    changed_.WaitUntil(lock, clock_, next, stop);
  }
  return std::nullopt;
}

void HotSetRecorder::Run(std::stop_token stop) {
  while (const std::optional<Task> task = NextTask(stop)) {
    State next = State::kDone;
    std::optional<HotSetFacts> facts;
    if (task->state == State::kRecording) {
      facts = Record(task->chain);
    } else {
      facts = Fetch(*task->chain.back());
      if (!facts) next = State::kAbsent;
    }
    MutexLock lock(mutex_);
    Entry& entry = entries_[task->image];
    if (facts) entry.facts = *std::move(facts);
    entry.state = next == State::kAbsent && entry.has_container ? State::kRecording : next;
    if (entry.state != State::kRecording) entry.chain.clear();
    if (entry.state == State::kDone) entry.has_container = false;
  }
}

HotSetFacts HotSetRecorder::FactsOf(const blocks::Digest& image) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(image);
  if (found == entries_.end()) return {};
  HotSetFacts facts = found->second.facts;
  if (found->second.state == State::kAbsent) facts.phase = HotSetPhase::kNone;
  if (found->second.state == State::kRecording) facts.phase = HotSetPhase::kRecording;
  return facts;
}

std::optional<HotSetFacts> HotSetRecorder::Fetch(const OpenedImage& image) {
  const Deadline deadline = Deadline::After(clock_, options_.store_limit);
  const Result<std::shared_ptr<blocks::BlobStore>> store = images_.Store(image.store);
  Result<HotSet> set = store.ok() ? LoadHotSet(**store, image.digest, deadline) : store.status();
  if (set.ok()) {
    Count("fetched");
    return Prefetch(image, *set);
  }
  if (set.status().code() == StatusCode::kNotFound) {
    HelpFirstStart(image);
    return std::nullopt;
  }
  // Recording one would only meet the same trouble.
  Count("failed");
  log_.Warn("hot set is not fetched", {{"image", image.name}, {"error", set.status()}});
  return HotSetFacts{HotSetPhase::kFailed, 0, 0, ""};
}

HotSetFacts HotSetRecorder::Prefetch(const OpenedImage& image, const HotSet& set) {
  const std::vector<blocks::Digest> indexes = IndexDigests(image.manifest);
  const size_t chunks = PrefetchHotSet(*image.reader, indexes, set, options_.max_prefetch_bytes);
  HotSetFacts facts = FactsAbout(*image.reader, indexes, set);
  log_.Info("fetching the hot set", {{"image", image.name}, {"chunks", chunks}, {"bytes", facts.bytes}});
  facts.phase = HotSetPhase::kFetched;
  return facts;
}

void HotSetRecorder::HelpFirstStart(const OpenedImage& image) {
  std::vector<blocks::ChunkId> all;
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < image.reader->layer_count(); ++layer) {
    const blocks::LayerIndex& index = image.reader->index(layer);
    for (uint32_t chunk = 0; chunk < index.chunk_count(); ++chunk) {
      bytes += index.chunk(chunk).stored_bytes;
      if (bytes > options_.fill_below_bytes) {
        image.around->Begin();
        return;
      }
      all.push_back({layer, chunk});
    }
  }
  image.reader->Prefetch(all, blocks::FetchPriority::kBackground);
}

HotSetFacts HotSetRecorder::Record(const std::vector<ImagePtr>& chain) {
  const OpenedImage& image = *chain.back();
  image.around->End();
  const HotSet set = Gather(chain);
  if (set.accesses.empty()) return HotSetFacts{HotSetPhase::kNone, 0, 0, ""};
  HotSetFacts facts = FactsAbout(*image.reader, IndexDigests(image.manifest), set);
  facts.phase = HotSetPhase::kRecorded;
  RealFileSystem files;
  const std::string path = options_.folder + "/" + image.digest.Hex() + ".json";
  Status kept = files.MakeDirectories(options_.folder, 0700);
  if (kept.ok()) kept = files.WriteFileAtomically(path, EncodeHotSet(set), 0600);
  if (!kept.ok()) log_.Warn("hot set is not kept", {{"image", image.name}, {"error", kept}});
  Count("recorded");
  log_.Info("hot set recorded", {{"image", image.name}, {"chunks", set.accesses.size()}, {"path", path}});
  if (!options_.is_shared) return facts;
  const Status shared = Share(image, set);
  if (shared.ok()) {
    Count("shared");
  } else if (shared.code() == StatusCode::kAlreadyExists) {
    Count("superfluous");  // another node was first
  } else {
    Count("unshared");
    log_.Warn("hot set stays on this node", {{"image", image.name}, {"store", image.store}, {"error", shared}});
  }
  return facts;
}

Status HotSetRecorder::Share(const OpenedImage& image, const HotSet& set) {
  ASSIGN_OR_RETURN(const std::shared_ptr<blocks::BlobStore> store,
                   images_.Store(image.store, blocks::StoreAccess::kWrite));
  return SaveHotSet(*store, image.digest, set, HotSetSave::kFirst, Deadline::After(clock_, options_.store_limit));
}

}  // namespace paceline::snapshotter
