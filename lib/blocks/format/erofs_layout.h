// The on-disk structures of EROFS, as far as block images use them: docs/formats/block-image.md, section 2, says which
// part that is; the kernel's fs/erofs/erofs_fs.h is the origin. Offsets into little-endian structures, for the writer
// and the reader of metadata. Constants only.
#pragma once

#include <cstdint>

namespace paceline::blocks::erofs {

inline constexpr uint32_t kBlockBits = 12;
inline constexpr uint32_t kBlockBytes = 1U << kBlockBits;

inline constexpr uint32_t kSuperblockAt = 1024;
inline constexpr uint32_t kSuperblockBytes = 128;
inline constexpr uint32_t kMagic = 0xE0F5E1E2;
inline constexpr uint32_t kCompatChecksum = 1;
inline constexpr uint32_t kIncompatChunkedFile = 4;
// Offsets in the superblock.
namespace super {
inline constexpr uint32_t kMagicAt = 0, kChecksumAt = 4, kCompatAt = 8, kBlockBitsAt = 12, kExtraSlotsAt = 13,
                          kRootNidAt = 14, kInodesAt = 16, kBuildTimeAt = 24, kBuildTimeNsAt = 32, kBlocksAt = 36,
                          kMetaBlockAt = 40, kXattrBlockAt = 44, kUuidAt = 48, kVolumeNameAt = 64, kIncompatAt = 80,
                          kExtraDevicesAt = 86;
}  // namespace super

// An inode's number is its offset in the metadata area in units of 32 bytes.
inline constexpr uint32_t kNidBits = 5;
inline constexpr uint32_t kInodeBytes = 64;  // the extended form
inline constexpr uint16_t kExtendedInode = 1;
enum class DataLayout : uint16_t { kPlain = 0, kInline = 2, kChunked = 4 };
namespace inode {
inline constexpr uint32_t kFormatAt = 0, kXattrCountAt = 2, kModeAt = 4, kSizeAt = 8, kUnionAt = 16, kNumberAt = 20,
                          kUidAt = 24, kGidAt = 28, kMtimeAt = 32, kMtimeNsAt = 40, kLinksAt = 44;
}  // namespace inode

// The xattr body: a header of 12 bytes, then entries of 4 bytes, name, value, each padded to 4.
inline constexpr uint32_t kXattrHeaderBytes = 12, kXattrEntryBytes = 4;
enum class XattrPrefix : uint8_t { kNone = 0, kUser = 1, kAclAccess = 2, kAclDefault = 3, kTrusted = 4, kSecurity = 6 };

inline constexpr uint32_t kDirentBytes = 12;
enum class FileType : uint8_t {
  kUnknown = 0,
  kRegular = 1,
  kDirectory = 2,
  kCharDevice = 3,
  kBlockDevice = 4,
  kFifo = 5,
  kSocket = 6,
  kSymlink = 7
};

// As the kernel packs a device number into 32 bits.
inline constexpr uint32_t EncodeDevice(uint32_t major, uint32_t minor) {
  return (minor & 0xff) | (major << 8) | ((minor & ~0xffU) << 12);
}
inline constexpr uint32_t kMaxMajor = 0xfff, kMaxMinor = 0xfffff;

}  // namespace paceline::blocks::erofs
