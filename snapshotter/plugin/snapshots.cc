#include "snapshotter/plugin/snapshots.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

namespace paceline::snapshotter {
namespace {

constexpr char kImageLabel[] = "containerd.io/snapshot/cri.image-ref";
constexpr char kManifestLabel[] = "containerd.io/snapshot/cri.manifest-digest";

std::string LabelOf(const SnapshotLabels& labels, const char* key) {
  const auto found = labels.find(key);
  return found == labels.end() ? "" : found->second;
}

// The same for the same layer in the same place: two pulls at once, or one again after a crash, meet here.
std::string RemoteName(const NewSnapshot& wanted, const std::string& target) {
  const std::string parent = wanted.parent.empty() ? "" : " on " + blocks::Sha256Of(wanted.parent).Hex().substr(0, 32);
  return "paceline/" + target + parent;
}

Status MakeFolder(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0) return ErrnoStatus(errno, path);
  // mkdir obeys the umask; these must be what they are in every container runtime.
  if (chmod(path.c_str(), mode) != 0) return ErrnoStatus(errno, path);
  return Status();
}

std::vector<uint64_t> IdsOf(const std::vector<SnapshotPtr>& chain) {
  std::vector<uint64_t> ids;
  for (const SnapshotPtr& snapshot : chain) ids.push_back(snapshot->id);
  return ids;
}

}  // namespace

Result<std::vector<PlannedMount>> Snapshots::Make(const NewSnapshot& wanted) {
  const std::string target = LabelOf(wanted.labels, kTargetLabel);
  if (!target.empty() && wanted.kind == SnapshotKind::kActive) RETURN_IF_ERROR(TryRemote(wanted, target));
  ASSIGN_OR_RETURN(const SnapshotPtr made,
                   table_.Add(wanted, [&](SnapshotRecord& snapshot, const std::vector<SnapshotPtr>& parents) {
                     return MakeFolders(snapshot, parents);
                   }));
  Result<std::vector<PlannedMount>> mounts = MountsOf(*made);
  if (mounts.ok() && target.empty() && wanted.kind == SnapshotKind::kActive) TellUse(*made);
  // containerd would not know that it is there.
  if (!mounts.ok()) table_.Remove(made->name).status().IgnoreError();
  return mounts;
}

Status Snapshots::TryRemote(const NewSnapshot& wanted, const std::string& target) {
  NewSnapshot remote = wanted;
  remote.name = RemoteName(wanted, target);
  remote.kind = SnapshotKind::kCommitted;
  const Status exists = AlreadyExistsError("the layer " + target + " is there");
  if (table_.Find(remote.name).ok()) return exists;
  const std::optional<RemoteLayer> layer =
      layers_.Find({target, LabelOf(wanted.labels, kImageLabel), LabelOf(wanted.labels, kManifestLabel)});
  if (!layer) return Status();
  uint64_t id = 0;
  const Result<SnapshotPtr> made =
      table_.Add(remote, [&](SnapshotRecord& snapshot, const std::vector<SnapshotPtr>& parents) {
        id = snapshot.id;
        RETURN_IF_ERROR(MakeFolders(snapshot, parents));
        return MakeRemote(snapshot, *layer);
      });
  if (made.ok() || made.status().code() == StatusCode::kAlreadyExists) return exists;
  if (id != 0) layers_.Unmount(id, SnapshotFiles(root_, id));
  // A missing parent is the caller's affair, and the ordinary way tells it.
  if (made.status().code() != StatusCode::kNotFound) {
    log_.Warn("layer is not mounted, pulling it instead",
              {{"image", layer->image_name}, {"digest", target}, {"error", made.status()}});
  }
  return Status();
}

Status Snapshots::MakeRemote(SnapshotRecord& snapshot, const RemoteLayer& layer) {
  snapshot.remote = layer;
  return layers_.Mount(snapshot.id, layer, SnapshotFiles(root_, snapshot.id));
}

Status Snapshots::MakeFolders(const SnapshotRecord& snapshot, const std::vector<SnapshotPtr>& parents) {
  RETURN_IF_ERROR(MakeFolder(SnapshotFolder(root_, snapshot.id), 0700));
  const std::string files = SnapshotFiles(root_, snapshot.id);
  RETURN_IF_ERROR(MakeFolder(files, 0755));
  if (snapshot.kind != SnapshotKind::kActive) return Status();
  RETURN_IF_ERROR(MakeFolder(SnapshotWork(root_, snapshot.id), 0711));
  if (parents.empty()) return Status();
  // The root of an overlay is that of its upper folder: its owner must be that of the image's.
  RETURN_IF_ERROR(EnsureMounted(parents));
  struct stat below = {};
  const std::string parent = SnapshotFiles(root_, parents.front()->id);
  if (stat(parent.c_str(), &below) != 0) return ErrnoStatus(errno, parent);
  if (lchown(files.c_str(), below.st_uid, below.st_gid) != 0) return ErrnoStatus(errno, files);
  return Status();
}

