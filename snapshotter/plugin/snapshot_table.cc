#include "snapshotter/plugin/snapshot_table.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace paceline::snapshotter {
namespace {

constexpr size_t kMaxRecordBytes = 4 << 20;
constexpr size_t kMaxIdBytes = 32;
constexpr std::string_view kRecordSuffix = ".json";

std::optional<uint64_t> IdOf(std::string_view text) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id == 0) return std::nullopt;
  return id;
}

void DropEmpty(SnapshotLabels& labels) {
  std::erase_if(labels, [](const auto& label) { return label.second.empty(); });
}

}  // namespace

Result<std::unique_ptr<SnapshotTable>> SnapshotTable::Open(std::string root, FileSystem& files, const Clock& clock) {
  std::unique_ptr<SnapshotTable> table(new SnapshotTable(std::move(root), files, clock));
  RETURN_IF_ERROR(table->Load());
  return table;
}

std::string SnapshotTable::RecordPath(uint64_t id) const {
  return root_ + "/records/" + std::to_string(id) + std::string(kRecordSuffix);
}

Status SnapshotTable::Load() {
  for (const char* folder : {"/records", "/snapshots"}) RETURN_IF_ERROR(files_.MakeDirectories(root_ + folder, 0700));
  ASSIGN_OR_RETURN(const std::vector<std::string> records, files_.List(root_ + "/records"));
  for (const std::string& file : records) {
    if (file.ends_with(kRecordSuffix)) RETURN_IF_ERROR(LoadRecord(file));
  }
  // A folder that outlived its record must not become that of another snapshot.
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, files_.List(root_ + "/snapshots"));
  const Result<std::string> kept = files_.ReadFile(root_ + "/next-id", kMaxIdBytes);
  if (!kept.ok() && kept.status().code() != StatusCode::kNotFound) return kept.status();
  {
    MutexLock lock(mutex_);
    for (const std::string& folder : folders) {
      if (const std::optional<uint64_t> id = IdOf(folder)) next_id_ = std::max(next_id_, *id + 1);
    }
    if (kept.ok()) next_id_ = std::max(next_id_, IdOf(*kept).value_or(1));
  }
  return KeepIds();
}

Status SnapshotTable::KeepIds() {
  uint64_t next;
  {
    MutexLock lock(mutex_);
    if (kept_id_ == next_id_) return Status();
    next = next_id_;
  }
  RETURN_IF_ERROR(files_.WriteFileAtomically(root_ + "/next-id", std::to_string(next), 0600));
  MutexLock lock(mutex_);
  kept_id_ = std::max(kept_id_, next);
  return Status();
}

Status SnapshotTable::LoadRecord(const std::string& file) {
  const std::string path = root_ + "/records/" + file;
  ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(path, kMaxRecordBytes));
  Result<SnapshotRecord> snapshot = ParseSnapshot(text);
  const bool is_good = snapshot.ok() && std::to_string(snapshot->id) + std::string(kRecordSuffix) == file;
  MutexLock lock(mutex_);
  if (const auto id = IdOf(file.substr(0, file.size() - kRecordSuffix.size()))) next_id_ = std::max(next_id_, *id + 1);
  if (!is_good || snapshots_.contains(snapshot->name)) {
    ++damaged_records_;
    return files_.Rename(path, path + ".damaged");
  }
  const auto shared = std::make_shared<const SnapshotRecord>(*std::move(snapshot));
  Put(shared);
  AddChild(shared->parent, 1);
  return Status();
}

Status SnapshotTable::Write(const SnapshotRecord& snapshot) {
  return files_.WriteFileAtomically(RecordPath(snapshot.id), EncodeSnapshot(snapshot), 0600);
}

void SnapshotTable::Claim(MutexLock& lock, const std::set<std::string>& claims, const std::string& quiet) {
  const auto is_claimed = [this](const std::string& name) REQUIRES(mutex_) { return claimed_.contains(name); };
  while (is_claimed(quiet) || std::any_of(claims.begin(), claims.end(), is_claimed)) changed_.Wait(lock);
  claimed_.insert(claims.begin(), claims.end());
}

