#include "lib/blocks/registry/registry_store.h"

#include <string_view>

namespace paceline::blocks {
namespace {

constexpr std::string_view kFile = "file://", kDocker = "docker://";
constexpr size_t kUploadChunkBytes = 8 << 20;

class RegistryStore final : public BlobStore {
 public:
  RegistryStore(std::unique_ptr<RegistryClient> client, ImageReference repository, std::stop_token stop)
      : client_(std::move(client)), repository_(std::move(repository)), stop_(std::move(stop)) {
    repository_.tag.clear();
    repository_.digest.clear();
  }

  Result<uint64_t> StatBlob(const Digest& digest, Deadline deadline) override {
    return client_->StatBlob(repository_, digest, deadline, stop_);
  }
  Status ReadBlob(const Digest& digest, uint64_t offset_bytes, std::span<char> out, Deadline deadline) override {
    return client_->ReadRange(repository_, digest, offset_bytes, out, deadline, stop_);
  }
  Result<std::unique_ptr<BlobWriter>> NewBlob(Deadline deadline) override {
    return client_->NewUpload(repository_, kUploadChunkBytes, deadline, stop_);
  }
  Result<StoredManifest> GetManifest(const std::string& tag_or_digest, Deadline deadline) override {
    return client_->GetManifest(Named(tag_or_digest), deadline, stop_);
  }
  Result<Descriptor> PutManifest(const std::string& tag, const std::string& media_type, std::string_view bytes,
                                 Deadline deadline) override {
    ImageReference named = repository_;
    named.tag = tag;
    return client_->PushManifest(named, media_type, bytes, deadline, stop_);
  }
  std::string Describe() const override {
    return std::string(kDocker) + repository_.registry + "/" + repository_.repository;
  }

 private:
  ImageReference Named(const std::string& tag_or_digest) const {
    ImageReference named = repository_;
    (IsSha256Digest(tag_or_digest) ? named.digest : named.tag) = tag_or_digest;
    return named;
  }

  const std::unique_ptr<RegistryClient> client_;
  ImageReference repository_;
  const std::stop_token stop_;
};

}  // namespace

std::unique_ptr<BlobStore> NewRegistryStore(std::unique_ptr<RegistryClient> client, ImageReference repository,
                                            std::stop_token stop) {
  return std::make_unique<RegistryStore>(std::move(client), std::move(repository), std::move(stop));
}

Result<std::unique_ptr<BlobStore>> OpenStoreUrl(const std::string& url, StoreAccess access, RegistryOptions registry,
                                                const FileSystem& files, const Clock& clock, std::stop_token stop) {
  if (url.starts_with('/')) return OpenFolderStore(url, access);
  if (url.starts_with("file:///")) return OpenFolderStore(url.substr(kFile.size()), access);
  if (!url.starts_with(kDocker)) {
    return InvalidArgumentError("\"" + url + "\" is no store: file:///FOLDER or docker://REGISTRY/REPOSITORY");
  }
  ASSIGN_OR_RETURN(ImageReference repository, ParseImageReference(url));
  if (!repository.digest.empty() || (repository.tag != "latest" && !repository.tag.empty())) {
    return InvalidArgumentError("\"" + url + "\": a store is a repository, without tag and digest");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<RegistryClient> client, RegistryClient::New(std::move(registry), files, clock));
  return NewRegistryStore(std::move(client), std::move(repository), std::move(stop));
}

}  // namespace paceline::blocks
