// The converted images that are open on this node, each once however many snapshots use its layers, and the stores that
// they come from. An image stays open as long as somebody holds it.
//
// Callers: ConvertedImages (stores), RemoteImages. Thread-safe; opening blocks for the store, and for none when an
// earlier run left manifest and indexes in the cache.
#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/base/filesystem.h"
#include "lib/base/mutex.h"
#include "lib/blocks/engine/chunk_engine.h"
#include "lib/blocks/format/folder_store.h"
#include "lib/blocks/format/manifest.h"
#include "lib/blocks/registry/registry_exchange.h"
#include "snapshotter/read_around.h"

namespace paceline::snapshotter {

struct OpenedImage {
  std::string name, store;  // as first asked for
  blocks::Digest digest;    // of the converted image's manifest
  blocks::BlockImageManifest manifest;
  std::unique_ptr<blocks::ImageReader> reader;
  std::unique_ptr<ReadAround> around;
};
using ImagePtr = std::shared_ptr<OpenedImage>;

// What names an image that is to be opened.
struct ImageSelector {
  std::string name, store;
  blocks::Digest digest;
};

struct ImageTableOptions {
  std::string manifests_folder;  // kept for starts without network
  blocks::RegistryOptions registry;
  uint64_t read_around_bytes = 0;
  Duration open_limit = std::chrono::seconds(30);
  Duration retry_after = std::chrono::seconds(5);  // a failure is that of all callers for so long
};

class ImageTable {
 public:
  // Borrows the three; calls end when `stop` is requested.
  ImageTable(ImageTableOptions options, blocks::ChunkCache& cache, blocks::ChunkEngine& engine, const Clock& clock,
             std::stop_token stop)
      : options_(std::move(options)), cache_(cache), engine_(engine), clock_(clock), stop_(std::move(stop)) {}

  // The store of a URL, opened once for each kind of access.
  Result<std::shared_ptr<blocks::BlobStore>> Store(const std::string& url,
                                                   blocks::StoreAccess access = blocks::StoreAccess::kRead)
      EXCLUDES(mutex_);

  // Manifest and all indexes, checked. One thread opens, the others wait for it. Failures are those of OpenImage.
  Result<ImagePtr> Open(const ImageSelector& image) EXCLUDES(mutex_);

  // Those that somebody holds.
  std::vector<ImagePtr> Opened() const EXCLUDES(mutex_);
  // What all images counted since the start, those that are closed included.
  blocks::ImageStats Totals() const EXCLUDES(mutex_);

 private:
  struct Slot {
    std::weak_ptr<OpenedImage> image;
    bool is_opening = false;
    Status failure;
    TimePoint retry_at;
  };

  // Outlives the table, since an image may.
  struct Closed {
    mutable Mutex mutex;
    blocks::ImageStats stats GUARDED_BY(mutex);
  };

  Result<ImagePtr> Load(const ImageSelector& image);

  const ImageTableOptions options_;
  blocks::ChunkCache& cache_;
  blocks::ChunkEngine& engine_;
  const Clock& clock_;
  const std::stop_token stop_;
  const RealFileSystem files_;
  const std::shared_ptr<Closed> closed_ = std::make_shared<Closed>();
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::pair<std::string, blocks::StoreAccess>, std::shared_ptr<blocks::BlobStore>> stores_ GUARDED_BY(mutex_);
  std::map<blocks::Digest, Slot> slots_ GUARDED_BY(mutex_);
};

}  // namespace paceline::snapshotter
