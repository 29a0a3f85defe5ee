#include "lib/blocks/image/layer_tree.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "lib/base/check.h"

namespace paceline::blocks {
namespace {

constexpr std::string_view kWhiteoutPrefix = ".wh.";
constexpr std::string_view kWhiteoutMetaPrefix = ".wh..wh.";
constexpr std::string_view kOpaqueMarker = ".wh..wh..opq";
constexpr uint32_t kMaxLinksFollowed = 40;  // as many as Linux follows
constexpr size_t kMaxPathBytes = 16384;
constexpr size_t kMaxSymlinkBytes = 4095;
constexpr size_t kMaxDepth = 2048;
constexpr uint32_t kMaxInodes = 64U << 20;

std::string Shown(std::string_view name) { return std::string(name.substr(0, 300)); }

std::string PathOf(const std::vector<std::string>& parts, const std::string& name) {
  std::string path;
  for (const std::string& part : parts) path += "/" + part;
  return path + "/" + name;
}

uint32_t TypeBits(TarEntry::Type type) {
  switch (type) {
    case TarEntry::Type::kFile:
    case TarEntry::Type::kHardLink: return S_IFREG;
    case TarEntry::Type::kSymlink: return S_IFLNK;
    case TarEntry::Type::kCharDevice: return S_IFCHR;
    case TarEntry::Type::kBlockDevice: return S_IFBLK;
    case TarEntry::Type::kDirectory: return S_IFDIR;
    case TarEntry::Type::kFifo: return S_IFIFO;
  }
  return S_IFREG;
}

bool HasKeptNamespace(std::string_view name) {
  return name.starts_with("user.") || name.starts_with("security.") || name == "system.posix_acl_access" ||
         name == "system.posix_acl_default";
}

}  // namespace

LayerTree::LayerTree(LowerTree* lower) : lower_(lower) {
  Inode& root = inodes_.emplace_back();
  root.mode = S_IFDIR | 0755;
  root.links = 1;
  root.is_implied = true;
  root.children = std::make_unique<std::map<std::string, uint32_t>>();
}

bool LayerTree::IsDirectory(uint32_t inode) const { return S_ISDIR(inodes_[inode].mode); }

// ".." stops at the root, as it does for a process whose root this is.
LayerTree::Parts LayerTree::Split(std::string_view path) {
  Parts parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.emplace_back(part);
    }
  }
  return parts;
}

std::string LayerTree::DirectoryOf(std::string_view name) {
  Parts parts = Split(name);
  if (!parts.empty()) parts.pop_back();
  return fmt::format("{}", fmt::join(parts, "/"));
}

std::optional<uint32_t> LayerTree::Find(uint32_t directory, const std::string& name) const {
  const auto found = inodes_[directory].children->find(name);
  if (found == inodes_[directory].children->end()) return std::nullopt;
  return found->second;
}

XattrMap LayerTree::KeptXattrs(const TarEntry& entry) {
  XattrMap kept;
  for (const auto& [name, value] : entry.xattrs) {
    if (HasKeptNamespace(name)) {
      kept[name] = value;
    } else {
      ++dropped_;
    }
  }
  return kept;
}

void LayerTree::SetAttributes(const TarEntry& entry, uint32_t number) {
  Inode& inode = inodes_[number];
  inode.mode = (inode.mode & S_IFMT) | entry.mode;
  inode.uid = entry.uid;
  inode.gid = entry.gid;
  inode.mtime_s = entry.mtime_s;
  inode.mtime_ns = entry.mtime_ns;
  const bool is_opaque = inode.xattrs != nullptr && inode.xattrs->contains(kOpaqueXattr);
  XattrMap xattrs = KeptXattrs(entry);
  if (is_opaque) xattrs[kOpaqueXattr] = "y";
  inode.xattrs = xattrs.empty() ? nullptr : std::make_unique<XattrMap>(std::move(xattrs));
}

