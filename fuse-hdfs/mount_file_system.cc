#include "fuse-hdfs/mount_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "fuse-hdfs/mount_handles.h"
#include "lib/base/log.h"
#include "lib/hdfs/open.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr Duration kLogWindow = std::chrono::seconds(10);
constexpr int kLogsPerWindow = 20;
constexpr Duration kCapacityLifetime = std::chrono::seconds(5);

// Failures that are nobody's business but the caller's: it asked for what is not there, or may not have it.
bool IsOrdinary(int error) {
  switch (error) {
    case ENOENT:
    case EEXIST:
    case ENOTEMPTY:
    case EACCES:
    case EPERM:
    case ENODATA:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG: return true;
    default: return false;
  }
}

uint32_t TypeBits(hdfs::FileStatus::Type type) {
  switch (type) {
    case hdfs::FileStatus::Type::kDirectory: return S_IFDIR;
    case hdfs::FileStatus::Type::kSymlink: return S_IFLNK;
    case hdfs::FileStatus::Type::kFile: break;
  }
  return S_IFREG;
}

}  // namespace

MountFileSystem::MountFileSystem(hdfs::FileSystem& fs, const Clock& clock, Logger& log, MountRules rules)
    : fs_(fs),
      clock_(clock),
      log_(log),
      rules_(std::move(rules)),
      owners_(rules_.owners),
      cache_(clock, rules_.attribute_lifetime, rules_.max_cached),
      prefetcher_(fs, clock, rules_.prefetch),
      janitor_(fs, clock, rules_.janitor, [this](const std::string& directory, const Result<size_t>& removed) {
        ReportCleaning(directory, removed);
      }) {}

MountFileSystem::~MountFileSystem() = default;

std::string MountFileSystem::UnderRoot(const std::string& path) const {
  if (rules_.root == "/") return path;
  return path == "/" ? rules_.root : rules_.root + path;
}

Result<std::string> MountFileSystem::PathOf(uint64_t inode) const {
  const std::optional<std::string> path = nodes_.PathOf(inode);
  if (!path.has_value()) return hdfs::PosixError(ESTALE, "the file was removed");
  return UnderRoot(*path);
}

Result<std::string> MountFileSystem::PathOf(uint64_t parent, const std::string& name) const {
  const std::optional<std::string> path = nodes_.PathOf(parent, name);
  if (!path.has_value()) return hdfs::PosixError(ESTALE, "the directory was removed");
  return UnderRoot(*path);
}

int MountFileSystem::Fail(std::string_view request, const std::string& path, const Status& status) {
  const int error = hdfs::ErrnoOf(status);
  if (IsOrdinary(error)) return error;
  const TimePoint now = clock_.Now();
  bool is_logged = false;
  {
    MutexLock lock(mutex_);
    if (now >= log_window_) {
      log_window_ = now + kLogWindow;
      logged_ = 0;
    }
    is_logged = logged_++ < kLogsPerWindow;
  }
  if (is_logged) log_.Warn("request failed", {{"request", request}, {"path", path}, {"error", status}});
  return error;
}

Result<hdfs::FileStatus> MountFileSystem::StatPath(const std::string& path) {
  if (std::optional<StatusCache::Answer> known = cache_.Find(path)) {
    ++stats_.status_hits;
    if (known->exists) return std::move(known->status);
    return hdfs::PosixError(ENOENT, path);
  }
  ++stats_.status_misses;
  const uint64_t generation = cache_.generation();
  Result<hdfs::FileStatus> status = fs_.Stat(path, Within(rules_.metadata_limit));
  if (status.ok()) {
    cache_.Remember(path, {.exists = true, .status = *status}, generation);
  } else if (hdfs::ErrnoOf(status.status()) == ENOENT) {
    cache_.Remember(path, {}, generation);
  }
  return status;
}

std::optional<hdfs::FileStatus> MountFileSystem::OverlayOf(uint64_t inode) {
  const OpenInodePtr open = FindOpen(inode);
  if (open == nullptr) return std::nullopt;
  MutexLock lock(open->mutex);
  if (open->file == nullptr) return std::nullopt;
  const WrittenFile::View view = open->file->view();
  if (!view.is_open) return std::nullopt;
  hdfs::FileStatus status = open->status;
  status.length_bytes = view.size_bytes;
  if (!open->pending.modified.has_value()) status.modified = std::max(status.modified, view.modified);
  return status;
}

Result<hdfs::FileStatus> MountFileSystem::StatInode(uint64_t inode) {
  if (std::optional<hdfs::FileStatus> overlay = OverlayOf(inode)) return *std::move(overlay);
  ASSIGN_OR_RETURN(const std::string path, PathOf(inode));
  return StatPath(path);
}

fusefs::Attributes MountFileSystem::ToAttributes(uint64_t inode, const hdfs::FileStatus& status) {
  return {.inode = inode,
          .mode = TypeBits(status.type) | (status.mode & 07777),
          .links = status.type == hdfs::FileStatus::Type::kDirectory ? 2u : 1u,
          .uid = owners_.UidOf(status.owner),
          .gid = owners_.GidOf(status.group),
          .size_bytes =
              status.type == hdfs::FileStatus::Type::kSymlink ? status.symlink_target.size() : status.length_bytes,
          .preferred_io_bytes = rules_.preferred_io_bytes,
          .modified = status.modified,
          .accessed = std::max(status.accessed, status.modified),
          .changed = status.modified};
}

