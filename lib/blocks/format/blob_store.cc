#include "lib/blocks/format/blob_store.h"

#include <fmt/format.h>

namespace paceline::blocks {

Result<std::vector<std::string>> BlobStore::ListTags(const std::string&, Deadline) {
  return UnimplementedError(Describe() + " cannot list what it holds");
}

Status BlobStore::RemoveTag(const std::string&, Deadline) {
  return UnimplementedError(Describe() + " cannot remove tags");
}

Result<std::string> ReadWholeBlob(BlobStore& store, const Descriptor& blob, Deadline deadline) {
  if (blob.size_bytes > kMaxIndexBytes) {
    return DataLossError(fmt::format("blob {}: {} bytes are too many", blob.digest.ToString(), blob.size_bytes));
  }
  std::string bytes(blob.size_bytes, '\0');
  RETURN_IF_ERROR(store.ReadBlob(blob.digest, 0, bytes, deadline));
  if (Sha256Of(bytes) != blob.digest) {
    return DataLossError("blob " + blob.digest.ToString() + " in " + store.Describe() +
                         ": its bytes have another digest");
  }
  return bytes;
}

Result<Descriptor> WriteWholeBlob(BlobStore& store, const std::string& media_type, std::string_view bytes,
                                  Deadline deadline) {
  Descriptor blob{media_type, Sha256Of(bytes), bytes.size(), {}};
  Result<uint64_t> there = store.StatBlob(blob.digest, deadline);
  if (there.ok() && *there == bytes.size()) return blob;
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  ASSIGN_OR_RETURN(const std::unique_ptr<BlobWriter> writer, store.NewBlob(deadline));
  RETURN_IF_ERROR(writer->Append(bytes, deadline));
  ASSIGN_OR_RETURN(const Descriptor written, writer->Commit(deadline));
  if (written.digest != blob.digest) return InternalError("a blob changed while it was written");
  return blob;
}

}  // namespace paceline::blocks
