// Reads the metadata of a layer's EROFS image: names, attributes, links, where contents lie. For what the kernel does
// not do for us: verification, looking below a layer while the one above is converted, mapping paths to chunks.
//
// Works on the decompressed metadata of a LayerIndex, whose digest says who made it, not that it makes sense: every
// offset is checked. Immutable after Open: any thread may read. Does not block.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/format/layer_index.h"

namespace paceline::blocks {

struct ErofsInode {
  uint64_t nid = 0;
  uint32_t mode = 0;  // type and permission bits, as st_mode
  uint32_t uid = 0, gid = 0, links = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  uint64_t size_bytes = 0;
  uint32_t device = 0;  // as the kernel packs it; 0 of a whiteout
  // Of what lies outside of the inode.
  uint16_t layout = 0;
  uint32_t union_value = 0;
  uint32_t xattr_bytes = 0;

  bool is_whiteout() const;
};

struct ErofsEntry {
  std::string name;
  uint64_t nid = 0;
};

// A stretch of blocks of the image with the contents of a file.
struct ErofsExtent {
  uint64_t file_offset_bytes = 0;
  uint32_t first_block = 0;
  uint32_t blocks = 0;
};

class ErofsReader {
 public:
  // `metadata` is that of LayerIndex::Metadata. Section 6, step 4: kDataLoss when the superblock does not fit `header`,
  // kUnimplemented for features that no block image has.
  static Result<ErofsReader> Open(std::string metadata, const LayerIndexHeader& header);

  uint64_t root() const { return root_; }
  // All below: kDataLoss for metadata that makes no sense.
  Result<ErofsInode> Inode(uint64_t nid) const;
  // Without "." and "..", sorted.
  Result<std::vector<ErofsEntry>> List(const ErofsInode& directory) const;
  // Nothing when there is no such name.
  Result<std::optional<uint64_t>> Find(const ErofsInode& directory, std::string_view name) const;
  Result<std::string> SymlinkTarget(const ErofsInode& link) const;
  // By full name: "security.capability".
  Result<std::map<std::string, std::string>> Xattrs(const ErofsInode& inode) const;
  // Of a regular file, holes left out; neighbours are joined.
  Result<std::vector<ErofsExtent>> Extents(const ErofsInode& file) const;

 private:
  ErofsReader() = default;
  Result<std::string_view> At(uint64_t meta_offset, uint64_t size) const;
  Result<std::string_view> Block(uint32_t image_block, uint64_t size) const;
  uint64_t BodyAt(const ErofsInode& inode) const;
  // The pieces of a directory or a link, block by block.
  Result<std::vector<std::string_view>> Pieces(const ErofsInode& inode) const;
  static Status ReadEntries(std::string_view block, std::vector<ErofsEntry>* entries);

  std::string metadata_;
  uint32_t data_blocks_ = 0;
  uint64_t root_ = 0;
};

}  // namespace paceline::blocks