fusefs::Entry MountFileSystem::ToEntry(uint64_t inode, const hdfs::FileStatus& status) {
  return {.attributes = ToAttributes(inode, status),
          .name_lifetime = rules_.attribute_lifetime,
          .attribute_lifetime = rules_.attribute_lifetime};
}

int MountFileSystem::Describe(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime) {
  Result<hdfs::FileStatus> status = StatInode(inode);
  if (!status.ok()) return Fail("getattr", nodes_.PathOf(inode).value_or(""), status.status());
  *attributes = ToAttributes(inode, *status);
  *lifetime = rules_.attribute_lifetime;
  return 0;
}

int MountFileSystem::GetAttributes(uint64_t inode, fusefs::Attributes* attributes, Duration* lifetime) {
  return Describe(inode, attributes, lifetime);
}

// chown to what is shown already does nothing: tar and cp -p do that as root, and HDFS would refuse it to others.
void MountFileSystem::DropNoChanges(const hdfs::FileStatus& status, fusefs::AttributeChange& change) {
  if (change.uid == owners_.UidOf(status.owner)) change.uid.reset();
  if (change.gid == owners_.GidOf(status.group)) change.gid.reset();
}

Status MountFileSystem::ApplyToPath(const std::string& path, const fusefs::AttributeChange& change) {
  const Deadline deadline = Within(rules_.metadata_limit);
  if (change.mode.has_value()) RETURN_IF_ERROR(fs_.SetMode(path, *change.mode, deadline));
  std::string user, group;
  if (change.uid.has_value()) {
    ASSIGN_OR_RETURN(user, owners_.UserOf(*change.uid));
  }
  if (change.gid.has_value()) {
    ASSIGN_OR_RETURN(group, owners_.GroupOf(*change.gid));
  }
  if (!user.empty() || !group.empty()) RETURN_IF_ERROR(fs_.SetOwner(path, user, group, deadline));
  if (change.modified.has_value() || change.accessed.has_value()) {
    RETURN_IF_ERROR(fs_.SetTimes(path, change.modified, change.accessed, deadline));
  }
  return Status();
}

Status MountFileSystem::ChangeAttributes(uint64_t inode, const fusefs::AttributeChange& wanted) {
  fusefs::AttributeChange change = wanted;
  const WallTime now = clock_.WallNow();
  if (change.modified_is_now) change.modified = now;
  if (change.accessed_is_now) change.accessed = now;
  if (change.size_bytes.has_value()) RETURN_IF_ERROR(Resize(inode, *change.size_bytes));
  if (OverlayOf(inode).has_value()) {
    // The server has no such file yet, or would set the times anew at the end.
    if (change.uid.has_value()) RETURN_IF_ERROR(owners_.UserOf(*change.uid).status());
    if (change.gid.has_value()) RETURN_IF_ERROR(owners_.GroupOf(*change.gid).status());
    const OpenInodePtr open = FindOpen(inode);
    if (open == nullptr) return hdfs::PosixError(ESTALE, "the file was closed meanwhile");
    MutexLock lock(open->mutex);
    if (change.mode.has_value()) open->status.mode = *(open->pending.mode = change.mode);
    if (change.uid.has_value()) open->status.owner = owners_.UserOf(*(open->pending.uid = change.uid)).value_or("");
    if (change.gid.has_value()) open->status.group = owners_.GroupOf(*(open->pending.gid = change.gid)).value_or("");
    if (change.modified.has_value()) open->status.modified = *(open->pending.modified = change.modified);
    if (change.accessed.has_value()) open->status.accessed = *(open->pending.accessed = change.accessed);
    return Status();
  }
  ASSIGN_OR_RETURN(const std::string path, PathOf(inode));
  if (change.uid.has_value() || change.gid.has_value()) {
    ASSIGN_OR_RETURN(const hdfs::FileStatus shown, StatPath(path));
    DropNoChanges(shown, change);
  }
  const Status status = ApplyToPath(path, change);
  cache_.Forget(path);
  return status;
}

int MountFileSystem::SetAttributes(const fusefs::Caller&, uint64_t inode, const fusefs::AttributeChange& change,
                                   fusefs::Attributes* attributes, Duration* lifetime) {
  const Status status = ChangeAttributes(inode, change);
  if (!status.ok()) return Fail("setattr", nodes_.PathOf(inode).value_or(""), status);
  return Describe(inode, attributes, lifetime);
}

int MountFileSystem::ReadLink(uint64_t inode, std::string* target) {
  Result<hdfs::FileStatus> status = StatInode(inode);
  if (!status.ok()) return Fail("readlink", nodes_.PathOf(inode).value_or(""), status.status());
  if (status->type != hdfs::FileStatus::Type::kSymlink) return EINVAL;
  *target = status->symlink_target;
  return 0;
}

