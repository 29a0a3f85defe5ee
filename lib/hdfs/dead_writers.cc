#include "lib/hdfs/dead_writers.h"

#include "lib/hdfs/remote_error.h"

namespace paceline::hdfs {
namespace {

std::string Below(const std::string& directory, const std::string& name) {
  return (directory == "/" ? "" : directory) + "/" + name;
}

enum class LeaseState { kHeld, kRunOut, kNone };

// There is no call that asks for a lease. Creating a file that is there answers the question, though, and changes
// nothing: the NameNode looks at the lease before it says that the file exists.
Status Ask(NameNode& namenode, const std::string& path, const FileStatus& target, Deadline deadline) {
  const NameNode::CreateSettings settings{.mode = CreateMode::kFailIfExists,
                                          .permission = target.mode,
                                          .replication = target.replication,
                                          .block_size_bytes = target.block_size_bytes};
  return namenode.Create(path, settings, deadline).status();
}

Result<LeaseState> AskLease(NameNode& namenode, const std::string& path, const FileStatus& target, DeadHolders* dead,
                            Deadline deadline) {
  ASSIGN_OR_RETURN(const bool is_closed, namenode.IsFileClosed(path, deadline));
  if (is_closed) return LeaseState::kNone;
  const Status asked = Ask(namenode, path, target, deadline);
  if (asked.ok()) return LeaseState::kRunOut;  // it went meanwhile, and an empty one of ours is there now
  if (KindOf(asked) == RemoteErrorKind::kAlreadyBeingCreated) {
    return dead->count(LeaseHolderIn(asked.message())) > 0 ? LeaseState::kRunOut : LeaseState::kHeld;
  }
  if (KindOf(asked) == RemoteErrorKind::kRecoveryInProgress) {
    // Only the second answer says whose lease it was.
    const std::string holder = LeaseHolderIn(Ask(namenode, path, target, deadline).message());
    if (!holder.empty()) dead->insert(holder);
    return LeaseState::kRunOut;
  }
  if (asked.code() != StatusCode::kAlreadyExists) return asked;
  // Closed now: by its writer, who is about to give it its name, or because the lease had run out and there was no
  // block to recover.
  return target.length_bytes == 0 ? LeaseState::kRunOut : LeaseState::kNone;
}

}  // namespace

std::string LeaseHolderIn(std::string_view message) {
  for (const std::string_view before : {" currently owned by ", " in progress by "}) {
    const size_t at = message.find(before);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = message.substr(at + before.size());
    const size_t end = rest.find(" on ");
    if (end != std::string_view::npos) return std::string(rest.substr(0, end));
  }
  return "";
}

Result<bool> IsWriterDead(NameNode& namenode, const Clock& clock, const std::string& directory,
                          const WriterParts& parts, Duration quiet, DeadHolders* dead, Deadline deadline) {
  LeaseState lease = LeaseState::kNone;
  if (parts.target.has_value()) {
    const std::string path = Below(directory, parts.target->name);
    Result<LeaseState> asked = AskLease(namenode, path, *parts.target, dead, deadline);
    // Somebody else was quicker, or the writer has given it its name.
    if (asked.status().code() == StatusCode::kNotFound) return false;
    if (!asked.ok()) return asked.status();
    lease = *asked;
  }
  if (lease != LeaseState::kNone) return lease == LeaseState::kRunOut;
  return clock.WallNow() - parts.changed > quiet;
}

Result<size_t> RemoveParts(NameNode& namenode, const std::string& directory, const WriterParts& parts,
                           Deadline deadline) {
  std::vector<FileStatus> files = parts.parts;
  if (parts.target.has_value()) files.push_back(*parts.target);
  size_t removed = 0;
  for (const FileStatus& file : files) {
    ASSIGN_OR_RETURN(const bool was_there,
                     namenode.Delete(Below(directory, file.name), RemoveMode::kFileOrEmptyDirectory, deadline));
    if (was_there) ++removed;
  }
  return removed;
}

}  // namespace paceline::hdfs
