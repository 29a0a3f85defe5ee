#include "snapshotter/plugin/image_table.h"

#include "lib/blocks/registry/registry_store.h"
#include "snapshotter/image_opener.h"

namespace paceline::snapshotter {
namespace {

blocks::ImageStats Sum(const blocks::ImageStats& a, const blocks::ImageStats& b) {
  return {a.reads + b.reads,
          a.read_bytes + b.read_bytes,
          a.chunk_hits + b.chunk_hits,
          a.chunk_misses + b.chunk_misses,
          a.failed_reads + b.failed_reads,
          a.memory_bytes + b.memory_bytes,
          a.disk_bytes + b.disk_bytes,
          a.peer_bytes + b.peer_bytes,
          a.origin_bytes + b.origin_bytes,
          a.origin_requests + b.origin_requests,
          a.prefetched_bytes + b.prefetched_bytes,
          a.damaged_chunks + b.damaged_chunks,
          a.lost_chunks + b.lost_chunks};
}

}  // namespace

Result<std::shared_ptr<blocks::BlobStore>> ImageTable::Store(const std::string& url, blocks::StoreAccess access) {
  {
    MutexLock lock(mutex_);
    const auto known = stores_.find({url, access});
    if (known != stores_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<blocks::BlobStore> store,
                   blocks::OpenStoreUrl(url, access, options_.registry, files_, clock_, stop_));
  MutexLock lock(mutex_);
  return stores_.try_emplace({url, access}, std::move(store)).first->second;
}

Result<ImagePtr> ImageTable::Open(const ImageSelector& image) {
  {
    MutexLock lock(mutex_);
    Slot& slot = slots_[image.digest];
    while (slot.is_opening) changed_.Wait(lock);
    if (ImagePtr open = slot.image.lock()) return open;
    if (!slot.failure.ok() && clock_.Now() < slot.retry_at) return slot.failure;
    slot.is_opening = true;
  }
  Result<ImagePtr> loaded = Load(image);
  MutexLock lock(mutex_);
  Slot& slot = slots_[image.digest];
  slot.is_opening = false;
  slot.failure = loaded.status();
  slot.retry_at = clock_.Now() + options_.retry_after;
  if (loaded.ok()) slot.image = *loaded;
  changed_.NotifyAll();
  return loaded;
}

Result<ImagePtr> ImageTable::Load(const ImageSelector& image) {
  const Deadline deadline = Deadline::After(clock_, options_.open_limit);
  ASSIGN_OR_RETURN(std::shared_ptr<blocks::BlobStore> store, Store(image.store));
  const ImagePtr opened(new OpenedImage, [closed = closed_](OpenedImage* image) {
    if (image->reader != nullptr) {
      const blocks::ImageStats last = image->reader->stats();
      MutexLock lock(closed->mutex);
      closed->stats = Sum(closed->stats, last);
    }
    delete image;
  });
  opened->name = image.name;
  opened->store = image.store;
  opened->digest = image.digest;
  ASSIGN_OR_RETURN(opened->manifest, LoadManifest(*store, image.digest, options_.manifests_folder, deadline));
  ASSIGN_OR_RETURN(opened->reader, OpenImage(opened->manifest, std::move(store), cache_, engine_, deadline));
  opened->around = std::make_unique<ReadAround>(*opened->reader, options_.read_around_bytes);
  return opened;
}

std::vector<ImagePtr> ImageTable::Opened() const {
  std::vector<ImagePtr> opened;
  MutexLock lock(mutex_);
  for (const auto& [digest, slot] : slots_) {
    if (ImagePtr image = slot.image.lock()) opened.push_back(std::move(image));
  }
  return opened;
}

blocks::ImageStats ImageTable::Totals() const {
  blocks::ImageStats totals;
  {
    MutexLock lock(closed_->mutex);
    totals = closed_->stats;
  }
  for (const ImagePtr& image : Opened()) totals = Sum(totals, image->reader->stats());
  return totals;
}

}  // namespace paceline::snapshotter
