#include "lib/blocks/format/erofs_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "lib/blocks/format/erofs_layout.h"
#include "lib/blocks/format/little_endian.h"

namespace paceline::blocks {
namespace {

constexpr uint64_t kBlock = erofs::kBlockBytes;
constexpr uint32_t kHole = 0xffffffff;

Status DamagedMetadata(const std::string& what) { return DataLossError("EROFS metadata: " + what); }

std::string_view PrefixText(uint8_t prefix) {
  switch (static_cast<erofs::XattrPrefix>(prefix)) {
    case erofs::XattrPrefix::kUser: return "user.";
    case erofs::XattrPrefix::kAclAccess: return "system.posix_acl_access";
    case erofs::XattrPrefix::kAclDefault: return "system.posix_acl_default";
    case erofs::XattrPrefix::kTrusted: return "trusted.";
    case erofs::XattrPrefix::kSecurity: return "security.";
    case erofs::XattrPrefix::kNone: return "";
  }
  return "";
}

Status CheckSuperblock(std::string_view block, const LayerIndexHeader& header) {
  const char* at = block.data() + erofs::kSuperblockAt;
  if (LoadLe<uint32_t>(at + erofs::super::kMagicAt) != erofs::kMagic) return DamagedMetadata("no superblock");
  std::string copy(block.substr(erofs::kSuperblockAt, kBlock - erofs::kSuperblockAt));
  StoreLe(copy.data() + erofs::super::kChecksumAt, uint32_t{0});
  if (LoadLe<uint32_t>(at + erofs::super::kCompatAt) != erofs::kCompatChecksum ||
      LoadLe<uint32_t>(at + erofs::super::kChecksumAt) != ~Crc32c(copy)) {
    return DamagedMetadata("wrong checksum of the superblock");
  }
  const uint32_t features = LoadLe<uint32_t>(at + erofs::super::kIncompatAt);
  if ((features & ~erofs::kIncompatChunkedFile) != 0 || LoadLe<uint16_t>(at + erofs::super::kExtraDevicesAt) != 0) {
    return UnimplementedError(fmt::format("EROFS metadata: features {:#x} do not belong in a block image", features));
  }
  if (LoadLe<uint8_t>(at + erofs::super::kBlockBitsAt) != erofs::kBlockBits ||
      LoadLe<uint32_t>(at + erofs::super::kMetaBlockAt) != header.first_meta_block() ||
      LoadLe<uint32_t>(at + erofs::super::kBlocksAt) != header.image_bytes() / kBlock) {
    return DamagedMetadata("the superblock does not fit the index");
  }
  return Status();
}

}  // namespace

bool ErofsInode::is_whiteout() const { return S_ISCHR(mode) && device == 0; }

Result<ErofsReader> ErofsReader::Open(std::string metadata, const LayerIndexHeader& header) {
  if (metadata.size() != header.metadata_bytes()) return DamagedMetadata("wrong length");
  RETURN_IF_ERROR(CheckSuperblock(std::string_view(metadata).substr(0, kBlock), header));
  ErofsReader reader;
  reader.root_ = LoadLe<uint16_t>(metadata.data() + erofs::kSuperblockAt + erofs::super::kRootNidAt);
  reader.metadata_ = std::move(metadata);
  reader.data_blocks_ = header.data_blocks;
  ASSIGN_OR_RETURN(const ErofsInode root, reader.Inode(reader.root_));
  if (!S_ISDIR(root.mode)) return DamagedMetadata("the root is no directory");
  return reader;
}

// `meta_offset` counts from the first metadata block, behind block 0.
Result<std::string_view> ErofsReader::At(uint64_t meta_offset, uint64_t size) const {
  const uint64_t end = metadata_.size() - kBlock;
  if (meta_offset > end || size > end - meta_offset) return DamagedMetadata("an offset beyond the end");
  return std::string_view(metadata_).substr(kBlock + meta_offset, size);
}

Result<std::string_view> ErofsReader::Block(uint32_t image_block, uint64_t size) const {
  if (image_block <= data_blocks_) return DamagedMetadata("a directory among file contents");
  return At((uint64_t{image_block} - 1 - data_blocks_) * kBlock, size);
}

uint64_t ErofsReader::BodyAt(const ErofsInode& inode) const {
  return (inode.nid << erofs::kNidBits) + erofs::kInodeBytes + inode.xattr_bytes;
}

Result<ErofsInode> ErofsReader::Inode(uint64_t nid) const {
  if (nid > metadata_.size() >> erofs::kNidBits) return DamagedMetadata("an inode beyond the end");
  ASSIGN_OR_RETURN(const std::string_view bytes, At(nid << erofs::kNidBits, erofs::kInodeBytes));
  const char* at = bytes.data();
  const uint16_t format = LoadLe<uint16_t>(at + erofs::inode::kFormatAt);
  if ((format & 1) != erofs::kExtendedInode) return DamagedMetadata("an inode of the compact form");
  ErofsInode inode;
  inode.nid = nid;
  inode.layout = static_cast<uint16_t>(format >> 1 & 7);
  const uint16_t xattr_count = LoadLe<uint16_t>(at + erofs::inode::kXattrCountAt);
  if (xattr_count > 0) inode.xattr_bytes = erofs::kXattrHeaderBytes + (uint32_t{xattr_count} - 1) * 4;
  inode.mode = LoadLe<uint16_t>(at + erofs::inode::kModeAt);
  inode.size_bytes = LoadLe<uint64_t>(at + erofs::inode::kSizeAt);
  inode.union_value = LoadLe<uint32_t>(at + erofs::inode::kUnionAt);
  inode.uid = LoadLe<uint32_t>(at + erofs::inode::kUidAt);
  inode.gid = LoadLe<uint32_t>(at + erofs::inode::kGidAt);
  inode.mtime_s = LoadLe<int64_t>(at + erofs::inode::kMtimeAt);
  inode.mtime_ns = LoadLe<uint32_t>(at + erofs::inode::kMtimeNsAt);
  inode.links = LoadLe<uint32_t>(at + erofs::inode::kLinksAt);
  if (S_ISCHR(inode.mode) || S_ISBLK(inode.mode)) inode.device = inode.union_value;
  return inode;
}

Result<std::vector<std::string_view>> ErofsReader::Pieces(const ErofsInode& inode) const {
  const bool is_inline = inode.layout == static_cast<uint16_t>(erofs::DataLayout::kInline);
  if (!is_inline && inode.layout != static_cast<uint16_t>(erofs::DataLayout::kPlain)) {
    return DamagedMetadata("a directory of an unknown layout");
  }
  if (inode.size_bytes > metadata_.size()) return DamagedMetadata("a directory larger than all metadata");
  std::vector<std::string_view> pieces;
  uint64_t left = inode.size_bytes;
  for (uint32_t block = inode.union_value; left > 0; ++block) {
    const uint64_t size = std::min(left, kBlock);
    // The tail of an inline one lies behind the inode.
    const bool is_tail = is_inline && left < kBlock;
    Result<std::string_view> piece = is_tail ? At(BodyAt(inode), size) : Block(block, size);
    if (!piece.ok()) return piece.status();
    pieces.push_back(*piece);
    left -= size;
  }
  return pieces;
}

Status ErofsReader::ReadEntries(std::string_view block, std::vector<ErofsEntry>* entries) {
  if (block.size() < erofs::kDirentBytes) return DamagedMetadata("a directory block without entries");
  const uint16_t first_name = LoadLe<uint16_t>(block.data() + 8);
  if (first_name < erofs::kDirentBytes || first_name % erofs::kDirentBytes != 0 || first_name > block.size()) {
    return DamagedMetadata("a directory block with wrong offsets");
  }
  const size_t count = first_name / erofs::kDirentBytes;
  for (size_t i = 0; i < count; ++i) {
    const char* at = block.data() + i * erofs::kDirentBytes;
    const size_t begin = LoadLe<uint16_t>(at + 8);
    const bool is_last = i + 1 == count;
    size_t end = is_last ? block.size() : LoadLe<uint16_t>(at + erofs::kDirentBytes + 8);
    if (begin >= end || end > block.size()) return DamagedMetadata("a directory block with wrong offsets");
    std::string_view name = block.substr(begin, end - begin);
    if (is_last) name = name.substr(0, name.find('\0'));
    if (name.empty() || name.size() > 255 || name.find('/') != std::string_view::npos ||
        name.find('\0') != std::string_view::npos) {
      return DamagedMetadata("a directory entry with a wrong name");
    }
    if (name != "." && name != "..") entries->push_back({std::string(name), LoadLe<uint64_t>(at)});
  }
  return Status();
}

Result<std::vector<ErofsEntry>> ErofsReader::List(const ErofsInode& directory) const {
  if (!S_ISDIR(directory.mode)) return DamagedMetadata("a directory that is none");
  ASSIGN_OR_RETURN(const std::vector<std::string_view> pieces, Pieces(directory));
  std::vector<ErofsEntry> entries;
  for (const std::string_view piece : pieces) RETURN_IF_ERROR(ReadEntries(piece, &entries));
  const auto is_out_of_order = [](const ErofsEntry& a, const ErofsEntry& b) { return a.name >= b.name; };
  if (std::adjacent_find(entries.begin(), entries.end(), is_out_of_order) != entries.end()) {
    return DamagedMetadata("a directory out of order");
  }
  return entries;
}

Result<std::optional<uint64_t>> ErofsReader::Find(const ErofsInode& directory, std::string_view name) const {
  ASSIGN_OR_RETURN(const std::vector<ErofsEntry> entries, List(directory));
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const ErofsEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  if (found == entries.end() || found->name != name) return std::optional<uint64_t>();
  return std::optional<uint64_t>(found->nid);
}

Result<std::string> ErofsReader::SymlinkTarget(const ErofsInode& link) const {
  if (!S_ISLNK(link.mode) || link.size_bytes == 0 || link.size_bytes > kBlock)
    return DamagedMetadata("a damaged symbolic link");
  ASSIGN_OR_RETURN(const std::vector<std::string_view> pieces, Pieces(link));
  return std::string(pieces[0]);
}

Result<std::map<std::string, std::string>> ErofsReader::Xattrs(const ErofsInode& inode) const {
  std::map<std::string, std::string> xattrs;
  if (inode.xattr_bytes == 0) return xattrs;
  ASSIGN_OR_RETURN(std::string_view body, At((inode.nid << erofs::kNidBits) + erofs::kInodeBytes, inode.xattr_bytes));
  if (body[4] != 0) return DamagedMetadata("shared extended attributes");
  body.remove_prefix(erofs::kXattrHeaderBytes);
  while (!body.empty()) {
    if (body.size() < erofs::kXattrEntryBytes) return DamagedMetadata("extended attributes are cut short");
    const auto name_bytes = static_cast<uint8_t>(body[0]);
    const uint16_t value_bytes = LoadLe<uint16_t>(body.data() + 2);
    const size_t used = erofs::kXattrEntryBytes + size_t{name_bytes} + value_bytes;
    if (used > body.size()) return DamagedMetadata("extended attributes are cut short");
    std::string name(PrefixText(static_cast<uint8_t>(body[1])));
    name += body.substr(erofs::kXattrEntryBytes, name_bytes);
    xattrs[name] = body.substr(erofs::kXattrEntryBytes + name_bytes, value_bytes);
    body.remove_prefix(std::min((used + 3) / 4 * 4, body.size()));
  }
  return xattrs;
}

Result<std::vector<ErofsExtent>> ErofsReader::Extents(const ErofsInode& file) const {
  std::vector<ErofsExtent> extents;
  if (!S_ISREG(file.mode) || file.size_bytes == 0) return extents;
  const auto add = [&](uint64_t offset, uint32_t block, uint64_t size) -> Status {
    const uint64_t blocks = (size + kBlock - 1) / kBlock;
    if (block < 1 || block + blocks - 1 > data_blocks_) return DamagedMetadata("a file outside of the data");
    if (!extents.empty() && extents.back().first_block + extents.back().blocks == block &&
        extents.back().file_offset_bytes + uint64_t{extents.back().blocks} * kBlock == offset) {
      extents.back().blocks += static_cast<uint32_t>(blocks);
    } else {
      extents.push_back({offset, block, static_cast<uint32_t>(blocks)});
    }
    return Status();
  };
  if (file.layout == static_cast<uint16_t>(erofs::DataLayout::kPlain)) {
    if (file.size_bytes > uint64_t{data_blocks_} * kBlock) return DamagedMetadata("a file larger than the data");
    RETURN_IF_ERROR(add(0, file.union_value, file.size_bytes));
    return extents;
  }
  if (file.layout != static_cast<uint16_t>(erofs::DataLayout::kChunked) || file.union_value > 31) {
    return DamagedMetadata("a file of an unknown layout");
  }
  const uint64_t unit = uint64_t{1} << (file.union_value + erofs::kBlockBits);
  uint64_t map_at = BodyAt(file);
  for (uint64_t offset = 0; offset < file.size_bytes; offset += unit, map_at += sizeof(uint32_t)) {
    ASSIGN_OR_RETURN(const std::string_view entry, At(map_at, sizeof(uint32_t)));
    const uint32_t block = LoadLe<uint32_t>(entry.data());
    if (block != kHole) RETURN_IF_ERROR(add(offset, block, std::min(unit, file.size_bytes - offset)));
    if (offset + unit < offset) break;
  }
  return extents;
}

}  // namespace paceline::blocks
