#include "lib/blocks/image/tar_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/blocks/image/tar_header.h"
#include "lib/blocks/image/zeros.h"

namespace paceline::blocks {
namespace {

constexpr uint64_t kMaxHeaderBody = 8U << 20;  // of PAX records or a long name
constexpr size_t kMaxExtents = 1U << 20;
constexpr uint64_t kMaxSize = uint64_t{1} << 62;

uint64_t PaddingOf(uint64_t size) { return (512 - size % 512) % 512; }

Result<TarEntry::Type> TypeOf(char type, std::string_view name) {
  switch (type) {
    case '0':
    case '\0':
      // Before there was a type for directories a slash said so.
      return name.ends_with('/') ? TarEntry::Type::kDirectory : TarEntry::Type::kFile;
    case '7':
    case 'S': return TarEntry::Type::kFile;
    case '1': return TarEntry::Type::kHardLink;
    case '2': return TarEntry::Type::kSymlink;
    case '3': return TarEntry::Type::kCharDevice;
    case '4': return TarEntry::Type::kBlockDevice;
    case '5': return TarEntry::Type::kDirectory;
    case '6': return TarEntry::Type::kFifo;
    default:
      return UnimplementedError(fmt::format("tar: {} is an entry of type {:#04x}, which no layer may hold",
                                            name.substr(0, 200), static_cast<unsigned char>(type)));
  }
}

Result<uint32_t> Unsigned32(Result<int64_t> number, const char* what) {
  if (!number.ok()) return number.status();
  if (*number < 0 || *number > UINT32_MAX) {
    return InvalidArgumentError(fmt::format("tar header: {} {} is out of range", what, *number));
  }
  return static_cast<uint32_t>(*number);
}

// Adds a stretch to `extents`; empty ones only mark the end of the file.
Status AddExtent(uint64_t offset, uint64_t size, TarEntry* entry) {
  if (offset > kMaxSize || size > kMaxSize) return DataLossError("tar: a sparse map with numbers that are too large");
  if (size == 0) return Status();
  const uint64_t from =
      entry->extents.empty() ? 0 : entry->extents.back().offset_bytes + entry->extents.back().size_bytes;
  if (offset < from) return DataLossError("tar: a sparse map out of order");
  if (entry->extents.size() == kMaxExtents) return ResourceExhaustedError("tar: a sparse map that is too long");
  entry->extents.push_back({offset, size});
  return Status();
}

// "offset,size,offset,size"
Status ParseSparseList(std::string_view text, TarEntry* entry) {
  while (!text.empty()) {
    uint64_t numbers[2] = {};
    for (uint64_t& number : numbers) {
      const size_t comma = text.find(',');
      ASSIGN_OR_RETURN(number, ParseTarDecimal(text.substr(0, comma), "sparse map"));
      text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    RETURN_IF_ERROR(AddExtent(numbers[0], numbers[1], entry));
  }
  return Status();
}

const std::string* FindRecord(const std::vector<std::pair<std::string, std::string>>& records, std::string_view key) {
  for (const auto& [name, value] : records) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace

Result<bool> TarReader::ReadBlock() {
  size_t filled = 0;
  while (filled < kBlockBytes) {
    ASSIGN_OR_RETURN(const size_t got, source_.Read(std::span(block_).subspan(filled)));
    if (got == 0) break;
    filled += got;
  }
  position_ += filled;
  if (filled == 0) return false;
  if (filled < kBlockBytes) return DataLossError("tar: the archive is cut short");
  return true;
}

Result<std::string> TarReader::ReadBody(uint64_t size_bytes, const char* what) {
  if (size_bytes > kMaxHeaderBody) return ResourceExhaustedError(fmt::format("tar: {} of {} bytes", what, size_bytes));
  std::string body(size_bytes + PaddingOf(size_bytes), '\0');
  RETURN_IF_ERROR(ReadFull(source_, body).Annotate("tar"));
  position_ += body.size();
  body.resize(size_bytes);
  return body;
}

Status TarReader::Skip(uint64_t size_bytes) {
  std::string rest(std::min<uint64_t>(size_bytes, 256U << 10), '\0');
  while (size_bytes > 0) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(size_bytes, rest.size()));
    RETURN_IF_ERROR(ReadFull(source_, std::span(rest).first(size)).Annotate("tar"));
    position_ += size;
    size_bytes -= size;
  }
  return Status();
}

Result<bool> TarReader::NextHeader() {
  ASSIGN_OR_RETURN(bool has_block, ReadBlock());
  if (!has_block) return false;
  if (IsZero(block_)) {
    // The end is two blocks of zeros; what follows them is padding.
    ASSIGN_OR_RETURN(has_block, ReadBlock());
    if (has_block && !IsZero(block_)) return DataLossError("tar: an entry behind a block of zeros");
    return false;
  }
  if (!TarHeader(block_).HasRightChecksum()) {
    return DataLossError(fmt::format("tar: wrong checksum of the header at byte {}", position_ - kBlockBytes));
  }
  return true;
}

Status TarReader::TakeExtension(char type, Records* local) {
  ASSIGN_OR_RETURN(const int64_t size, TarHeader(block_).Size());
  if (size < 0) return DataLossError("tar: a header of negative size");
  ASSIGN_OR_RETURN(std::string body, ReadBody(static_cast<uint64_t>(size), "a header"));
  if (type == 'x') {
    ASSIGN_OR_RETURN(*local, ParsePaxRecords(body));
  } else if (type == 'L' || type == 'K') {
    body.resize(std::min(body.size(), body.find('\0')));
    (type == 'L' ? long_name_ : long_link_) = std::move(body);
  }
  // 'g', records for all entries, says nothing here: containerd passes over them, and layers mean what it makes of
  // them. 'V' is the name of the archive.
  return Status();
}

Result<bool> TarReader::Next(TarEntry* entry) {
  RETURN_IF_ERROR(Skip(left_ + padding_));
  left_ = padding_ = stored_ = 0;
  long_name_.clear();
  long_link_.clear();
  Records local;
  bool has_extension = false;
  for (;;) {
    ASSIGN_OR_RETURN(const bool has_header, NextHeader());
    if (!has_header) {
      if (has_extension) return DataLossError("tar: the archive is cut short");
      return false;
    }
    const char type = TarHeader(block_).type();
    if (std::string_view("xgLKV").find(type) == std::string_view::npos) break;
    RETURN_IF_ERROR(TakeExtension(type, &local));
    has_extension = type != 'g' && type != 'V';
  }
  *entry = TarEntry();
  RETURN_IF_ERROR(FillEntry(local, entry));
  return true;
}

Status TarReader::FillEntry(const Records& local, TarEntry* entry) {
  const TarHeader header(block_);
  const char type = header.type();
  entry->name = long_name_.empty() ? header.Name() : long_name_;
  entry->link_target = long_link_.empty() ? header.LinkTarget() : long_link_;
  ASSIGN_OR_RETURN(const int64_t mode, header.Mode());
  entry->mode = static_cast<uint32_t>(mode) & 07777;
  ASSIGN_OR_RETURN(entry->mtime_s, header.Mtime());
  ASSIGN_OR_RETURN(const int64_t size, header.Size());
  if (size < 0) return DataLossError("tar: an entry of negative size");
  entry->size_bytes = static_cast<uint64_t>(size);
  // PAX says what does not fit the header, whose field may then hold anything.
  if (FindRecord(local, "uid") == nullptr) {
    ASSIGN_OR_RETURN(entry->uid, Unsigned32(header.Uid(), "uid"));
  }
  if (FindRecord(local, "gid") == nullptr) {
    ASSIGN_OR_RETURN(entry->gid, Unsigned32(header.Gid(), "gid"));
  }
  for (const auto& [key, value] : local) RETURN_IF_ERROR(ApplyPaxRecord(key, value, entry));
  if (entry->size_bytes > kMaxSize) return DataLossError("tar: an entry that is too large");
  if (entry->name.find('\0') != std::string::npos || entry->link_target.find('\0') != std::string::npos) {
    return InvalidArgumentError("tar: a name with a zero byte");
  }
  ASSIGN_OR_RETURN(entry->type, TypeOf(type, entry->name));
  if (entry->type == TarEntry::Type::kCharDevice || entry->type == TarEntry::Type::kBlockDevice) {
    ASSIGN_OR_RETURN(entry->device_major, Unsigned32(header.DeviceMajor(), "devmajor"));
    ASSIGN_OR_RETURN(entry->device_minor, Unsigned32(header.DeviceMinor(), "devminor"));
  }
  if (entry->type != TarEntry::Type::kHardLink && entry->type != TarEntry::Type::kSymlink) entry->link_target.clear();

  // Entries of other types have no body, whatever their size says: some writers repeat a link's.
  if (entry->type != TarEntry::Type::kFile) entry->size_bytes = 0;
  data_offset_ = position_;
  stored_ = left_ = entry->size_bytes;
  padding_ = PaddingOf(stored_);
  if (entry->type != TarEntry::Type::kFile) return Status();
  RETURN_IF_ERROR(type == 'S' ? ReadOldSparse(entry) : ApplySparseRecords(local, entry));
  if (!entry->is_sparse) return Status();
  uint64_t stored = 0;
  for (const TarEntry::Extent& extent : entry->extents) stored += extent.size_bytes;
  const uint64_t end =
      entry->extents.empty() ? 0 : entry->extents.back().offset_bytes + entry->extents.back().size_bytes;
  if (stored != stored_ || end > entry->size_bytes || entry->size_bytes > kMaxSize) {
    return DataLossError("tar: the sparse map of " + entry->name.substr(0, 200) + " does not fit its data");
  }
  return Status();
}

// GNU's first form: four stretches in the header, more in blocks of 21 behind it.
Status TarReader::ReadOldSparse(TarEntry* entry) {
  entry->is_sparse = true;
  ASSIGN_OR_RETURN(const int64_t real_size, TarHeader(block_).Number(483, 12, "real size"));
  if (real_size < 0) return DataLossError("tar: an entry of negative size");
  entry->size_bytes = static_cast<uint64_t>(real_size);
  size_t at = 386, count = 4, flag_at = 482;
  for (;;) {
    for (size_t i = 0; i < count; ++i, at += 24) {
      // An unused one is all zero bytes and ends the list of this block.
      if (block_[at] == '\0') break;
      ASSIGN_OR_RETURN(const int64_t offset, TarHeader(block_).Number(at, 12, "sparse offset"));
      ASSIGN_OR_RETURN(const int64_t size, TarHeader(block_).Number(at + 12, 12, "sparse size"));
      if (offset < 0 || size < 0) return DataLossError("tar: a sparse map with negative numbers");
      RETURN_IF_ERROR(AddExtent(static_cast<uint64_t>(offset), static_cast<uint64_t>(size), entry));
    }
    if (block_[flag_at] == '\0') break;
    ASSIGN_OR_RETURN(const bool has_block, ReadBlock());
    if (!has_block) return DataLossError("tar: the archive is cut short");
    at = 0, count = 21, flag_at = 504;
  }
  data_offset_ = position_;
  return Status();
}

// The forms 0.0, 0.1 and 1.0 of GNU tar's sparse files in PAX archives.
Status TarReader::ApplySparseRecords(const Records& local, TarEntry* entry) {
  const std::string* major = FindRecord(local, "GNU.sparse.major");
  const std::string* map = FindRecord(local, "GNU.sparse.map");
  const std::string* name = FindRecord(local, "GNU.sparse.name");
  const std::string* size = FindRecord(local, "GNU.sparse.realsize");
  if (size == nullptr) size = FindRecord(local, "GNU.sparse.size");
  const bool has_map_in_data = major != nullptr && *major == "1";
  if (size == nullptr || (!has_map_in_data && map == nullptr && FindRecord(local, "GNU.sparse.numblocks") == nullptr)) {
    return Status();
  }
  entry->is_sparse = true;
  ASSIGN_OR_RETURN(entry->size_bytes, ParseTarDecimal(*size, "real size"));
  if (name != nullptr && !name->empty()) entry->name = *name;
  if (has_map_in_data) return ReadSparseMap(entry);
  if (map != nullptr) return ParseSparseList(*map, entry);
  // 0.0 repeats its keys: an offset, then how many bytes.
  uint64_t offset = 0;
  for (const auto& [key, value] : local) {
    if (key == "GNU.sparse.offset") {
      ASSIGN_OR_RETURN(offset, ParseTarDecimal(value, "sparse offset"));
    } else if (key == "GNU.sparse.numbytes") {
      ASSIGN_OR_RETURN(const uint64_t stretch, ParseTarDecimal(value, "sparse size"));
      RETURN_IF_ERROR(AddExtent(offset, stretch, entry));
    }
  }
  return Status();
}

// 1.0: lines of decimal numbers (how many, then offset and size of each) fill whole blocks in front of the data.
Status TarReader::ReadSparseMap(TarEntry* entry) {
  std::string text;
  size_t at = 0;
  const auto next_number = [&]() -> Result<uint64_t> {
    size_t end = text.find('\n', at);
    while (end == std::string::npos) {
      if (text.size() - at > 32 || left_ < kBlockBytes) return DataLossError("tar: a damaged sparse map");
      ASSIGN_OR_RETURN(const bool has_block, ReadBlock());
      if (!has_block) return DataLossError("tar: the archive is cut short");
      left_ -= kBlockBytes;
      text.erase(0, at);
      at = 0;
      text += block_;
      end = text.find('\n');
    }
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    return ParseTarDecimal(line, "sparse map");
  };
  ASSIGN_OR_RETURN(const uint64_t count, next_number());
  if (count > kMaxExtents) return ResourceExhaustedError("tar: a sparse map that is too long");
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t offset, next_number());
    ASSIGN_OR_RETURN(const uint64_t size, next_number());
    RETURN_IF_ERROR(AddExtent(offset, size, entry));
  }
  data_offset_ = position_;
  stored_ = left_;
  return Status();
}

Result<size_t> TarReader::Read(std::span<char> out) {
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), left_));
  if (wanted == 0) return size_t{0};
  ASSIGN_OR_RETURN(const size_t got, source_.Read(out.first(wanted)));
  if (got == 0) return DataLossError("tar: the archive is cut short");
  left_ -= got;
  position_ += got;
  return got;
}

Status TarReader::Drain() {
  std::string rest(64U << 10, '\0');
  for (;;) {
    ASSIGN_OR_RETURN(const size_t got, source_.Read(rest));
    if (got == 0) return Status();
  }
}

}  // namespace paceline::blocks
