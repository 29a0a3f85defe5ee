#include "lib/blocks/image/registry_source.h"

#include <functional>
#include <thread>

#include "lib/blocks/image/piece_pipe.h"

namespace paceline::blocks {
namespace {

constexpr size_t kMaxWaitingBytes = 8U << 20;
constexpr uint64_t kMaxDocumentBytes = 8U << 20;

// Turns a download that pushes its pieces into a source that is pulled: the download runs in a thread of its own and
// waits when the reader is behind.
class DownloadSource final : public ByteSource {
 public:
  DownloadSource(std::shared_ptr<RegistryClient> client, const ImageReference& repository, const Descriptor& blob,
                 const std::stop_token& outer)
      : thread_([this, client = std::move(client), repository, blob](const std::stop_token& stop) {
          pipe_.Finish(client->ReadBlob(
              repository, blob, [&](std::string_view piece) { return pipe_.Put(std::string(piece), stop); },
              Deadline::Infinite(), stop));
        }),
        outer_stop_(outer, [this] { Stop(); }) {}
  ~DownloadSource() override { Stop(); }

  Result<size_t> Read(std::span<char> out) override { return pipe_.Read(out); }

 private:
  void Stop() {
    thread_.request_stop();
    pipe_.Wake();
  }

  PiecePipe pipe_{kMaxWaitingBytes};
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
      return ReadImageDocument(*client_, image_, blob, deadline, stop_);
    });
  }

  Result<std::unique_ptr<ByteSource>> OpenLayer(const Descriptor& blob, Deadline) override {
    return std::make_unique<DownloadSource>(client_, image_, blob, stop_);
  }

 private:
  const std::shared_ptr<RegistryClient> client_;
  const ImageReference image_;
  const std::stop_token stop_;
};

}  // namespace

Result<std::string> ReadImageDocument(RegistryClient& client, const ImageReference& image, const Descriptor& document,
                                      Deadline deadline, const std::stop_token& stop) {
  const std::string& type = document.media_type;
  if (type.find("manifest") != std::string::npos || type.find("index") != std::string::npos) {
    ImageReference named = image;
    named.digest = document.digest.ToString();
    ASSIGN_OR_RETURN(StoredManifest manifest, client.GetManifest(named, deadline, stop));
    return std::move(manifest.bytes);
  }
  if (document.size_bytes > kMaxDocumentBytes) return DataLossError("the image's config is larger than 8 MiB");
  std::string bytes;
  RETURN_IF_ERROR(client.ReadBlob(
      image, document,
      [&](std::string_view piece) {
        bytes += piece;
        return Status();
      },
      deadline, stop));
  return bytes;
}

std::unique_ptr<ImageSource> NewRegistrySource(std::shared_ptr<RegistryClient> client, ImageReference image,
                                               std::stop_token stop) {
  return std::make_unique<RegistrySource>(std::move(client), std::move(image), std::move(stop));
}

}  // namespace paceline::blocks
