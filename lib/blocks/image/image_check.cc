#include "lib/blocks/image/image_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "lib/base/unique_fd.h"
#include "lib/blocks/format/erofs_reader.h"

namespace paceline::blocks {
namespace {

constexpr uint64_t kReadBytes = 1U << 20;

// A data blob from front to back, in large reads; on the way its digest.
class BlobStream {
 public:
  BlobStream(BlobStore& store, const BlobEntry& blob, const CheckOptions& options, const Clock& clock)
      : store_(store), blob_(blob), options_(options), clock_(clock) {}

  // The stored bytes of a chunk. Chunks come in the order of the blob but for those that are stored once and used
  // again.
  Status Read(const Chunk& chunk, std::string* stored) {
    stored->resize(chunk.stored_bytes);
    if (chunk.offset_bytes != at_) return store_.ReadBlob(blob_.digest, chunk.offset_bytes, *stored, Soon());
    for (size_t filled = 0; filled < stored->size();) {
      if (buffer_.empty()) RETURN_IF_ERROR(Refill());
      const size_t size = std::min(buffer_.size() - used_, stored->size() - filled);
      stored->replace(filled, size, buffer_, used_, size);
      filled += size;
      Take(size);
    }
    return Status();
  }

  // Reads what no chunk has used, and compares the digest.
  Status Finish() {
    while (at_ < blob_.size_bytes) {
      if (buffer_.empty()) RETURN_IF_ERROR(Refill());
      Take(buffer_.size() - used_);
    }
    if (hash_.Finish() != blob_.digest) {
      return DataLossError("blob " + blob_.digest.ToString() + ": its bytes have another digest");
    }
    return Status();
  }

 private:
  Deadline Soon() const { return Deadline::After(clock_, options_.store_limit); }

  Status Refill() {
    buffer_.resize(std::min(kReadBytes, blob_.size_bytes - at_));
    used_ = 0;
    RETURN_IF_ERROR(store_.ReadBlob(blob_.digest, at_, buffer_, Soon()));
    hash_.Update(buffer_);
    if (options_.on_progress) options_.on_progress(buffer_.size());
    return Status();
  }

  void Take(size_t size) {
    at_ += size;
    used_ += size;
    if (used_ == buffer_.size()) buffer_.clear();
  }

