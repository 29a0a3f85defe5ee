#include "lib/blocks/image/registry_source.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "lib/base/mutex.h"

namespace paceline::blocks {
namespace {

constexpr size_t kMaxWaitingBytes = 8U << 20;

// Turns a download that pushes its pieces into a source that is pulled: the download runs in a thread of its own and
// waits when the reader is behind.
class DownloadSource final : public ByteSource {
 public:
  DownloadSource(std::shared_ptr<RegistryClient> client, const ImageReference& repository, const Descriptor& blob,
                 const std::stop_token& outer)
      : thread_([this, client = std::move(client), repository, blob](const std::stop_token& stop) {
          const Status end = client->ReadBlob(
              repository, blob, [&](std::string_view piece) { return Put(piece, stop); }, Deadline::Infinite(), stop);
          MutexLock lock(mutex_);
          is_done_ = true;
          end_ = end;
          has_piece_.NotifyOne();
        }),
        outer_stop_(outer, [this] { Stop(); }) {}
  ~DownloadSource() override { Stop(); }

  Result<size_t> Read(std::span<char> out) override {
    if (at_ == piece_.size()) {
      MutexLock lock(mutex_);
      while (ready_.empty() && !is_done_) has_piece_.Wait(lock);
      if (ready_.empty()) {
        if (!end_.ok()) return end_;
        return size_t{0};
      }
      piece_ = std::move(ready_.front());
      ready_.pop_front();
      waiting_bytes_ -= piece_.size();
      at_ = 0;
      has_room_.NotifyOne();
    }
    const size_t size = std::min(out.size(), piece_.size() - at_);
    std::memcpy(out.data(), piece_.data() + at_, size);
    at_ += size;
    return size;
  }

 private:
  Status Put(std::string_view piece, const std::stop_token& stop) {
    if (piece.empty()) return Status();
    MutexLock lock(mutex_);
    while (waiting_bytes_ > kMaxWaitingBytes && !stop.stop_requested()) has_room_.Wait(lock);
    if (stop.stop_requested()) return CancelledError("the download was stopped");
    waiting_bytes_ += piece.size();
    ready_.emplace_back(piece);
    has_piece_.NotifyOne();
    return Status();
  }

  void Stop() {
    thread_.request_stop();
    {
      // Under the lock, so that a writer that has just looked at the stop token cannot miss it.
      MutexLock lock(mutex_);
    }
    has_room_.NotifyAll();
  }

  std::string piece_;  // the reader's own
  size_t at_ = 0;
  Mutex mutex_;
  CondVar has_piece_, has_room_;
  std::deque<std::string> ready_ GUARDED_BY(mutex_);
  size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;
  bool is_done_ GUARDED_BY(mutex_) = false;
  Status end_ GUARDED_BY(mutex_);
  std::jthread thread_;  // these two last: they use all of the above
  std::stop_callback<std::function<void()>> outer_stop_;
};

class RegistrySource final : public ImageSource {
 public:
  RegistrySource(std::shared_ptr<RegistryClient> client, ImageReference image, std::stop_token stop)
      : client_(std::move(client)), image_(std::move(image)), stop_(std::move(stop)) {}

  Result<SourceImage> Resolve(const Platform& platform, Deadline deadline) override {
    ASSIGN_OR_RETURN(const StoredManifest root, client_->GetManifest(image_, deadline, stop_));
    return ResolveImage(root.descriptor, platform, [&](const Descriptor& blob) -> Result<std::string> {
      if (blob.digest == root.descriptor.digest) return root.bytes;
      return ReadDocument(blob, deadline);
    });
  }

  Result<std::unique_ptr<ByteSource>> OpenLayer(const Descriptor& blob, Deadline) override {
    return std::make_unique<DownloadSource>(client_, image_, blob, stop_);
  }

 private:
  // Manifests and configs have addresses of their own kinds.
  Result<std::string> ReadDocument(const Descriptor& blob, Deadline deadline) {
    if (blob.media_type.find("manifest") != std::string::npos || blob.media_type.find("index") != std::string::npos) {
      ImageReference named = image_;
      named.digest = blob.digest.ToString();
      ASSIGN_OR_RETURN(StoredManifest manifest, client_->GetManifest(named, deadline, stop_));
      return std::move(manifest.bytes);
    }
    std::string bytes;
    RETURN_IF_ERROR(client_->ReadBlob(
        image_, blob,
        [&](std::string_view piece) {
          bytes += piece;
          return Status();
        },
        deadline, stop_));
    return bytes;
  }

  const std::shared_ptr<RegistryClient> client_;
  const ImageReference image_;
  const std::stop_token stop_;
};

}  // namespace

std::unique_ptr<ImageSource> NewRegistrySource(std::shared_ptr<RegistryClient> client, ImageReference image,
                                               std::stop_token stop) {
  return std::make_unique<RegistrySource>(std::move(client), std::move(image), std::move(stop));
}

}  // namespace paceline::blocks