uint32_t LayerTree::NewInode(const TarEntry& entry, uint32_t type) {
  Inode& inode = inodes_.emplace_back();
  inode.mode = type;
  if (S_ISDIR(type)) inode.children = std::make_unique<std::map<std::string, uint32_t>>();
  const auto number = static_cast<uint32_t>(inodes_.size() - 1);
  SetAttributes(entry, number);
  return number;
}

void LayerTree::Unlink(uint32_t number) {
  Inode& inode = inodes_[number];
  CHECK(inode.links > 0);
  if (--inode.links > 0) return;
  last_inode_.reset();
  if (inode.children != nullptr) {
    const std::unique_ptr<std::map<std::string, uint32_t>> children = std::move(inode.children);
    for (const auto& [name, child] : *children) Unlink(child);
  }
}

void LayerTree::SetName(uint32_t parent, const std::string& name, uint32_t number) {
  ++inodes_[number].links;
  const auto [place, is_new] = inodes_[parent].children->try_emplace(name, number);
  if (is_new) return;
  const uint32_t replaced = place->second;
  place->second = number;
  Unlink(replaced);
}

// A link's target takes the place of the link in what is still to be walked.
Status LayerTree::FollowLink(const std::string& target, const Parts& walked, Parts* rest) {
  if (++links_followed_ > kMaxLinksFollowed) return InvalidArgumentError("too many symbolic links");
  std::string path = target;
  if (!target.starts_with('/')) path = PathOf(walked, target);
  Parts parts = Split(path);
  parts.insert(parts.end(), rest->begin(), rest->end());
  *rest = std::move(parts);
  return Status();
}

// Makes directory `name`, of which the archive says nothing, as what lies below the layer says. Where that is a link,
// follows it instead, as unpacking over the lower layers would: then `rest` is the new way, from the root.
Result<uint32_t> LayerTree::MakeImplied(uint32_t directory, const Parts& walked, const std::string& name, Parts* rest) {
  std::optional<LowerTree::Found> below;
  if (lower_ != nullptr) {
    ASSIGN_OR_RETURN(below, lower_->Lookup(PathOf(walked, name)));
  }
  if (below && S_ISLNK(below->attributes.mode)) {
    followed_lower_link_ = true;
    RETURN_IF_ERROR(FollowLink(below->symlink_target, walked, rest));
    return kRoot;
  }
  TarEntry entry;
  entry.mode = 0755;
  if (below && S_ISDIR(below->attributes.mode)) {
    entry.mode = below->attributes.mode & 07777;
    entry.uid = below->attributes.uid;
    entry.gid = below->attributes.gid;
    entry.mtime_s = below->attributes.mtime_s;
    entry.mtime_ns = below->attributes.mtime_ns;
    entry.xattrs = below->attributes.xattrs;
    entry.xattrs.erase(kOpaqueXattr);
  } else if (below && !S_ISCHR(below->attributes.mode)) {
    return InvalidArgumentError(PathOf(walked, name) + " is used as a directory but is a file in a lower layer");
  }
  const uint32_t made = NewInode(entry, S_IFDIR);
  inodes_[made].is_implied = true;
  SetName(directory, name, made);
  return made;
}

// One step from `directory`, which `walked` leads to. When it meets a link, `rest` becomes the new way, from the root,
// and the root is returned.
Result<uint32_t> LayerTree::Descend(uint32_t directory, const Parts& walked, const std::string& name, Parts* rest) {
  const std::optional<uint32_t> child = Find(directory, name);
  if (!child) return MakeImplied(directory, walked, name, rest);
  if (IsDirectory(*child)) return *child;
  const Inode& inode = inodes_[*child];
  if (inode.symlink_target != nullptr) {
    RETURN_IF_ERROR(FollowLink(*inode.symlink_target, walked, rest));
    return kRoot;
  }
  if (!inode.is_whiteout) return InvalidArgumentError(PathOf(walked, name) + " is used as a directory but is none");
  // What lay below was removed and something new is made in its place.
  TarEntry entry;
  entry.mode = 0755;
  const uint32_t made = NewInode(entry, S_IFDIR);
  inodes_[made].is_implied = true;
  inodes_[made].xattrs = std::make_unique<XattrMap>(XattrMap{{kOpaqueXattr, "y"}});
  SetName(directory, name, made);
  return made;
}

