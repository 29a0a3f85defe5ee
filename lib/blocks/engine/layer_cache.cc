#include "lib/blocks/engine/layer_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace paceline::blocks {
namespace {

constexpr size_t kMetadataPieceBytes = 64 * 1024;

// False at the end of the file or on an error: what is not there is absent, whatever the reason.
bool ReadExactly(int fd, uint64_t offset, std::span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

Status WriteExactly(int fd, uint64_t offset, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write " + what);
    if (put == 0) return ResourceExhaustedError("write " + what + ": nothing was taken");
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return Status();
}

Result<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path);
  return fd;
}

void PunchHole(int fd, uint64_t offset, uint64_t length) {
  // A file system without holes keeps the space until the layer goes.
  [[maybe_unused]] const int result =
      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(length));
}

}  // namespace

Result<std::unique_ptr<LayerCache>> LayerCache::Open(std::string folder, const Digest& index_digest, LayerIndex index) {
  std::unique_ptr<LayerCache> layer(new LayerCache(std::move(folder), index_digest, std::move(index)));
  if (const Status opened = layer->OpenFiles(); !opened.ok()) {
    // Served without this disk: nothing is ever present.
    layer->image_.Reset();
    layer->map_file_.Reset();
    layer->map_ = std::make_unique<CacheMap>(layer->index_.chunk_count());
  }
  RETURN_IF_ERROR(layer->PrepareMetadata());
  return layer;
}

Status LayerCache::OpenFiles() {
  ASSIGN_OR_RETURN(image_, OpenFile(folder_ + "/image"));
  if (ftruncate(image_.get(), static_cast<off_t>(index_.header().image_bytes())) != 0) {
    return ErrnoStatus(errno, "set the size of " + folder_ + "/image");
  }
  return OpenMap();
}

Status LayerCache::OpenMap() {
  const std::string path = folder_ + "/map";
  ASSIGN_OR_RETURN(map_file_, OpenFile(path));
  const size_t size = kMapHeaderBytes + size_t{index_.chunk_count()} * kMapEntryBytes;
  struct stat st = {};
  if (fstat(map_file_.get(), &st) != 0) return ErrnoStatus(errno, path);
  if (static_cast<uint64_t>(st.st_size) == size) {
    std::string bytes(size, '\0');
    if (ReadExactly(map_file_.get(), 0, bytes)) map_ = DecodeMap(bytes, index_digest_, index_.chunk_count());
    if (map_ != nullptr) return Status();
  }
  map_ = std::make_unique<CacheMap>(index_.chunk_count());
  // All space at once, so that an entry can always be written; the header last, so that a crash leaves no map.
  if (ftruncate(map_file_.get(), 0) != 0) return ErrnoStatus(errno, path);
  if (const int error = posix_fallocate(map_file_.get(), 0, static_cast<off_t>(size)); error != 0) {
    return ErrnoStatus(error, path);
  }
  return WriteExactly(map_file_.get(), 0, EncodeMapHeader(index_digest_, index_.chunk_count()), path);
}

void LayerCache::WriteEntry(uint32_t chunk, uint32_t use_time) {
  const uint64_t offset = kMapHeaderBytes + uint64_t{chunk} * kMapEntryBytes;
  // Lost, the entry costs a fetch after the next start, or a check that fails.
  WriteExactly(map_file_.get(), offset, EncodeMapEntry(use_time), "map").IgnoreError();
}

Result<std::string> LayerCache::Load(uint32_t chunk) {
  if (!map_->IsPresent(chunk)) return NotFoundError("not in the cache");
  const Chunk entry = index_.chunk(chunk);
  std::string content(entry.content_bytes(), '\0');
  const bool is_read = ReadExactly(image_.get(), uint64_t{entry.first_block} * kBlockBytes, content);
  if (is_read && Sha256Of(content) == entry.digest) return content;
  // Dropped by another thread between the two lines above, or written again: no damage then.
  if (!Drop(chunk)) return NotFoundError("not in the cache any more");
  return DataLossError(fmt::format("chunk {} on disk has changed", chunk));
}

Result<bool> LayerCache::Store(uint32_t chunk, std::string_view content, uint32_t use_time) {
  if (!image_.is_valid()) return ResourceExhaustedError("the cache of this layer could not be made");
  if (!map_->BeginStore(chunk)) return false;
  const uint64_t offset = uint64_t{index_.chunk(chunk).first_block} * kBlockBytes;
  const Status written = WriteExactly(image_.get(), offset, content, folder_ + "/image");
  if (!written.ok()) {
    PunchHole(image_.get(), offset, content.size());
    map_->FinishAbsent(chunk);
    return written;
  }
  WriteEntry(chunk, use_time);
  map_->FinishPresent(chunk, use_time);
  return true;
}