int MountFileSystem::GetSpace(fusefs::Space* space) {
  const TimePoint now = clock_.Now();
  std::optional<hdfs::Capacity> capacity;
  {
    MutexLock lock(mutex_);
    if (now < capacity_until_) capacity = capacity_;
  }
  if (!capacity.has_value()) {
    Result<hdfs::Capacity> asked = fs_.StatCapacity(Within(rules_.metadata_limit));
    if (!asked.ok()) return Fail("statfs", rules_.root, asked.status());
    capacity = *asked;
    MutexLock lock(mutex_);
    capacity_ = capacity;
    capacity_until_ = now + kCapacityLifetime;
  }
  const uint64_t copies = std::max<uint32_t>(1, rules_.space_replication);
  space->total_bytes = capacity->total_bytes / copies;
  space->free_bytes = space->available_bytes = capacity->free_bytes / copies;
  // HDFS has no limit worth showing; tools that compute a share must not divide by zero.
  space->total_inodes = uint64_t{1} << 40;
  space->free_inodes = space->total_inodes - 1;
  return 0;
}

namespace {

// Reading this attribute of a file or directory says that it will be read. Not for setting: readers may have no right
// to write, and a mount may be read-only. No listing shows it, so that only who means it asks for it.
constexpr std::string_view kPrefetchXattr = "user.paceline.prefetch";

// HDFS has user and trusted attributes. The kernel asks for security.capability at writes, and programs for ACLs;
// neither is there, and no server needs to be asked.
int ForeignXattr(const std::string& name) {
  if (name.rfind("user.", 0) == 0 || name.rfind("trusted.", 0) == 0) return 0;
  return name.rfind("security.", 0) == 0 ? ENODATA : EOPNOTSUPP;
}

}  // namespace

int MountFileSystem::GetXattr(uint64_t inode, const std::string& name, std::string* value) {
  if (const int error = ForeignXattr(name)) return error;
  if (OverlayOf(inode).has_value()) return ENODATA;  // setting one makes the file visible first
  Result<std::string> path = PathOf(inode);
  if (!path.ok()) return Fail("getxattr", "", path.status());
  if (name == kPrefetchXattr) {
    const Result<Prefetcher::Plan> plan = prefetcher_.Add(*path, Within(rules_.metadata_limit));
    if (!plan.ok()) return Fail("prefetch", *path, plan.status());
    *value = fmt::format("files={} bytes={}", plan->files, plan->bytes);
    return 0;
  }
  Result<hdfs::Xattrs> all = fs_.GetXattrs(*path, Within(rules_.metadata_limit));
  if (!all.ok()) return Fail("getxattr", *path, all.status());
  for (auto& [key, text] : *all) {
    if (key != name) continue;
    *value = std::move(text);
    return 0;
  }
  return ENODATA;
}

Result<Prefetcher::Plan> MountFileSystem::Prefetch(const std::string& path) {
  ASSIGN_OR_RETURN(const hdfs::Location place, hdfs::ParseLocation("file://" + path));
  return prefetcher_.Add(UnderRoot(place.path), Within(rules_.metadata_limit));
}

int MountFileSystem::SetXattr(uint64_t inode, const std::string& name, std::string_view value, int flags) {
  if (ForeignXattr(name) != 0) return EOPNOTSUPP;
  Result<std::string> path = PathOf(inode);
  if (!path.ok()) return Fail("setxattr", "", path.status());
  if (const OpenInodePtr open = FindOpen(inode)) {
    const Status status = Commit(*open, Durability::kVisible, Within(rules_.commit_limit));
    if (!status.ok()) return Fail("setxattr", *path, status);
  }
  const hdfs::XattrMode mode = (flags & 1) != 0   ? hdfs::XattrMode::kCreate  // XATTR_CREATE
                               : (flags & 2) != 0 ? hdfs::XattrMode::kReplace
                                                  : hdfs::XattrMode::kCreateOrReplace;
  const Status status = fs_.SetXattr(*path, name, value, mode, Within(rules_.metadata_limit));
  return status.ok() ? 0 : Fail("setxattr", *path, status);
}

int MountFileSystem::ListXattrs(uint64_t inode, std::vector<std::string>* names) {
  if (OverlayOf(inode).has_value()) return 0;
  Result<std::string> path = PathOf(inode);
  if (!path.ok()) return Fail("listxattr", "", path.status());
  Result<hdfs::Xattrs> all = fs_.GetXattrs(*path, Within(rules_.metadata_limit));
  if (!all.ok()) return Fail("listxattr", *path, all.status());
  for (const auto& [key, value] : *all) {
    if (ForeignXattr(key) == 0) names->push_back(key);
  }
  return 0;
}

int MountFileSystem::RemoveXattr(uint64_t inode, const std::string& name) {
  if (ForeignXattr(name) != 0) return EOPNOTSUPP;
  Result<std::string> path = PathOf(inode);
  if (!path.ok()) return Fail("removexattr", "", path.status());
  const Status status = fs_.RemoveXattr(*path, name, Within(rules_.metadata_limit));
  return status.ok() ? 0 : Fail("removexattr", *path, status);
}

}  // namespace paceline::fuse_hdfs
