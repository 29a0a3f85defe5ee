// Uploading one blob in chunks (OCI distribution, "Pushing a blob in chunks"), so that a cut connection costs the rest
// of one chunk. Internal to the registry client. One thread at a time.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "lib/blocks/format/blob_store.h"
#include "lib/blocks/registry/image_reference.h"
#include "lib/blocks/registry/registry_exchange.h"

namespace paceline::blocks {

// The address that the answer to an upload's request gives for the next one.
Result<Address> UploadLocation(const RegistryAnswer& answer);

// `location` with digest=... in its query: where the PUT that ends an upload goes.
Address WithDigest(Address location, const Digest& digest);

// A call at `repository` that pushes.
RegistryCall PushCall(const ImageReference& repository, std::string method, std::string path);

class ChunkedUpload final : public BlobWriter {
 public:
  // `exchange` and `clock` are borrowed. `location` is where the open upload goes on.
  ChunkedUpload(RegistryExchange& exchange, const Clock& clock, ImageReference repository, Address location,
                size_t chunk_bytes, std::stop_token stop);
  // Tells the registry to forget an upload that was not committed, within a few seconds.
  ~ChunkedUpload() override;

  Status Append(std::string_view bytes, Deadline deadline) override;
  Result<Descriptor> Commit(Deadline deadline) override;

 private:
  // Sends all of pending_, however many attempts that takes.
  Status Flush(Deadline deadline);
  // One PATCH of pending_; on ok it is empty.
  Status SendPending(Deadline deadline);
  // Asks how far the registry got and drops that from pending_.
  Status Resume(Deadline deadline);

  RegistryExchange& exchange_;
  const Clock& clock_;
  const ImageReference repository_;
  Address location_;
  const size_t chunk_bytes_;
  const std::stop_token stop_;
  std::string pending_;      // not known to be at the registry
  uint64_t sent_bytes_ = 0;  // known to be there
  Sha256 hash_;
  bool is_ended_ = false;
};

}  // namespace paceline::blocks