bool LayerCache::Drop(uint32_t chunk) {
  if (!map_->BeginDrop(chunk)) return false;
  const Chunk entry = index_.chunk(chunk);
  WriteEntry(chunk, 0);
  PunchHole(image_.get(), uint64_t{entry.first_block} * kBlockBytes, entry.content_bytes());
  map_->FinishAbsent(chunk);
  return true;
}

void LayerCache::SaveUseTimes() {
  if (!map_file_.is_valid() || map_->size() == 0) return;
  std::string entries;
  entries.reserve(size_t{map_->size()} * kMapEntryBytes);
  for (uint32_t chunk = 0; chunk < map_->size(); ++chunk) {
    entries += EncodeMapEntry(map_->IsPresent(chunk) ? map_->LastUse(chunk) : 0);
  }
  // A chunk that comes or goes meanwhile may be written wrong here, which the next start notices by its digest or
  // fetches again.
  WriteExactly(map_file_.get(), kMapHeaderBytes, entries, "map").IgnoreError();
}

uint64_t LayerCache::ImageOffset(uint64_t metadata_offset) const {
  if (metadata_offset < kBlockBytes) return metadata_offset;
  return metadata_offset + uint64_t{index_.header().data_blocks} * kBlockBytes;
}

uint64_t LayerCache::MetadataOffset(uint64_t image_offset) const {
  if (image_offset < kBlockBytes) return image_offset;
  return image_offset - uint64_t{index_.header().data_blocks} * kBlockBytes;
}

// Reads one piece as it lies in the image file: its first block may be apart from the rest.
Status LayerCache::ReadMetadataPiece(uint64_t metadata_offset, std::string* piece) {
  const uint64_t size = std::min<uint64_t>(kMetadataPieceBytes, index_.header().metadata_bytes() - metadata_offset);
  piece->resize(size);
  const std::span<char> all(*piece);
  const size_t head = metadata_offset == 0 ? kBlockBytes : 0;
  const bool is_read = ReadExactly(image_.get(), 0, all.first(head)) &&
                       ReadExactly(image_.get(), ImageOffset(metadata_offset + head), all.subspan(head));
  return is_read ? Status() : DataLossError("metadata is missing on disk");
}

Result<bool> LayerCache::DiskMetadataIsGood() {
  if (!image_.is_valid()) return false;
  std::vector<uint32_t> checksums;
  Sha256 hash;
  std::string piece;
  for (uint64_t at = 0; at < index_.header().metadata_bytes(); at += kMetadataPieceBytes) {
    if (!ReadMetadataPiece(at, &piece).ok()) return false;
    hash.Update(piece);
    checksums.push_back(Crc32c(piece));
  }
  if (hash.Finish() != index_.header().metadata_digest) return false;
  metadata_checksums_ = std::move(checksums);
  return true;
}

Status LayerCache::UnpackToDisk() {
  if (!image_.is_valid()) return ResourceExhaustedError("no disk");
  uint64_t at = 0;
  return index_.UnpackMetadata([&](std::string_view bytes) -> Status {
    while (!bytes.empty()) {
      const uint64_t room = at < kBlockBytes ? kBlockBytes - at : bytes.size();
      const std::string_view part = bytes.substr(0, room);
      RETURN_IF_ERROR(WriteExactly(image_.get(), ImageOffset(at), part, folder_ + "/image"));
      bytes.remove_prefix(part.size());
      at += part.size();
    }
    return Status();
  });
}

Status LayerCache::PrepareMetadata() {
  ASSIGN_OR_RETURN(bool is_good, DiskMetadataIsGood());
  if (is_good) return Status();
  if (UnpackToDisk().ok()) {
    ASSIGN_OR_RETURN(is_good, DiskMetadataIsGood());
    if (is_good) return Status();
  }
  ASSIGN_OR_RETURN(metadata_, index_.Metadata());
  return Status();
}

Status LayerCache::ReadMetadata(uint64_t image_offset, std::span<char> out) {
  uint64_t at = MetadataOffset(image_offset);
  if (!metadata_.empty()) {
    std::copy_n(metadata_.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
    return Status();
  }
  std::string piece;
  while (!out.empty()) {
    const uint64_t number = at / kMetadataPieceBytes, inside = at % kMetadataPieceBytes;
    const auto read_is_good = [&] {
      return ReadMetadataPiece(number * kMetadataPieceBytes, &piece).ok() &&
             Crc32c(piece) == metadata_checksums_[number];
    };
    if (!read_is_good()) {
      MutexLock lock(mend_mutex_);  // held over the disk on purpose: two writers of the same bytes would race
      if (!read_is_good()) {
        RETURN_IF_ERROR(UnpackToDisk().Annotate("mend the metadata"));
        ++mended_metadata_;
        if (!read_is_good()) return DataLossError("the metadata on disk changes under us");
      }
    }
    const size_t taken = std::min<size_t>(out.size(), piece.size() - inside);
    std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(inside), taken, out.begin());
    out = out.subspan(taken);
    at += taken;
  }
  return Status();
}

}  // namespace paceline::blocks