  BlobStore& store_;
  const BlobEntry& blob_;
  const CheckOptions& options_;
  const Clock& clock_;
  Sha256 hash_;
  uint64_t at_ = 0;
  std::string buffer_;
  size_t used_ = 0;
};

// Every inode that a name leads to, once.
Status CheckTree(const ErofsReader& reader, const LayerIndexHeader& header) {
  std::unordered_set<uint64_t> seen = {reader.root()};
  std::vector<uint64_t> open = {reader.root()};
  uint64_t file_bytes = 0;
  while (!open.empty()) {
    ASSIGN_OR_RETURN(const ErofsInode directory, reader.Inode(open.back()));
    open.pop_back();
    ASSIGN_OR_RETURN(const std::vector<ErofsEntry> entries, reader.List(directory));
    for (const ErofsEntry& entry : entries) {
      ASSIGN_OR_RETURN(const ErofsInode inode, reader.Inode(entry.nid));
      if (!seen.insert(entry.nid).second) {
        // More than one name is fine for a file; a directory would be a circle.
        if (S_ISDIR(inode.mode)) return DataLossError("directory " + entry.name + " lies in two places");
        continue;
      }
      RETURN_IF_ERROR(reader.Xattrs(inode).status());
      if (S_ISDIR(inode.mode)) open.push_back(entry.nid);
      if (S_ISLNK(inode.mode)) RETURN_IF_ERROR(reader.SymlinkTarget(inode).status());
      if (S_ISREG(inode.mode)) {
        RETURN_IF_ERROR(reader.Extents(inode).status().Annotate(entry.name));
        file_bytes += inode.size_bytes;
      }
    }
  }
  if (seen.size() != header.inodes || file_bytes != header.file_bytes) {
    return DataLossError("the tree holds other numbers of files or bytes than the index says");
  }
  return Status();
}

Status CheckMetadata(const LayerIndex& index, const CheckOptions& options) {
  std::string metadata;
  metadata.reserve(index.header().metadata_bytes());
  RETURN_IF_ERROR(index.UnpackMetadata([&](std::string_view piece) {
    metadata += piece;
    return options.on_metadata ? options.on_metadata(piece) : Status();
  }));
  ASSIGN_OR_RETURN(const ErofsReader reader, ErofsReader::Open(std::move(metadata), index.header()));
  return CheckTree(reader, index.header());
}

Status CheckChunks(BlobStore& store, const LayerIndex& index, const CheckOptions& options, const Clock& clock,
                   const std::stop_token& stop) {
  std::vector<BlobStream> streams;
  for (const BlobEntry& blob : index.blobs()) streams.emplace_back(store, blob, options, clock);
  ChunkDecoder decoder;
  std::string stored, content;
  for (uint32_t i = 0; i < index.chunk_count(); ++i) {
    if (stop.stop_requested()) return CancelledError("the check was stopped");
    const Chunk chunk = index.chunk(i);
    RETURN_IF_ERROR(streams[chunk.blob].Read(chunk, &stored));
    RETURN_IF_ERROR(decoder.Decode(chunk, stored, &content));
    if (options.on_content) RETURN_IF_ERROR(options.on_content(content));
  }
  for (BlobStream& stream : streams) RETURN_IF_ERROR(stream.Finish());
  return Status();
}

// A blob with bytes behind its end would never be noticed by reads of what its descriptor names.
Status CheckSize(BlobStore& store, const Descriptor& blob, Deadline deadline) {
  ASSIGN_OR_RETURN(const uint64_t size, store.StatBlob(blob.digest, deadline));
  if (size == blob.size_bytes) return Status();
  return DataLossError(
      fmt::format("blob {} has {} bytes instead of {}", blob.digest.ToString(), size, blob.size_bytes));
}

}  // namespace

Result<LayerIndex> ReadLayerIndex(BlobStore& store, const BlockLayer& layer, Deadline deadline) {
  ASSIGN_OR_RETURN(std::string bytes, ReadWholeBlob(store, layer.index, deadline));
  ASSIGN_OR_RETURN(LayerIndex index, LayerIndex::Parse(std::make_shared<const std::string>(std::move(bytes))));
  if (index.header().diff_id != layer.diff_id) return DataLossError("the index is that of another layer");
  const auto is_same = [](const Descriptor& data, const BlobEntry& blob) {
    return data.digest == blob.digest && data.size_bytes == blob.size_bytes;
  };
  if (!std::equal(layer.data.begin(), layer.data.end(), index.blobs().begin(), index.blobs().end(), is_same)) {
    return DataLossError("the index names other blobs than the manifest");
  }
  return index;
}

Result<CheckedLayer> CheckLayer(BlobStore& store, const BlockLayer& layer, const CheckOptions& options,
                                const Clock& clock, const std::stop_token& stop) {
  const auto soon = [&] { return Deadline::After(clock, options.store_limit); };
  RETURN_IF_ERROR(CheckSize(store, layer.index, soon()));
  for (const Descriptor& data : layer.data) RETURN_IF_ERROR(CheckSize(store, data, soon()));
  ASSIGN_OR_RETURN(const LayerIndex index, ReadLayerIndex(store, layer, soon()));
  if (options.on_progress) options.on_progress(layer.index.size_bytes);
  RETURN_IF_ERROR(CheckMetadata(index, options));
  RETURN_IF_ERROR(CheckChunks(store, index, options, clock, stop));
  CheckedLayer checked{index.header(), index.chunk_count(), layer.index.size_bytes, 0};
  for (const BlobEntry& blob : index.blobs()) checked.stored_bytes += blob.size_bytes;
  return checked;
}

Status WriteLayerImage(BlobStore& store, const BlockLayer& layer, const std::string& path, const Clock& clock,
                       const std::stop_token& stop) {
  CheckOptions options;
  ASSIGN_OR_RETURN(const LayerIndex index, ReadLayerIndex(store, layer, Deadline::After(clock, options.store_limit)));
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_valid()) return ErrnoStatus(errno, "open " + path);
  const auto write_at = [&](std::string_view bytes, uint64_t* offset) -> Status {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(*offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write " + path);
      bytes.remove_prefix(static_cast<size_t>(written));
      *offset += static_cast<uint64_t>(written);
    }
    return Status();
  };
  uint64_t metadata_at = 0, content_at = kBlockBytes;
  options.on_metadata = [&](std::string_view bytes) -> Status {
    // Block 0 stands in front of the contents, the other metadata behind them.
    const size_t head = metadata_at < kBlockBytes ? std::min<size_t>(bytes.size(), kBlockBytes - metadata_at) : 0;
    if (head > 0) RETURN_IF_ERROR(write_at(bytes.substr(0, head), &metadata_at));
    if (metadata_at == kBlockBytes) metadata_at = uint64_t{index.header().first_meta_block()} * kBlockBytes;
    return write_at(bytes.substr(head), &metadata_at);
  };
  options.on_content = [&](std::string_view bytes) { return write_at(bytes, &content_at); };
  return CheckLayer(store, layer, options, clock, stop).status().Annotate(path);
}

}  // namespace paceline::blocks
