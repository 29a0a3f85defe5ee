// Where converted images live: blobs by digest, manifests by digest and by tag. A registry repository, a folder, later
// a directory on HDFS; docs/formats/block-image.md, section 4. The converter writes through this, inspection and the
// chunk engine read through it.
//
// Implementations are thread-safe. All calls block for disk or network until `deadline`. Common errors: kUnavailable
// and kDeadlineExceeded (may pass), kPermissionDenied, kNotFound only where the store is sure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/blocks/format/digest.h"

namespace paceline::blocks {

// An OCI content descriptor.
struct Descriptor {
  std::string media_type;
  Digest digest;
  uint64_t size_bytes = 0;
  std::map<std::string, std::string> annotations;
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

// A blob being written. One thread at a time. Without Commit nothing stays: destruction drops what was written.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;

  // kResourceExhausted when the disk or a quota is full. After a failure only destruction is left.
  virtual Status Append(std::string_view bytes, Deadline deadline) = 0;
  // Makes the blob whole and durable under the digest of what was appended, which it returns with the size. Fine when
  // such a blob was there already. Once, and nothing after it.
  virtual Result<Descriptor> Commit(Deadline deadline) = 0;
};

struct StoredManifest {
  Descriptor descriptor;
  std::string bytes;  // their digest is descriptor.digest: checked
};

class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // Size in bytes. kNotFound.
  virtual Result<uint64_t> StatBlob(const Digest& digest, Deadline deadline) = 0;

  // Fills `out` with the bytes from `offset_bytes` on. kNotFound; kDataLoss when the blob ends before, or when the
  // store gave other bytes than were asked for. Does not check the digest: a range has none.
  virtual Status ReadBlob(const Digest& digest, uint64_t offset_bytes, std::span<char> out, Deadline deadline) = 0;

  virtual Result<std::unique_ptr<BlobWriter>> NewBlob(Deadline deadline) = 0;

  // By tag, or by digest ("sha256:..."). At most kMaxManifestBytes. kNotFound; kDataLoss when the bytes have another
  // digest than they should.
  virtual Result<StoredManifest> GetManifest(const std::string& tag_or_digest, Deadline deadline) = 0;

  // Stores the bytes and points `tag` at them, in this order; an empty tag leaves only the digest. What the manifest
  // names must be there already.
  virtual Result<Descriptor> PutManifest(const std::string& tag, const std::string& media_type, std::string_view bytes,
                                         Deadline deadline) = 0;

  // Tags that begin with `prefix`, sorted. kUnimplemented for a store that cannot list.
  virtual Result<std::vector<std::string>> ListTags(const std::string& prefix, Deadline deadline);
  // Takes the tag away; what it named stays until the store is collected. Ok when there is no such tag.
  virtual Status RemoveTag(const std::string& tag, Deadline deadline);

  // As a user gave it, without secrets: for messages.
  virtual std::string Describe() const = 0;
};

inline constexpr size_t kMaxManifestBytes = 4U << 20;
inline constexpr uint64_t kMaxIndexBytes = uint64_t{8} << 30;

// A small blob whole, with its digest checked. kDataLoss when digest or size is wrong.
Result<std::string> ReadWholeBlob(BlobStore& store, const Descriptor& blob, Deadline deadline);
// Writes a small blob whole, unless the store has it.
Result<Descriptor> WriteWholeBlob(BlobStore& store, const std::string& media_type, std::string_view bytes,
                                  Deadline deadline);

}  // namespace paceline::blocks
