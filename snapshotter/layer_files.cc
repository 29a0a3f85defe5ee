#include "snapshotter/layer_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <numeric>

namespace paceline::snapshotter {
namespace {

// Nothing here ever changes.
constexpr std::chrono::hours kLifetime{24};
constexpr uint32_t kPreferredBytes = 1 << 20;

fusefs::Attributes DirectoryAttributes() {
  fusefs::Attributes attributes;
  attributes.inode = fusefs::kRootInode;
  attributes.preferred_io_bytes = kPreferredBytes;
  attributes.mode = S_IFDIR | 0500;
  attributes.links = 2;
  return attributes;
}

fusefs::Attributes FileAttributes(uint64_t number, uint64_t size) {
  fusefs::Attributes attributes;
  attributes.inode = number + kFirstLayerInode;
  attributes.preferred_io_bytes = kPreferredBytes;
  attributes.mode = S_IFREG | 0400;
  attributes.size_bytes = size;
  return attributes;
}

fusefs::Entry FileEntry(uint64_t number, uint64_t size) { return {FileAttributes(number, size), kLifetime, kLifetime}; }

}  // namespace

std::optional<uint64_t> ImageLayers::SizeOf(uint64_t number) {
  if (number >= image_.layer_count()) return std::nullopt;
  return image_.index(number).header().image_bytes();
}

Status ImageLayers::Read(uint64_t number, uint64_t offset_bytes, std::span<char> out) {
  if (around_ != nullptr) around_->Note(number, offset_bytes, out.size());
  return image_.Read(number, offset_bytes, out);
}

std::vector<uint64_t> ImageLayers::Numbers() {
  std::vector<uint64_t> numbers(image_.layer_count());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::optional<uint64_t> LayerFiles::SizeOf(uint64_t inode) {
  if (inode < kFirstLayerInode) return std::nullopt;
  return layers_.SizeOf(inode - kFirstLayerInode);
}

int LayerFiles::Lookup(const fusefs::Caller&, uint64_t parent, const std::string& name, fusefs::Entry* entry) {
  if (parent != fusefs::kRootInode) return ENOTDIR;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  if (!is_number || std::to_string(number) != name) return ENOENT;
  const std::optional<uint64_t> size = layers_.SizeOf(number);
  if (!size) return ENOENT;
  *entry = FileEntry(number, *size);
  return 0;
}

int LayerFiles::GetAttributes(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime) {
  *lifetime = kLifetime;
  if (inode == fusefs::kRootInode) {
    *attributes = DirectoryAttributes();
    return 0;
  }
  const std::optional<uint64_t> size = SizeOf(inode);
  if (!size) return ENOENT;
  *attributes = FileAttributes(inode - kFirstLayerInode, *size);
  return 0;
}

int LayerFiles::Open(const fusefs::Caller&, uint64_t inode, int flags, fusefs::Opened* opened) {
  if (inode == fusefs::kRootInode) return EISDIR;
  if (!SizeOf(inode)) return ENOENT;
  if ((flags & O_ACCMODE) != O_RDONLY) return EROFS;
  // EROFS keeps the pages; a second copy of them below would only cost memory.
  opened->uses_page_cache = false;
  // But for metadata, which EROFS reads through the page cache of this file (metadata_pages.h).
  opened->keeps_cached_pages = true;
  return 0;
}

int LayerFiles::Read(uint64_t inode, uint64_t, uint64_t offset, std::span<std::byte> out, size_t* got) {
  const std::optional<uint64_t> size = SizeOf(inode);
  if (!size) return EIO;
  *got = 0;
  if (offset >= *size) return 0;
  const std::span<std::byte> wanted = out.first(std::min<uint64_t>(out.size(), *size - offset));
  // The reason is in the counters; whoever reads the file gets to know no more than that it failed.
  if (!layers_.Read(inode - kFirstLayerInode, offset, {reinterpret_cast<char*>(wanted.data()), wanted.size()}).ok())
    return EIO;
  *got = wanted.size();
  return 0;
}

int LayerFiles::OpenDirectory(uint64_t inode, uint64_t* handle) {
  *handle = 0;
  return inode == fusefs::kRootInode ? 0 : ENOTDIR;
}

int LayerFiles::ReadDirectory(uint64_t, uint64_t, uint64_t offset, fusefs::DirectorySink* sink) {
  for (const uint64_t number : layers_.Numbers()) {
    const std::optional<uint64_t> size = layers_.SizeOf(number);
    if (number < offset || !size) continue;
    if (!sink->Add(std::to_string(number), FileEntry(number, *size), number + 1)) break;
  }
  return 0;
}

int LayerFiles::GetSpace(fusefs::Space* space) {
  for (const uint64_t number : layers_.Numbers()) space->total_bytes += layers_.SizeOf(number).value_or(0);
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