Result<uint32_t> LayerTree::ResolveDirectory(Parts rest) {
  std::string key = fmt::format("{}", fmt::join(rest, "/"));
  if (last_inode_ && key == last_directory_) return *last_inode_;
  links_followed_ = 0;
  uint32_t at = kRoot;
  Parts walked;
  while (!rest.empty()) {
    if (walked.size() + rest.size() > kMaxDepth) return InvalidArgumentError("directories are nested too deep");
    const std::string name = rest.front();
    if (name.size() > kMaxNameBytes) return InvalidArgumentError("a name of more than 255 bytes");
    rest.erase(rest.begin());
    const uint32_t links_before = links_followed_;
    ASSIGN_OR_RETURN(at, Descend(at, walked, name, &rest));
    if (links_followed_ == links_before) {
      walked.push_back(name);
    } else {
      walked.clear();
    }
  }
  last_directory_ = std::move(key);
  last_inode_ = at;
  return at;
}

Status LayerTree::AddDirectory(uint32_t parent, const std::string& name, const TarEntry& entry) {
  const std::optional<uint32_t> there = Find(parent, name);
  if (there && IsDirectory(*there)) {
    SetAttributes(entry, *there);
    inodes_[*there].is_implied = false;
    return Status();
  }
  const uint32_t made = NewInode(entry, S_IFDIR);
  if (there && inodes_[*there].is_whiteout) {
    if (inodes_[made].xattrs == nullptr) inodes_[made].xattrs = std::make_unique<XattrMap>();
    (*inodes_[made].xattrs)[kOpaqueXattr] = "y";
  }
  SetName(parent, name, made);
  return Status();
}

// Like ResolveDirectory, but makes nothing: nothing when a part of the way is missing.
Result<std::optional<uint32_t>> LayerTree::FindDirectory(Parts rest) {
  links_followed_ = 0;
  uint32_t at = kRoot;
  Parts walked;
  while (!rest.empty()) {
    const std::string name = rest.front();
    rest.erase(rest.begin());
    const std::optional<uint32_t> child = Find(at, name);
    if (!child) return std::optional<uint32_t>();
    if (IsDirectory(*child)) {
      at = *child;
      walked.push_back(name);
    } else if (inodes_[*child].symlink_target != nullptr) {
      RETURN_IF_ERROR(FollowLink(*inodes_[*child].symlink_target, walked, &rest));
      at = kRoot;
      walked.clear();
    } else {
      return InvalidArgumentError(PathOf(walked, name) + " is used as a directory but is none");
    }
  }
  return std::optional<uint32_t>(at);
}

Status LayerTree::AddHardLink(uint32_t parent, const std::string& name, const TarEntry& entry) {
  Parts parts = Split(entry.link_target);
  if (parts.empty()) return InvalidArgumentError("a hard link to the root");
  const std::string last = parts.back();
  parts.pop_back();
  ASSIGN_OR_RETURN(const std::optional<uint32_t> directory, FindDirectory(std::move(parts)));
  const std::optional<uint32_t> target = directory ? Find(*directory, last) : std::nullopt;
  if (!target || inodes_[*target].is_whiteout) {
    return UnimplementedError("a hard link to " + Shown(entry.link_target) + ", which is not in this layer");
  }
  if (IsDirectory(*target)) return InvalidArgumentError("a hard link to the directory " + Shown(entry.link_target));
  if (Find(parent, name) == target) return Status();  // to itself
  SetName(parent, name, *target);
  return Status();
}