void SnapshotTable::Release(const std::set<std::string>& claims) {
  for (const std::string& name : claims) claimed_.erase(name);
  changed_.NotifyAll();
}

SnapshotPtr SnapshotTable::Get(const std::string& name) const {
  const auto found = snapshots_.find(name);
  return found == snapshots_.end() ? nullptr : found->second;
}

void SnapshotTable::AddChild(const std::string& parent, int count) {
  if (parent.empty()) return;
  if ((children_[parent] += count) == 0) children_.erase(parent);
}

void SnapshotTable::Put(const SnapshotPtr& snapshot) {
  snapshots_[snapshot->name] = snapshot;
  by_id_[snapshot->id] = snapshot;
}

Result<std::vector<SnapshotPtr>> SnapshotTable::ParentChain(const std::string& parent) const {
  std::vector<SnapshotPtr> chain;
  for (const std::string* name = &parent; !name->empty(); name = &chain.back()->parent) {
    SnapshotPtr found = Get(*name);
    if (found == nullptr) return NotFoundError("snapshot " + *name + " does not exist");
    chain.push_back(std::move(found));
  }
  return chain;
}

Result<std::vector<SnapshotPtr>> SnapshotTable::CheckNew(const NewSnapshot& wanted) const {
  if (Get(wanted.name) != nullptr) return AlreadyExistsError("snapshot " + wanted.name + " exists");
  ASSIGN_OR_RETURN(std::vector<SnapshotPtr> chain, ParentChain(wanted.parent));
  if (!chain.empty() && chain.front()->kind != SnapshotKind::kCommitted) {
    return InvalidArgumentError("parent " + wanted.parent + " is not committed");
  }
  return chain;
}

Result<SnapshotPtr> SnapshotTable::Add(const NewSnapshot& wanted, const Maker& make) {
  if (wanted.name.empty()) return InvalidArgumentError("a snapshot needs a key");
  SnapshotRecord snapshot;
  std::vector<SnapshotPtr> parents;
  {
    MutexLock lock(mutex_);
    Claim(lock, {wanted.name}, wanted.parent);
    Result<std::vector<SnapshotPtr>> possible = CheckNew(wanted);
    if (!possible.ok()) {
      Release({wanted.name});
      return possible.status();
    }
    parents = *std::move(possible);
    snapshot.id = next_id_++;
    making_.insert(snapshot.id);
    AddChild(wanted.parent, 1);  // keeps the parent
  }
  snapshot.name = wanted.name;
  snapshot.parent = wanted.parent;
  snapshot.kind = wanted.kind;
  snapshot.labels = wanted.labels;
  DropEmpty(snapshot.labels);
  snapshot.created = snapshot.updated = clock_.WallNow();
  Status made = make(snapshot, parents);
  if (made.ok()) {
    made = Write(snapshot);
    // It may be there although its last sync failed; what we refuse must not appear at the next start.
    if (!made.ok()) files_.Remove(RecordPath(snapshot.id)).IgnoreError();
  }
  auto shared = std::make_shared<const SnapshotRecord>(std::move(snapshot));
  MutexLock lock(mutex_);
  making_.erase(shared->id);
  if (made.ok()) {
    Put(shared);
  } else {
    AddChild(wanted.parent, -1);
  }
  Release({wanted.name});
  if (!made.ok()) return made;
  return SnapshotPtr(std::move(shared));
}

