// A client of OCI registries: manifests, blobs and ranges of them, pushes, referrers. What it takes to get an answer
// (mirrors, tokens, redirects, back-off) is RegistryExchange's; byte layouts are those of the OCI distribution spec.
//
// Callers: the registry BlobStore, the converter (source images), pacectl. Thread-safe; every call blocks until its
// deadline or stop. Every result that has a digest is checked against it. Errors: kNotFound only when the registry says
// so, kPermissionDenied when it refuses us, kUnavailable when it cannot be reached or is overloaded to the end,
// kDataLoss for bytes that are not what they should be.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/registry/http_rules.h"
#include "lib/blocks/registry/image_reference.h"
#include "lib/blocks/registry/registry_exchange.h"

namespace paceline::blocks {

// One entry of a referrers list.
struct Referrer {
  Descriptor descriptor;
  std::string artifact_type;
};

class RegistryClient {
 public:
  // `files` (for hosts.toml) and `clock` are borrowed. kInvalidArgument for a bad proxy URL.
  static Result<std::unique_ptr<RegistryClient>> New(RegistryOptions options, const FileSystem& files,
                                                     const Clock& clock);

  // The manifest or index that `image` names, by digest when it has one. With a tag, the registry's own idea of the
  // digest must fit the bytes.
  Result<StoredManifest> GetManifest(const ImageReference& image, Deadline deadline, std::stop_token stop = {});

  // Size in bytes.
  Result<uint64_t> StatBlob(const ImageReference& repository, const Digest& digest, Deadline deadline,
                            std::stop_token stop = {});

  // Fills `out` with exactly the bytes from `offset_bytes` on, from one ranged request; an answer that is not exactly
  // that range is refused (kUnimplemented when no host knows ranges). Not checked against the digest: a range has none.
  Status ReadRange(const ImageReference& repository, const Digest& digest, uint64_t offset_bytes, std::span<char> out,
                   Deadline deadline, std::stop_token stop = {});

  // The whole blob, in order, to `consumer` on the calling thread; goes on where it was when a connection is cut. Ok
  // only when size and digest were right at the end: until then the pieces are not to be trusted.
  Status ReadBlob(const ImageReference& repository, const Descriptor& blob, const net::BodyConsumer& consumer,
                  Deadline deadline, std::stop_token stop = {});

  // Uploads. Pushes go to the registry itself, never to a mirror.
  // A blob in one request, unless the registry has it. Done twice, it is there once.
  Status PushBlob(const ImageReference& repository, const Digest& digest, std::string_view bytes, Deadline deadline,
                  std::stop_token stop = {});
  // A blob of any size, in chunks of `chunk_bytes`, each of which is sent again from where the registry got to.
  Result<std::unique_ptr<BlobWriter>> NewUpload(const ImageReference& repository, size_t chunk_bytes, Deadline deadline,
                                                std::stop_token stop = {});

  // Under the reference's tag, or its digest when it has no tag. What the manifest names must be there. A `subject` in
  // it is listed by the registry's referrers API or, where there is none, in the tag that the OCI spec falls back to.
  Result<Descriptor> PushManifest(const ImageReference& image, const std::string& media_type, std::string_view bytes,
                                  Deadline deadline, std::stop_token stop = {});

  // What is attached to a manifest, of one artifact type or ("") of all; empty when nothing is.
  Result<std::vector<Referrer>> ListReferrers(const ImageReference& repository, const Digest& subject,
                                              const std::string& artifact_type, Deadline deadline,
                                              std::stop_token stop = {});

 private:
  explicit RegistryClient(std::unique_ptr<RegistryExchange> exchange, const Clock& clock)
      : exchange_(std::move(exchange)), clock_(clock) {}

  // Adds `manifest` to the tag that lists what is attached to its subject.
  Status AddToFallbackTag(const ImageReference& image, const Digest& subject, const Referrer& referrer,
                          Deadline deadline, std::stop_token stop);

  const std::unique_ptr<RegistryExchange> exchange_;
  const Clock& clock_;
};

}  // namespace paceline::blocks
