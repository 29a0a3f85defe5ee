#include "lib/blocks/image/erofs_writer.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/blocks/format/erofs_layout.h"
#include "lib/blocks/format/layer_index.h"
#include "lib/blocks/format/little_endian.h"

namespace paceline::blocks {
namespace {

using erofs::DataLayout;

constexpr uint64_t kBlock = erofs::kBlockBytes;
constexpr uint64_t kNidBytes = uint64_t{1} << erofs::kNidBits;
constexpr size_t kMaxXattrValue = 65535;
constexpr uint64_t kMaxXattrBody = 12 + 4 * uint64_t{65534};

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Where an inode lies and in which form.
struct Place {
  uint64_t at = 0;  // in the inode area
  DataLayout layout = DataLayout::kPlain;
  uint32_t xattr_bytes = 0;
  uint32_t inline_bytes = 0;  // behind the attributes: a directory's tail, a link's target, a map of units
  uint32_t plain_blocks = 0;  // in the directory area, of a directory or a long link
  uint32_t plain_at = 0;      // first of them, from the start of the directory area
  uint64_t size_bytes = 0;
  uint32_t subdirectories = 0;
};

struct XattrName {
  erofs::XattrPrefix prefix;
  std::string_view suffix;
};

XattrName SplitXattr(std::string_view name) {
  const std::pair<std::string_view, erofs::XattrPrefix> prefixes[] = {{"user.", erofs::XattrPrefix::kUser},
                                                                      {"trusted.", erofs::XattrPrefix::kTrusted},
                                                                      {"security.", erofs::XattrPrefix::kSecurity}};
  if (name == "system.posix_acl_access") return {erofs::XattrPrefix::kAclAccess, ""};
  if (name == "system.posix_acl_default") return {erofs::XattrPrefix::kAclDefault, ""};
  for (const auto& [text, prefix] : prefixes) {
    if (name.starts_with(text)) return {prefix, name.substr(text.size())};
  }
  return {erofs::XattrPrefix::kNone, name};
}

erofs::FileType FileTypeOf(uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return erofs::FileType::kRegular;
    case S_IFDIR: return erofs::FileType::kDirectory;
    case S_IFCHR: return erofs::FileType::kCharDevice;
    case S_IFBLK: return erofs::FileType::kBlockDevice;
    case S_IFIFO: return erofs::FileType::kFifo;
    case S_IFLNK: return erofs::FileType::kSymlink;
    default: return erofs::FileType::kUnknown;
  }
}

struct DirectoryEntry {
  std::string_view name;
  uint32_t inode;
};

class Writer {
 public:
  Writer(const LayerTree& tree, uint32_t data_blocks, const Digest& diff_id,
         const std::function<Status(std::string_view)>& sink)
      : inodes_(tree.inodes()), data_blocks_(data_blocks), diff_id_(diff_id), sink_(sink), places_(inodes_.size()) {}

  Result<ErofsMetadata> Run() {
    RETURN_IF_ERROR(PlaceAll());
    RETURN_IF_ERROR(Emit(Superblock()));
    const uint32_t parent_of_root = LayerTree::kRoot;
    parents_.assign(inodes_.size(), parent_of_root);
    for (const uint32_t number : order_) RETURN_IF_ERROR(EmitInode(number));
    RETURN_IF_ERROR(PadTo(uint64_t{inode_blocks_} * kBlock));
    for (const uint32_t number : order_) RETURN_IF_ERROR(EmitPlain(number));
    RETURN_IF_ERROR(Flush());
    CHECK(emitted_ == kBlock + MetaBlocks() * kBlock);
    return ErofsMetadata{static_cast<uint32_t>(MetaBlocks()), order_.size(), file_bytes_};
  }

 private:
  uint64_t MetaBlocks() const { return uint64_t{inode_blocks_} + plain_blocks_; }

  Status PlaceAll();
  Status PlaceInode(uint32_t number);
  Status PlaceDirectory(const Inode& inode, Place* place);
  void PlaceWithTail(uint64_t tail_bytes, Place* place);
  Result<uint32_t> XattrBytes(const Inode& inode) const;
  std::vector<DirectoryEntry> Entries(uint32_t number) const;

