#include "snapshotter/layer_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace paceline::snapshotter {
namespace {

constexpr uint64_t kFirstLayerInode = 2;
// Nothing here ever changes.
constexpr std::chrono::hours kLifetime{24};
constexpr uint32_t kPreferredBytes = 1 << 20;

}  // namespace

bool LayerFiles::IsLayer(uint64_t inode) const {
  return inode >= kFirstLayerInode && inode - kFirstLayerInode < image_.layer_count();
}

fusefs::Attributes LayerFiles::AttributesOf(uint64_t inode) const {
  fusefs::Attributes attributes;
  attributes.inode = inode;
  attributes.preferred_io_bytes = kPreferredBytes;
  if (inode == fusefs::kRootInode) {
    attributes.mode = S_IFDIR | 0500;
    attributes.links = 2;
    return attributes;
  }
  attributes.mode = S_IFREG | 0400;
  attributes.size_bytes = image_.index(inode - kFirstLayerInode).header().image_bytes();
  return attributes;
}

fusefs::Entry LayerFiles::EntryOf(uint64_t inode) const { return {AttributesOf(inode), kLifetime, kLifetime}; }

int LayerFiles::Lookup(const fusefs::Caller&, uint64_t parent, const std::string& name, fusefs::Entry* entry) {
  if (parent != fusefs::kRootInode) return ENOTDIR;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  if (!is_number || number >= image_.layer_count() || std::to_string(number) != name) return ENOENT;
  *entry = EntryOf(number + kFirstLayerInode);
  return 0;
}

int LayerFiles::GetAttributes(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime) {
  if (inode != fusefs::kRootInode && !IsLayer(inode)) return ENOENT;
  *attributes = AttributesOf(inode);
  *lifetime = kLifetime;
  return 0;
}

int LayerFiles::Open(const fusefs::Caller&, uint64_t inode, int flags, fusefs::Opened* opened) {
  if (!IsLayer(inode)) return EISDIR;
  if ((flags & O_ACCMODE) != O_RDONLY) return EROFS;
  // EROFS keeps the pages; a second copy of them below would only cost memory.
  opened->uses_page_cache = false;
  return 0;
}

int LayerFiles::Read(uint64_t inode, uint64_t, uint64_t offset, std::span<std::byte> out, size_t* got) {
  if (!IsLayer(inode)) return EISDIR;
  const size_t layer = inode - kFirstLayerInode;
  const uint64_t size = image_.index(layer).header().image_bytes();
  *got = 0;
  if (offset >= size) return 0;
  const std::span<std::byte> wanted = out.first(std::min<uint64_t>(out.size(), size - offset));
  // The reason is in the counters; whoever reads the file gets to know no more than that it failed.
  if (!image_.Read(layer, offset, {reinterpret_cast<char*>(wanted.data()), wanted.size()}).ok()) return EIO;
  *got = wanted.size();
  return 0;
}

int LayerFiles::OpenDirectory(uint64_t inode, uint64_t* handle) {
  *handle = 0;
  return inode == fusefs::kRootInode ? 0 : ENOTDIR;
}

int LayerFiles::ReadDirectory(uint64_t, uint64_t, uint64_t offset, fusefs::DirectorySink* sink) {
  for (uint64_t number = offset; number < image_.layer_count(); ++number) {
    if (!sink->Add(std::to_string(number), EntryOf(number + kFirstLayerInode), number + 1)) break;
  }
  return 0;
}

int LayerFiles::GetSpace(fusefs::Space* space) {
  for (size_t layer = 0; layer < image_.layer_count(); ++layer) {
    space->total_bytes += image_.index(layer).header().image_bytes();
  }
  return 0;
}

int LayerFiles::SetAttributes(const fusefs::Caller&, uint64_t, const fusefs::AttributeChange&, fusefs::Attributes*,
                              Duration*) {
  return EROFS;
}
int LayerFiles::ReadLink(uint64_t, std::string*) { return EINVAL; }
int LayerFiles::MakeDirectory(const fusefs::Caller&, uint64_t, const std::string&, uint32_t, fusefs::Entry*) {
  return EROFS;
}
int LayerFiles::Create(const fusefs::Caller&, uint64_t, const std::string&, uint32_t, int, fusefs::Entry*,
                       fusefs::Opened*) {
  return EROFS;
}
int LayerFiles::RemoveFile(uint64_t, const std::string&) { return EROFS; }
int LayerFiles::RemoveDirectory(uint64_t, const std::string&) { return EROFS; }
int LayerFiles::Rename(uint64_t, const std::string&, uint64_t, const std::string&, unsigned) { return EROFS; }
int LayerFiles::Write(const fusefs::Caller&, uint64_t, uint64_t, uint64_t, std::span<const std::byte>) { return EROFS; }
int LayerFiles::GetXattr(uint64_t, const std::string&, std::string*) { return ENODATA; }
int LayerFiles::SetXattr(uint64_t, const std::string&, std::string_view, int) { return EROFS; }
int LayerFiles::RemoveXattr(uint64_t, const std::string&) { return EROFS; }

}  // namespace paceline::snapshotter
