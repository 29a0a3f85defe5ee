#include "lib/blocks/engine/chunk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/filesystem.h"

namespace paceline::blocks {
namespace {

// 50 million chunks; LayerIndex holds an index in memory.
constexpr size_t kMaxKeptIndexBytes = size_t{4} << 30;

// A layer that is only kept has one owner, the map of layers.
bool IsInUse(const std::shared_ptr<LayerCache>& layer) { return layer.use_count() > 2; }

void RemoveFolder(RealFileSystem& files, const std::string& folder) {
  const Result<std::vector<std::string>> names = files.List(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) files.Remove(folder + "/" + name).IgnoreError();
  files.Remove(folder).IgnoreError();
}

}  // namespace

Result<std::unique_ptr<ChunkCache>> ChunkCache::Open(const ChunkCacheOptions& options, const Clock& clock) {
  RealFileSystem files;
  RETURN_IF_ERROR(files.MakeDirectories(options.folder + "/layers", 0700));
  const std::string path = options.folder + "/lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_valid()) return ErrnoStatus(errno, "open " + path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return AbortedError("chunk cache " + options.folder + ": another process uses it");
  }
  std::unique_ptr<ChunkCache> cache(new ChunkCache(options, std::move(lock), clock));
  cache->AdoptKeptLayers();
  return cache;
}

ChunkCache::~ChunkCache() { SaveUseTimes(); }

std::string ChunkCache::FolderOf(const Digest& index_digest) const {
  return options_.folder + "/layers/" + index_digest.Hex();
}

// Layers of earlier runs: they count against the quota and may be evicted. What cannot be read goes.
void ChunkCache::AdoptKeptLayers() {
  RealFileSystem files;
  const Result<std::vector<std::string>> names = files.List(options_.folder + "/layers");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const Result<Digest> digest = ParseDigest("sha256:" + name);
    Result<std::string> index = digest.ok() ? KeptIndex(*digest) : digest.status();
    const bool is_good = index.ok() && OpenLayer(*digest, std::make_shared<const std::string>(*std::move(index))).ok();
    if (!is_good) RemoveFolder(files, options_.folder + "/layers/" + name);
  }
}

Result<std::string> ChunkCache::KeptIndex(const Digest& index_digest) const {
  const std::string path = FolderOf(index_digest) + "/index";
  ASSIGN_OR_RETURN(std::string bytes, RealFileSystem().ReadFile(path, kMaxKeptIndexBytes));
  if (Sha256Of(bytes) != index_digest) return NotFoundError(path + " has changed");
  return bytes;
}

Result<std::shared_ptr<LayerCache>> ChunkCache::OpenLayer(const Digest& index_digest,
                                                          std::shared_ptr<const std::string> index) {
  {
    MutexLock lock(mutex_);
    if (const auto found = layers_.find(index_digest); found != layers_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(LayerIndex parsed, LayerIndex::Parse(index));
  RealFileSystem files;
  const std::string folder = FolderOf(index_digest);
  // Without a disk the layer is served all the same.
  Status kept = files.MakeDirectories(folder, 0700);
  if (kept.ok() && !KeptIndex(index_digest).ok()) kept = files.WriteFileAtomically(folder + "/index", *index, 0600);
  kept.IgnoreError();
  ASSIGN_OR_RETURN(std::unique_ptr<LayerCache> opened, LayerCache::Open(folder, index_digest, std::move(parsed)));

  MutexLock lock(mutex_);
  const auto [at, is_new] = layers_.try_emplace(index_digest, std::move(opened));
  if (is_new) {
    const LayerCache& layer = *at->second;
    uint64_t bytes = 0;
    for (uint32_t chunk = 0; chunk < layer.index().chunk_count(); ++chunk) {
      if (layer.IsPresent(chunk)) bytes += layer.index().chunk(chunk).content_bytes();
    }
    used_bytes_ += bytes;
  }
  return at->second;
}

std::shared_ptr<LayerCache> ChunkCache::FindLayer(const Digest& index_digest) const {
  MutexLock lock(mutex_);
  const auto found = layers_.find(index_digest);
  return found == layers_.end() ? nullptr : found->second;
}

Result<std::string> ChunkCache::Load(LayerCache& layer, uint32_t chunk) {
  Result<std::string> content = layer.Load(chunk);
  if (content.ok()) layer.Touch(chunk, UseTime(clock_.WallNow()));
  if (content.status().code() == StatusCode::kDataLoss) {
    ++damaged_;
    used_bytes_ -= layer.index().chunk(chunk).content_bytes();
  }
  return content;
}

void ChunkCache::Store(LayerCache& layer, uint32_t chunk, std::string_view content) {
  {
    MutexLock lock(mutex_);
    if (clock_.Now() < no_stores_before_) {
      ++full_disk_;
      return;
    }
  }
  // Counted first, so that many writers at once cannot go over the quota together.
  used_bytes_ += content.size();
  const bool has_room = used_bytes_ <= options_.quota_bytes || MakeRoom(0);
  const Result<bool> stored = has_room ? layer.Store(chunk, content, UseTime(clock_.WallNow())) : Result<bool>(false);
  if (stored.ok() && *stored) return;
  used_bytes_ -= content.size();
  if (stored.ok()) return;
  ++full_disk_;
  MutexLock lock(mutex_);
  no_stores_before_ = clock_.Now() + options_.full_disk_pause;
}

std::vector<std::shared_ptr<LayerCache>> ChunkCache::AllLayers() const {
  std::vector<std::shared_ptr<LayerCache>> all;
  MutexLock lock(mutex_);
  for (const auto& [digest, layer] : layers_) all.push_back(layer);
  return all;
}

bool ChunkCache::MakeRoom(uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    // Another thread is at it; this content is not worth waiting for.
    if (is_evicting_) return used_bytes_ + bytes <= options_.quota_bytes;
    is_evicting_ = true;
  }
  const std::vector<std::shared_ptr<LayerCache>> layers = AllLayers();
  std::vector<EvictionCandidate> candidates;
  for (uint32_t number = 0; number < layers.size(); ++number) {
    const LayerIndex& index = layers[number]->index();
    for (uint32_t chunk = 0; chunk < index.chunk_count(); ++chunk) {
      if (!layers[number]->IsPresent(chunk)) continue;
      candidates.push_back({number, chunk, layers[number]->LastUse(chunk),
                            static_cast<uint32_t>(index.chunk(chunk).content_bytes()), IsInUse(layers[number])});
    }
  }
  const auto goal = static_cast<uint64_t>(static_cast<double>(options_.quota_bytes) * options_.low_watermark);
  const uint64_t used = used_bytes_ + bytes;
  for (const EvictionCandidate& victim : ChooseVictims(std::move(candidates), used > goal ? used - goal : 0)) {
    if (!layers[victim.layer]->Drop(victim.chunk)) continue;
    used_bytes_ -= victim.bytes;
    ++evicted_;
  }
  MutexLock lock(mutex_);
  is_evicting_ = false;
  return used_bytes_ + bytes <= options_.quota_bytes;
}

void ChunkCache::SaveUseTimes() {
  for (const std::shared_ptr<LayerCache>& layer : AllLayers()) layer->SaveUseTimes();
}

ChunkCacheStats ChunkCache::stats() const {
  ChunkCacheStats stats;
  stats.used_bytes = used_bytes_;
  stats.evicted_chunks = evicted_;
  stats.damaged_chunks = damaged_;
  stats.full_disk = full_disk_;
  for (const std::shared_ptr<LayerCache>& layer : AllLayers()) stats.mended_metadata += layer->mended_metadata();
  return stats;
}

}  // namespace paceline::blocks