Status LayerTree::AddWhiteout(uint32_t parent, const std::string& name, const TarEntry& entry) {
  if (name.empty() || name == "." || name == "..") return InvalidArgumentError("a whiteout of a directory itself");
  if (const std::optional<uint32_t> there = Find(parent, name)) {
    // A whiteout hides what lies below the layer, never what the layer itself brings.
    Inode& inode = inodes_[*there];
    if (S_ISDIR(inode.mode)) {
      if (inode.xattrs == nullptr) inode.xattrs = std::make_unique<XattrMap>();
      (*inode.xattrs)[kOpaqueXattr] = "y";
    }
    return Status();
  }
  TarEntry bare;
  bare.mtime_s = entry.mtime_s;
  bare.mtime_ns = entry.mtime_ns;
  const uint32_t made = NewInode(bare, S_IFCHR);
  inodes_[made].is_whiteout = true;
  SetName(parent, name, made);
  return Status();
}

Status LayerTree::Add(const TarEntry& entry, FilePlacement placement) {
  if (entry.name.size() > kMaxPathBytes) return InvalidArgumentError("a path of more than 16384 bytes");
  if (inodes_.size() >= kMaxInodes) return ResourceExhaustedError("too many files in one layer");
  Parts parts = Split(entry.name);
  const auto failed = [&](const Status& status) { return status.Annotate(Shown(entry.name)); };
  if (parts.empty()) {
    if (entry.type != TarEntry::Type::kDirectory) return failed(InvalidArgumentError("a file in place of the root"));
    SetAttributes(entry, kRoot);
    inodes_[kRoot].is_implied = false;
    return Status();
  }
  const std::string name = parts.back();
  parts.pop_back();
  if (name.size() > kMaxNameBytes) return failed(InvalidArgumentError("a name of more than 255 bytes"));
  Result<uint32_t> parent = ResolveDirectory(std::move(parts));
  if (!parent.ok()) return failed(parent.status());

  if (name == kOpaqueMarker) {
    if (inodes_[*parent].xattrs == nullptr) inodes_[*parent].xattrs = std::make_unique<XattrMap>();
    (*inodes_[*parent].xattrs)[kOpaqueXattr] = "y";
    return Status();
  }
  if (name.starts_with(kWhiteoutMetaPrefix)) {
    ++dropped_;
    return Status();
  }
  if (name.starts_with(kWhiteoutPrefix)) {
    return failed(AddWhiteout(*parent, name.substr(kWhiteoutPrefix.size()), entry));
  }
  if (entry.type == TarEntry::Type::kDirectory) return failed(AddDirectory(*parent, name, entry));
  if (entry.type == TarEntry::Type::kHardLink) return failed(AddHardLink(*parent, name, entry));
  if (entry.type == TarEntry::Type::kSymlink &&
      (entry.link_target.empty() || entry.link_target.size() > kMaxSymlinkBytes)) {
    return failed(InvalidArgumentError("a symbolic link with an empty target or one of more than 4095 bytes"));
  }

  const uint32_t made = NewInode(entry, TypeBits(entry.type));
  Inode& inode = inodes_[made];
  if (entry.type == TarEntry::Type::kSymlink) inode.symlink_target = std::make_unique<std::string>(entry.link_target);
  inode.device_major = entry.device_major;
  inode.device_minor = entry.device_minor;
  inode.size_bytes = placement.size_bytes;
  inode.first_block = placement.first_block;
  if (!placement.units.empty()) inode.holes = std::make_unique<FilePlacement>(std::move(placement));
  SetName(*parent, name, made);
  return Status();
}

bool LayerTree::needs_lower() const {
  if (followed_lower_link_) return true;
  // The root is always there, and its attributes are those of the topmost layer that describes it: an implied one says
  // nothing.
  return std::any_of(inodes_.begin() + 1, inodes_.end(),
                     [](const Inode& inode) { return inode.is_implied && inode.links > 0; });
}

}  // namespace paceline::blocks