  std::string Superblock() const;
  Status EmitInode(uint32_t number);
  Status EmitPlain(uint32_t number);
  void AppendXattrs(const Inode& inode, std::string* out) const;
  std::string InodeBytes(uint32_t number) const;
  std::string UnionBytes(const Inode& inode, const Place& place) const;
  std::string DirectoryBytes(uint32_t number, uint64_t from_block, uint64_t to_block) const;
  Status Emit(std::string_view bytes);
  Status PadTo(uint64_t offset);
  Status Flush();

  const std::vector<Inode>& inodes_;
  const uint32_t data_blocks_;
  const Digest diff_id_;
  const std::function<Status(std::string_view)>& sink_;

  std::vector<Place> places_;
  std::vector<uint32_t> order_;         // of inodes, as they lie in the image
  std::vector<uint32_t> parents_;       // of directories
  uint64_t next_ = erofs::kInodeBytes;  // the first number would be 0, which programs take for "no file"
  uint32_t inode_blocks_ = 0, plain_blocks_ = 0;
  uint64_t file_bytes_ = 0;
  bool has_holes_ = false;

  std::string buffer_;
  uint64_t emitted_ = 0;  // handed to the sink or in the buffer
};

Result<uint32_t> Writer::XattrBytes(const Inode& inode) const {
  if (inode.xattrs == nullptr || inode.xattrs->empty()) return uint32_t{0};
  uint64_t bytes = erofs::kXattrHeaderBytes;
  for (const auto& [name, value] : *inode.xattrs) {
    const size_t suffix = SplitXattr(name).suffix.size();
    if (value.size() > kMaxXattrValue || suffix > kMaxNameBytes) {
      return InvalidArgumentError("extended attribute " + name.substr(0, 300) + " is too long");
    }
    bytes += RoundUp(erofs::kXattrEntryBytes + suffix + value.size(), 4);
  }
  if (bytes > kMaxXattrBody) return InvalidArgumentError("more extended attributes than EROFS holds");
  return static_cast<uint32_t>(bytes);
}

// Sorted by bytes, "." and ".." among the others.
std::vector<DirectoryEntry> Writer::Entries(uint32_t number) const {
  std::vector<DirectoryEntry> entries;
  const auto& children = *inodes_[number].children;
  entries.reserve(children.size() + 2);
  entries.push_back({".", number});
  entries.push_back({"..", parents_.empty() ? number : parents_[number]});
  for (const auto& [name, child] : children) entries.push_back({name, child});
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

// Finds room where the inode does not cross a block and its tail neither: the kernel asks for both.
void Writer::PlaceWithTail(uint64_t tail_bytes, Place* place) {
  const uint64_t head = erofs::kInodeBytes + place->xattr_bytes;
  uint64_t at = RoundUp(next_, kNidBytes);
  const auto fits = [&](uint64_t from) {
    const bool is_whole = from % kBlock + erofs::kInodeBytes <= kBlock;
    return is_whole && (tail_bytes == 0 || (from + head) % kBlock + tail_bytes <= kBlock);
  };
  // Map entries may cross blocks: each is looked up by itself.
  const bool may_cross = place->layout == DataLayout::kChunked;
  for (uint64_t tries = 0; tries <= kBlock / kNidBytes; ++tries, at += kNidBytes) {
    if (may_cross ? at % kBlock + erofs::kInodeBytes <= kBlock : fits(at)) break;
  }
  place->at = at;
  place->inline_bytes = static_cast<uint32_t>(tail_bytes);
  next_ = at + head + tail_bytes;
}

Status Writer::PlaceDirectory(const Inode& inode, Place* place) {
  uint64_t blocks = 0, in_block = 0;
  const auto add = [&](uint64_t name_bytes) {
    const uint64_t bytes = erofs::kDirentBytes + name_bytes;
    if (in_block + bytes > kBlock) {
      ++blocks;
      in_block = 0;
    }
    in_block += bytes;
  };
  // In the order of Entries: "." and ".." sort before most names, but not before all.
  bool has_dot = false, has_dots = false;
  for (const auto& [name, child] : *inode.children) {
    if (!has_dot && name > ".") add(1), has_dot = true;
    if (!has_dots && name > "..") add(2), has_dots = true;
    add(name.size());
    if (S_ISDIR(inodes_[child].mode)) ++place->subdirectories;
  }
  if (!has_dot) add(1);
  if (!has_dots) add(2);

  place->size_bytes = blocks * kBlock + in_block;
  // Where inode, attributes and tail do not fit one block, and the tail cannot start one, it becomes a block of its
  // own.
  const bool is_inline = erofs::kInodeBytes + place->xattr_bytes + in_block <= kBlock;
  place->layout = is_inline ? DataLayout::kInline : DataLayout::kPlain;
  const uint64_t plain = blocks + (is_inline ? 0 : 1);
  if (plain_blocks_ + plain > kMaxMetaBlocks) return ResourceExhaustedError("more metadata than the format holds");
  place->plain_blocks = static_cast<uint32_t>(plain);
  PlaceWithTail(is_inline ? in_block : 0, place);
  return Status();
}

Status Writer::PlaceInode(uint32_t number) {
  const Inode& inode = inodes_[number];
  Place& place = places_[number];
  ASSIGN_OR_RETURN(place.xattr_bytes, XattrBytes(inode));
  order_.push_back(number);
  if (S_ISDIR(inode.mode)) {
    RETURN_IF_ERROR(PlaceDirectory(inode, &place));
  } else if (inode.symlink_target != nullptr) {
    place.size_bytes = inode.symlink_target->size();
    const bool is_inline = erofs::kInodeBytes + place.xattr_bytes + place.size_bytes <= kBlock;
    place.layout = is_inline ? DataLayout::kInline : DataLayout::kPlain;
    place.plain_blocks = is_inline ? 0 : 1;
    PlaceWithTail(is_inline ? place.size_bytes : 0, &place);
  } else if (inode.holes != nullptr) {
    has_holes_ = true;
    place.size_bytes = inode.size_bytes;
    place.layout = DataLayout::kChunked;
    PlaceWithTail(inode.holes->units.size() * sizeof(uint32_t), &place);
  } else {
    place.size_bytes = S_ISREG(inode.mode) ? inode.size_bytes : 0;
    PlaceWithTail(0, &place);
  }
  if (S_ISREG(inode.mode)) file_bytes_ += inode.size_bytes;
  if (inode.device_major > erofs::kMaxMajor || inode.device_minor > erofs::kMaxMinor) {
    return InvalidArgumentError("a device number that no kernel knows");
  }
  place.plain_at = plain_blocks_;
  plain_blocks_ += place.plain_blocks;
  if (next_ > uint64_t{kMaxMetaBlocks} * kBlock) return ResourceExhaustedError("more metadata than the format holds");
  return Status();
}

// The inodes of a directory's files lie behind it, then come its subdirectories in the same manner.
Status Writer::PlaceAll() {
  RETURN_IF_ERROR(PlaceInode(LayerTree::kRoot));
  std::vector<bool> is_placed(inodes_.size());
  std::vector<uint32_t> open = {LayerTree::kRoot};
  while (!open.empty()) {
    const uint32_t directory = open.back();
    open.pop_back();
    std::vector<uint32_t> below;
    for (const auto& [name, child] : *inodes_[directory].children) {
      if (is_placed[child]) continue;
      is_placed[child] = true;
      const Status placed = PlaceInode(child);
      if (!placed.ok()) return placed.Annotate(name);
      if (S_ISDIR(inodes_[child].mode)) below.push_back(child);
    }
    open.insert(open.end(), below.rbegin(), below.rend());
  }
  // fsck.erofs 1.5 reads an attribute header behind every inode, be there one or not: also behind the last.
  inode_blocks_ = static_cast<uint32_t>(RoundUp(next_ + erofs::kXattrHeaderBytes, kBlock) / kBlock);
  const uint64_t total = uint64_t{1} + data_blocks_ + MetaBlocks();
  if (MetaBlocks() > kMaxMetaBlocks || total >= UINT32_MAX) {
    return ResourceExhaustedError("a layer too large for the format");
  }
  return Status();
}

std::string Writer::Superblock() const {
  std::string block(kBlock, '\0');
  char* at = block.data() + erofs::kSuperblockAt;
  StoreLe(at + erofs::super::kMagicAt, erofs::kMagic);
  StoreLe(at + erofs::super::kCompatAt, erofs::kCompatChecksum);
  StoreLe(at + erofs::super::kBlockBitsAt, static_cast<uint8_t>(erofs::kBlockBits));
  StoreLe(at + erofs::super::kRootNidAt, static_cast<uint16_t>(places_[LayerTree::kRoot].at / kNidBytes));
  StoreLe(at + erofs::super::kInodesAt, uint64_t{order_.size()});
  StoreLe(at + erofs::super::kBlocksAt, static_cast<uint32_t>(1 + data_blocks_ + MetaBlocks()));
  StoreLe(at + erofs::super::kMetaBlockAt, uint32_t{1 + data_blocks_});
  std::memcpy(at + erofs::super::kUuidAt, diff_id_.bytes.data(), 16);
  StoreLe(at + erofs::super::kIncompatAt, has_holes_ ? erofs::kIncompatChunkedFile : uint32_t{0});
  // The kernel's CRC is not complemented at its end.
  const uint32_t crc = ~Crc32c(std::string_view(block).substr(erofs::kSuperblockAt));
  StoreLe(at + erofs::super::kChecksumAt, crc);
  return block;
}

void Writer::AppendXattrs(const Inode& inode, std::string* out) const {
  if (inode.xattrs == nullptr || inode.xattrs->empty()) return;
  out->append(erofs::kXattrHeaderBytes, '\0');
  for (const auto& [name, value] : *inode.xattrs) {
    const XattrName split = SplitXattr(name);
    AppendLe(out, static_cast<uint8_t>(split.suffix.size()));
    AppendLe(out, static_cast<uint8_t>(split.prefix));
    AppendLe(out, static_cast<uint16_t>(value.size()));
    *out += split.suffix;
    *out += value;
    const size_t bytes = erofs::kXattrEntryBytes + split.suffix.size() + value.size();
    out->append(RoundUp(bytes, 4) - bytes, '\0');
  }
}

std::string Writer::UnionBytes(const Inode& inode, const Place& place) const {
  uint32_t value = 0;
  if (place.plain_blocks > 0) {
    value = 1 + data_blocks_ + inode_blocks_ + place.plain_at;
  } else if (S_ISCHR(inode.mode) || S_ISBLK(inode.mode)) {
    value = erofs::EncodeDevice(inode.device_major, inode.device_minor);
  } else if (inode.holes != nullptr) {
    value = inode.holes->unit_bits - erofs::kBlockBits;
  } else if (S_ISREG(inode.mode)) {
    value = inode.first_block;
  }
  std::string bytes;
  AppendLe(&bytes, value);
  return bytes;
}

std::string Writer::InodeBytes(uint32_t number) const {
  const Inode& inode = inodes_[number];
  const Place& place = places_[number];
  std::string out(erofs::kInodeBytes, '\0');
  char* at = out.data();
  StoreLe(at + erofs::inode::kFormatAt,
          static_cast<uint16_t>(erofs::kExtendedInode | static_cast<uint16_t>(place.layout) << 1));
  const uint32_t xattr_count = place.xattr_bytes == 0 ? 0 : (place.xattr_bytes - erofs::kXattrHeaderBytes) / 4 + 1;
  StoreLe(at + erofs::inode::kXattrCountAt, static_cast<uint16_t>(xattr_count));
  StoreLe(at + erofs::inode::kModeAt, static_cast<uint16_t>(inode.mode));
  StoreLe(at + erofs::inode::kSizeAt, place.size_bytes);
  const std::string data = UnionBytes(inode, place);
  std::copy(data.begin(), data.end(), at + erofs::inode::kUnionAt);
  StoreLe(at + erofs::inode::kNumberAt, static_cast<uint32_t>(place.at / kNidBytes));
  StoreLe(at + erofs::inode::kUidAt, inode.uid);
  StoreLe(at + erofs::inode::kGidAt, inode.gid);
  StoreLe(at + erofs::inode::kMtimeAt, inode.mtime_s);
  StoreLe(at + erofs::inode::kMtimeNsAt, inode.mtime_ns);
  StoreLe(at + erofs::inode::kLinksAt, S_ISDIR(inode.mode) ? 2 + place.subdirectories : inode.links);
  AppendXattrs(inode, &out);
  if (S_ISDIR(inode.mode)) {
    if (place.inline_bytes > 0) out += DirectoryBytes(number, place.plain_blocks, UINT64_MAX);
  } else if (inode.symlink_target != nullptr) {
    if (place.layout == DataLayout::kInline) out += *inode.symlink_target;
  } else if (inode.holes != nullptr) {
    for (const uint32_t block : inode.holes->units) AppendLe(&out, block);
  }
  return out;
}

// The blocks of a directory from one number up to another, each but the last filled up with zeros.
std::string Writer::DirectoryBytes(uint32_t number, uint64_t from_block, uint64_t to_block) const {
  const std::vector<DirectoryEntry> entries = Entries(number);
  std::string out;
  uint64_t block = 0;
  size_t begin = 0;
  while (begin < entries.size()) {
    size_t end = begin;
    uint64_t bytes = 0;
    while (end < entries.size() && bytes + erofs::kDirentBytes + entries[end].name.size() <= kBlock) {
      bytes += erofs::kDirentBytes + entries[end].name.size();
      ++end;
    }
    if (block >= from_block && block < to_block) {
      uint64_t name_at = (end - begin) * erofs::kDirentBytes;
      for (size_t i = begin; i < end; ++i) {
        AppendLe(&out, places_[entries[i].inode].at / kNidBytes);
        AppendLe(&out, static_cast<uint16_t>(name_at));
        AppendLe(&out, static_cast<uint8_t>(FileTypeOf(inodes_[entries[i].inode].mode)));
        AppendLe(&out, uint8_t{0});
        name_at += entries[i].name.size();
      }
      for (size_t i = begin; i < end; ++i) out += entries[i].name;
      if (end < entries.size()) out.append(kBlock - bytes, '\0');
    }
    begin = end;
    ++block;
  }
  return out;
}

Status Writer::EmitInode(uint32_t number) {
  const Inode& inode = inodes_[number];
  if (S_ISDIR(inode.mode)) {
    for (const auto& [name, child] : *inode.children) {
      if (S_ISDIR(inodes_[child].mode)) parents_[child] = number;
    }
  }
  RETURN_IF_ERROR(PadTo(places_[number].at));
  return Emit(InodeBytes(number));
}

Status Writer::EmitPlain(uint32_t number) {
  const Inode& inode = inodes_[number];
  const Place& place = places_[number];
  if (place.plain_blocks == 0) return Status();
  std::string bytes = S_ISDIR(inode.mode) ? DirectoryBytes(number, 0, place.plain_blocks) : *inode.symlink_target;
  bytes.resize(uint64_t{place.plain_blocks} * kBlock, '\0');
  return Emit(bytes);
}

// `offset` counts from the first metadata block.
Status Writer::PadTo(uint64_t offset) {
  CHECK(offset + kBlock >= emitted_);
  return Emit(std::string(offset + kBlock - emitted_, '\0'));
}

Status Writer::Emit(std::string_view bytes) {
  buffer_ += bytes;
  emitted_ += bytes.size();
  constexpr size_t kPieceBytes = 1U << 20;
  if (buffer_.size() < kPieceBytes) return Status();
  const size_t whole = buffer_.size() / kBlock * kBlock;
  RETURN_IF_ERROR(sink_(std::string_view(buffer_).substr(0, whole)));
  buffer_.erase(0, whole);
  return Status();
}

Status Writer::Flush() {
  RETURN_IF_ERROR(buffer_.empty() ? Status() : sink_(buffer_));
  buffer_.clear();
  return Status();
}

}  // namespace

Result<ErofsMetadata> WriteErofsMetadata(const LayerTree& tree, uint32_t data_blocks, const Digest& diff_id,
                                         const std::function<Status(std::string_view)>& sink) {
  return Writer(tree, data_blocks, diff_id, sink).Run();
}

}  // namespace paceline::blocks