void Snapshots::TellUse(const SnapshotRecord& container) {
  std::vector<uint64_t> ids;
  for (const SnapshotPtr& snapshot : table_.ParentsOf(container).value_or({})) {
    if (snapshot->remote) ids.push_back(snapshot->id);
  }
  std::reverse(ids.begin(), ids.end());
  if (!ids.empty()) layers_.Use(ids);
}

Status Snapshots::EnsureMounted(const std::vector<SnapshotPtr>& chain) {
  for (const SnapshotPtr& snapshot : chain) {
    if (!snapshot->remote) continue;
    RETURN_IF_ERROR(layers_.Mount(snapshot->id, *snapshot->remote, SnapshotFiles(root_, snapshot->id))
                        .Annotate("snapshot " + snapshot->name));
  }
  return Status();
}

Result<std::vector<PlannedMount>> Snapshots::MountsOf(const SnapshotRecord& snapshot) {
  ASSIGN_OR_RETURN(const std::vector<SnapshotPtr> parents, table_.ParentsOf(snapshot));
  RETURN_IF_ERROR(EnsureMounted(parents));
  return PlanMounts(root_, snapshot, IdsOf(parents), traits_);
}

Result<std::vector<PlannedMount>> Snapshots::Mounts(const std::string& key) {
  ASSIGN_OR_RETURN(const SnapshotPtr snapshot, table_.Find(key));
  if (snapshot->kind == SnapshotKind::kCommitted) return AbortedError("snapshot " + key + " is committed");
  return MountsOf(*snapshot);
}

Status Snapshots::Commit(const std::string& key, const NewSnapshot& as) {
  const auto finish = [this](SnapshotRecord& snapshot) -> Status {
    ASSIGN_OR_RETURN(const FolderUsage usage, MeasureFolder(SnapshotFiles(root_, snapshot.id)));
    snapshot.size_bytes = usage.bytes;
    snapshot.inodes = usage.inodes;
    return Status();
  };
  return table_.Commit(key, as, finish).status();
}

Status Snapshots::Remove(const std::string& name) {
  ASSIGN_OR_RETURN(const SnapshotPtr removed, table_.Remove(name));
  if (removed->remote) layers_.Unmount(removed->id, SnapshotFiles(root_, removed->id));
  return Status();
}

Result<FolderUsage> Snapshots::Usage(const std::string& name) {
  ASSIGN_OR_RETURN(const SnapshotPtr snapshot, table_.Find(name));
  if (snapshot->remote) return FolderUsage{layers_.KeptBytes(snapshot->id), 0};
  if (snapshot->kind == SnapshotKind::kActive) return MeasureFolder(SnapshotFiles(root_, snapshot->id));
  return FolderUsage{snapshot->size_bytes, snapshot->inodes};
}

Result<std::vector<SnapshotPtr>> Snapshots::List(const std::vector<std::string>& filters) const {
  ASSIGN_OR_RETURN(const SnapshotFilter filter, SnapshotFilter::Parse(filters));
  std::vector<SnapshotPtr> found;
  for (SnapshotPtr& snapshot : table_.All()) {
    if (filter.Matches(*snapshot)) found.push_back(std::move(snapshot));
  }
  return found;
}

Status Snapshots::RemoveFolder(uint64_t id) {
  // A mount that is still there would show its files to the removal; they are read-only, but not ours to try.
  layers_.Unmount(id, SnapshotFiles(root_, id));
  std::error_code error;
  std::filesystem::remove_all(SnapshotFolder(root_, id), error);
  return error ? ErrnoStatus(error.value(), "remove " + SnapshotFolder(root_, id)) : Status();
}

Status Snapshots::CleanUp() {
  RETURN_IF_ERROR(table_.KeepIds());
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, RealFileSystem().List(root_ + "/snapshots"));
  Status failed;
  for (const std::string& folder : folders) {
    uint64_t id = 0;
    const auto [end, error] = std::from_chars(folder.data(), folder.data() + folder.size(), id);
    if (error != std::errc() || end != folder.data() + folder.size() || table_.IsLive(id)) continue;
    const Status removed = RemoveFolder(id);
    if (!removed.ok()) failed = removed;
  }
  return failed;
}

}  // namespace paceline::snapshotter
