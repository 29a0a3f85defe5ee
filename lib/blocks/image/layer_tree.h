// The files of one layer as a container runtime would have unpacked them: entries of a tar stream go in one by one,
// with whiteouts in overlayfs form, later entries replacing earlier ones, and names that can lead nowhere outside.
// Holds everything but file contents, of which it knows where they lie in the image.
//
// Filled by the layer converter, read by the EROFS writer. A plain value in memory; one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/image/tar_reader.h"

namespace paceline::blocks {

using XattrMap = std::map<std::string, std::string>;

inline constexpr size_t kMaxNameBytes = 255;
inline constexpr char kOpaqueXattr[] = "trusted.overlay.opaque";

struct InodeAttributes {
  uint32_t mode = 0;  // type and permission bits, as st_mode
  uint32_t uid = 0, gid = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  XattrMap xattrs;
};

// Where the content of a regular file lies in the image.
struct FilePlacement {
  uint64_t size_bytes = 0;
  uint32_t first_block = 0;  // contiguous from there unless `units` says otherwise; 0 for an empty file
  // Of a file with holes: the first block of each unit of 2^unit_bits bytes, kHole for one that is not stored.
  uint32_t unit_bits = 0;
  std::vector<uint32_t> units;
  static constexpr uint32_t kHole = 0xffffffff;
};

struct Inode {
  uint32_t mode = 0;
  uint32_t uid = 0, gid = 0;
  uint32_t links = 0;  // names of it; a directory's are counted by the writer
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  uint32_t device_major = 0, device_minor = 0;
  bool is_implied = false;   // a directory that no entry has described
  bool is_whiteout = false;  // made by ".wh."
  uint64_t size_bytes = 0;   // of a file
  uint32_t first_block = 0;  // of a file
  // What few inodes or one kind of them have.
  std::unique_ptr<XattrMap> xattrs;
  std::unique_ptr<std::string> symlink_target;
  std::unique_ptr<FilePlacement> holes;                       // of a file with holes
  std::unique_ptr<std::map<std::string, uint32_t>> children;  // of a directory: name to inode
};

// What lies below a layer, for directories that the layer uses without describing them: they must keep what they are.
class LowerTree {
 public:
  virtual ~LowerTree() = default;
  struct Found {
    InodeAttributes attributes;
    std::string symlink_target;
  };
  // Of an absolute path without links in it, such as "/usr/lib"; nothing when there is no such file. Blocks for the
  // store.
  virtual Result<std::optional<Found>> Lookup(const std::string& path) = 0;
};

class LayerTree {
 public:
  // `lower` is borrowed, and asked only when needed; null for a layer that is looked at alone.
  explicit LayerTree(LowerTree* lower);

  // Takes an entry; `placement` is of a kFile. kInvalidArgument for what cannot be unpacked (a name that is too long,
  // a file where a directory is needed, a link to nothing); kUnimplemented for a hard link to a file of a lower layer.
  Status Add(const TarEntry& entry, FilePlacement placement);

  // The directory that an entry's name lies in, as a key for grouping: "usr/lib".
  static std::string DirectoryOf(std::string_view name);

  static constexpr uint32_t kRoot = 0;
  // Inodes that lost their last name stay, with links = 0.
  const std::vector<Inode>& inodes() const { return inodes_; }
  // Whether the result depends on what lies below: a directory is implied at the end, or a link below was followed.
  bool needs_lower() const;
  // Attributes and names that were left out: trusted.*, unknown namespaces, other tools' bookkeeping.
  uint64_t dropped() const { return dropped_; }

 private:
  using Parts = std::vector<std::string>;

  static Parts Split(std::string_view path);
  uint32_t NewInode(const TarEntry& entry, uint32_t type);
  XattrMap KeptXattrs(const TarEntry& entry);
  Result<uint32_t> ResolveDirectory(Parts parts);
  Result<std::optional<uint32_t>> FindDirectory(Parts rest);
  Result<uint32_t> Descend(uint32_t directory, const Parts& walked, const std::string& name, Parts* rest);
  Result<uint32_t> MakeImplied(uint32_t directory, const Parts& walked, const std::string& name, Parts* rest);
  Status FollowLink(const std::string& target, const Parts& walked, Parts* rest);
  Status AddDirectory(uint32_t parent, const std::string& name, const TarEntry& entry);
  Status AddHardLink(uint32_t parent, const std::string& name, const TarEntry& entry);
  Status AddWhiteout(uint32_t parent, const std::string& name, const TarEntry& entry);
  void SetAttributes(const TarEntry& entry, uint32_t inode);
  void SetName(uint32_t parent, const std::string& name, uint32_t inode);
  void Unlink(uint32_t inode);
  std::optional<uint32_t> Find(uint32_t directory, const std::string& name) const;
  bool IsDirectory(uint32_t inode) const;

  LowerTree* lower_;
  std::vector<Inode> inodes_;
  uint32_t links_followed_ = 0;  // while one name is resolved
  bool followed_lower_link_ = false;
  uint64_t dropped_ = 0;
  // The directory of the entry before: archives are written directory by directory.
  std::string last_directory_;
  std::optional<uint32_t> last_inode_;
};

}  // namespace paceline::blocks