Result<SnapshotPtr> SnapshotTable::Commit(const std::string& key, const NewSnapshot& as, const Finisher& finish) {
  if (as.name.empty()) return InvalidArgumentError("a committed snapshot needs a name");
  const std::set<std::string> names = {key, as.name};
  SnapshotPtr active;
  {
    MutexLock lock(mutex_);
    Claim(lock, names);
    active = Get(key);
    Status possible;
    if (active == nullptr) possible = NotFoundError("snapshot " + key + " does not exist");
    if (possible.ok() && Get(as.name) != nullptr) possible = AlreadyExistsError("snapshot " + as.name + " exists");
    if (possible.ok() && active->kind != SnapshotKind::kActive) possible = AbortedError(key + " is not active");
    if (!possible.ok()) {
      Release(names);
      return possible;
    }
  }
  SnapshotRecord committed = *active;
  committed.name = as.name;
  committed.kind = SnapshotKind::kCommitted;
  committed.labels = as.labels;
  DropEmpty(committed.labels);
  committed.created = committed.updated = clock_.WallNow();
  Status done = finish(committed);
  if (done.ok()) done = Write(committed);
  auto shared = std::make_shared<const SnapshotRecord>(std::move(committed));
  MutexLock lock(mutex_);
  if (done.ok()) {
    snapshots_.erase(key);
    Put(shared);
  }
  Release(names);
  if (!done.ok()) return done;
  return SnapshotPtr(std::move(shared));
}

Result<SnapshotPtr> SnapshotTable::Remove(const std::string& name) {
  SnapshotPtr snapshot;
  {
    MutexLock lock(mutex_);
    Claim(lock, {name});
    snapshot = Get(name);
    const bool has_children = children_.contains(name);
    if (snapshot == nullptr || has_children) {
      Release({name});
      if (snapshot == nullptr) return NotFoundError("snapshot " + name + " does not exist");
      return AbortedError("snapshot " + name + " has snapshots above it");
    }
  }
  Status removed = KeepIds();
  if (removed.ok()) removed = files_.Remove(RecordPath(snapshot->id));
  const bool is_gone = removed.ok() || removed.code() == StatusCode::kNotFound;
  MutexLock lock(mutex_);
  if (is_gone) {
    snapshots_.erase(name);
    by_id_.erase(snapshot->id);
    AddChild(snapshot->parent, -1);
  }
  Release({name});
  if (!is_gone) return removed;
  return snapshot;
}

Result<SnapshotPtr> SnapshotTable::UpdateLabels(const std::string& name, const LabelChange& change) {
  SnapshotPtr old;
  {
    MutexLock lock(mutex_);
    Claim(lock, {name});
    old = Get(name);
    if (old == nullptr) {
      Release({name});
      return NotFoundError("snapshot " + name + " does not exist");
    }
  }
  SnapshotRecord changed = *old;
  if (change.replaces_all) changed.labels = change.labels;
  for (const std::string& key : change.keys) {
    const auto label = change.labels.find(key);
    changed.labels[key] = label == change.labels.end() ? "" : label->second;
  }
  DropEmpty(changed.labels);
  changed.updated = clock_.WallNow();
  const Status written = Write(changed);
  auto shared = std::make_shared<const SnapshotRecord>(std::move(changed));
  MutexLock lock(mutex_);
  if (written.ok()) Put(shared);
  Release({name});
  if (!written.ok()) return written;
  return SnapshotPtr(std::move(shared));
}

Result<SnapshotPtr> SnapshotTable::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  SnapshotPtr found = Get(name);
  if (found == nullptr) return NotFoundError("snapshot " + name + " does not exist");
  return found;
}

SnapshotPtr SnapshotTable::FindById(uint64_t id) const {
  MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Result<std::vector<SnapshotPtr>> SnapshotTable::ParentsOf(const SnapshotRecord& snapshot) const {
  MutexLock lock(mutex_);
  return ParentChain(snapshot.parent);
}

std::vector<SnapshotPtr> SnapshotTable::All() const {
  MutexLock lock(mutex_);
  std::vector<SnapshotPtr> all;
  for (const auto& [name, snapshot] : snapshots_) all.push_back(snapshot);
  return all;
}

bool SnapshotTable::IsLive(uint64_t id) const {
  MutexLock lock(mutex_);
  return making_.contains(id) || by_id_.contains(id);
}

}  // namespace paceline::snapshotter
