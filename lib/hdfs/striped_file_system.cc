#include "lib/hdfs/striped_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "lib/base/mutex.h"
#include "lib/hdfs/part_names.h"
#include "lib/hdfs/posix_error.h"
#include "lib/hdfs/striped_reader.h"
#include "lib/hdfs/striped_writer.h"

namespace paceline::hdfs {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMaxCached = 4096;
// Of a folder in a directory where there always are writers.
constexpr Duration kStripesAge = 24h;

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

class StripedFileSystem final : public FileSystem {
 public:
  StripedFileSystem(std::unique_ptr<FileSystem> plain, const StripeRules& rules, std::shared_ptr<ByteBudget> budget,
                    const Clock& clock)
      : plain_(std::move(plain)), rules_(rules), budget_(std::move(budget)), clock_(clock) {}

  Result<FileStatus> Stat(const std::string& path, Deadline deadline) override {
    ASSIGN_OR_RETURN(FileStatus status, plain_->Stat(path, deadline));
    RETURN_IF_ERROR(ShowLength(path, &status, deadline));
    return status;
  }

  Result<ListPage> List(const std::string& path, const std::string& start_after, Deadline deadline) override {
    ASSIGN_OR_RETURN(ListPage page, plain_->List(path, start_after, deadline));
    for (FileStatus& entry : page.entries) {
      if (entry.length_bytes != kManifestBytes) continue;
      // A file that goes away meanwhile is listed as it was.
      Status shown = ShowLength((path == "/" ? "" : path) + "/" + entry.name, &entry, deadline);
      if (!shown.ok() && shown.code() != StatusCode::kNotFound && shown.code() != StatusCode::kPermissionDenied &&
          shown.code() != StatusCode::kInvalidArgument) {
        return shown;
      }
    }
    return page;
  }

  Status Mkdirs(const std::string& path, FileMode mode, MkdirsMode parents, Deadline deadline) override {
    return plain_->Mkdirs(path, mode, parents, deadline);
  }

  Status Remove(const std::string& path, RemoveMode mode, Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    RETURN_IF_ERROR(plain_->Remove(path, mode, deadline));
    if (manifest.has_value()) RemoveFolders(DirectoryOf(path), manifest->sets, deadline);
    return Status();
  }

  Status Rename(const std::string& from, const std::string& to, RenameMode mode, Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> moved, FindManifest(from, deadline));
    if (moved.has_value() && DirectoryOf(from) != DirectoryOf(to)) {
      return PosixError(EXDEV, "rename " + from + ": a striped file cannot go to another directory but by copying");
    }
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> replaced, FindManifest(to, deadline));
    RETURN_IF_ERROR(plain_->Rename(from, to, mode, deadline));
    if (replaced.has_value() && from != to) RemoveFolders(DirectoryOf(to), replaced->sets, deadline);
    return Status();
  }

  Status SetMode(const std::string& path, FileMode mode, Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    RETURN_IF_ERROR(plain_->SetMode(path, mode, deadline));
    return OnFolders(path, manifest, [&](const std::string& folder) {
      return plain_->SetMode(folder, StripeFolderMode(mode), deadline);
    });
  }

  Status SetOwner(const std::string& path, const std::string& owner, const std::string& group,
                  Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    RETURN_IF_ERROR(plain_->SetOwner(path, owner, group, deadline));
    return OnFolders(path, manifest,
                     [&](const std::string& folder) { return plain_->SetOwner(folder, owner, group, deadline); });
  }

  Status SetTimes(const std::string& path, std::optional<WallTime> modified, std::optional<WallTime> accessed,
                  Deadline deadline) override {
    return plain_->SetTimes(path, modified, accessed, deadline);
  }

  Status SetReplication(const std::string& path, uint32_t replication, Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    RETURN_IF_ERROR(plain_->SetReplication(path, replication, deadline));
    if (!manifest.has_value()) return Status();
    for (const StripeSet& set : manifest->sets) {
      for (uint32_t i = 0; i < set.files; ++i) {
        const std::string stripe = fmt::format("{}/{}/{}", DirectoryOf(path), set.folder, StripeName(i));
        RETURN_IF_ERROR(plain_->SetReplication(stripe, replication, deadline));
      }
    }
    return Status();
  }

  Result<Xattrs> GetXattrs(const std::string& path, Deadline deadline) override {
    return plain_->GetXattrs(path, deadline);
  }
  Status SetXattr(const std::string& path, const std::string& name, std::string_view value, XattrMode mode,
                  Deadline deadline) override {
    return plain_->SetXattr(path, name, value, mode, deadline);
  }
  Status RemoveXattr(const std::string& path, const std::string& name, Deadline deadline) override {
    return plain_->RemoveXattr(path, name, deadline);
  }
  Result<Capacity> StatCapacity(Deadline deadline) override { return plain_->StatCapacity(deadline); }

  Result<std::unique_ptr<Reader>> Open(const std::string& path, Deadline deadline) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, plain_->Open(path, deadline));
    if (reader->length_bytes() != kManifestBytes) return reader;
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, ReadManifest(*reader, deadline));
    if (!manifest.has_value()) return reader;
    return StripedReader::Open(*plain_, DirectoryOf(path), *manifest, deadline);
  }

  Result<std::unique_ptr<Writer>> Create(const std::string& path, const CreateOptions& options,
                                         Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> before, FindManifest(path, deadline));
    ASSIGN_OR_RETURN(std::unique_ptr<Writer> file, plain_->Create(path, options, deadline));
    if (!rules_.writes_stripes && !before.has_value()) return file;
    StripedWriter::Target target{.plain = *plain_,
                                 .budget = *budget_,
                                 .clock = clock_,
                                 .path = path,
                                 .options = options,
                                 .rules = rules_,
                                 .before = {}};
    if (before.has_value()) {
      target.on_replaced = [this, path, sets = before->sets](Deadline limit) {
        RemoveFolders(DirectoryOf(path), sets, limit);
      };
    }
    return std::unique_ptr<Writer>(new StripedWriter(std::move(target), std::move(file)));
  }

  Result<std::unique_ptr<Writer>> Append(const std::string& path, Deadline deadline) override {
    ASSIGN_OR_RETURN(std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    if (!manifest.has_value()) return plain_->Append(path, deadline);
    StripedWriter::Target target = TargetOver(path, *std::move(manifest));
    ASSIGN_OR_RETURN(std::unique_ptr<Writer> file, Rewrite(path, &target, deadline));
    return std::unique_ptr<Writer>(new StripedWriter(std::move(target), std::move(file)));
  }

  Status Truncate(const std::string& path, uint64_t length, Deadline deadline) override {
    ASSIGN_OR_RETURN(std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    if (!manifest.has_value()) return plain_->Truncate(path, length, deadline);
    if (length > manifest->length_bytes()) return PosixError(EINVAL, "truncate " + path + ": would make it longer");
    if (length == manifest->length_bytes()) return Status();
    const std::vector<StripeSet> dropped = manifest->Cut(length);
    StripedWriter::Target target = TargetOver(path, *std::move(manifest));
    ASSIGN_OR_RETURN(std::unique_ptr<Writer> file, Rewrite(path, &target, deadline));
    StripedWriter writer(std::move(target), std::move(file));
    RETURN_IF_ERROR(writer.Close(deadline));
    RemoveFolders(DirectoryOf(path), dropped, deadline);
    return Status();
  }

  Result<std::vector<BlockLocation>> Locate(const std::string& path, ByteRange range, Deadline deadline) override {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, FindManifest(path, deadline));
    if (!manifest.has_value()) return plain_->Locate(path, range, deadline);
    std::vector<BlockLocation> all;
    uint64_t start = 0;
    for (const StripeSet& set : manifest->sets) {
      const uint64_t begin = std::max(range.offset, start);
      const uint64_t end =
          std::min(range.offset + std::min(range.length, manifest->length_bytes()), start + set.length_bytes);
      if (begin < end) {
        RETURN_IF_ERROR(LocateSet(DirectoryOf(path), set, start, {begin - start, end - begin}, &all, deadline));
      }
      start += set.length_bytes;
    }
    return all;
  }

  Result<size_t> RemoveStaleParts(const std::string& directory, Duration quiet, Deadline deadline) override {
    ASSIGN_OR_RETURN(size_t removed, plain_->RemoveStaleParts(directory, quiet, deadline));
    ASSIGN_OR_RETURN(const std::vector<std::string> folders, UnusedFolders(directory, deadline));
    if (folders.empty()) return removed;
    // A listing of several pages is no snapshot: a file that was renamed meanwhile may be on none of them.
    ASSIGN_OR_RETURN(const std::vector<std::string> again, UnusedFolders(directory, deadline));
    for (const std::string& folder : folders) {
      if (std::find(again.begin(), again.end(), folder) == again.end()) continue;
      if (plain_->Remove((directory == "/" ? "" : directory) + "/" + folder, RemoveMode::kRecursive, deadline).ok()) {
        ++removed;
      }
    }
    return removed;
  }

  bool IsVisibleName(std::string_view name) const override {
    return plain_->IsVisibleName(name) && !ParsePartName(name).has_value();
  }

 private:
  struct Cached {
    WallTime modified;
    uint64_t file_id = 0;
    std::optional<StripeManifest> manifest;
  };

  static Result<std::optional<StripeManifest>> ReadManifest(Reader& reader, Deadline deadline) {
    std::string text(kManifestBytes, '\0');
    ASSIGN_OR_RETURN(const size_t got, reader.Read(0, std::as_writable_bytes(std::span(text)), deadline));
    text.resize(got);
    return ParseManifest(text);
  }

  // What `path`, which has `status`, is the manifest of.
  Result<std::optional<StripeManifest>> ManifestOf(const std::string& path, const FileStatus& status,
                                                   Deadline deadline) {
    std::optional<StripeManifest> none;
    if (status.type != FileStatus::Type::kFile || status.length_bytes != kManifestBytes) return none;
    {
      MutexLock lock(mutex_);
      const auto found = cache_.find(path);
      if (found != cache_.end() && found->second.modified == status.modified &&
          found->second.file_id == status.file_id) {
        return found->second.manifest;
      }
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<Reader> reader, plain_->Open(path, deadline));
    ASSIGN_OR_RETURN(std::optional<StripeManifest> manifest, ReadManifest(*reader, deadline));
    MutexLock lock(mutex_);
    if (cache_.size() >= kMaxCached) cache_.clear();
    cache_[path] = {status.modified, status.file_id, manifest};
    return manifest;
  }

  // Nothing also when there is no such file: whoever asks goes on, and hears of that from the server.
  Result<std::optional<StripeManifest>> FindManifest(const std::string& path, Deadline deadline) {
    const Result<FileStatus> status = plain_->Stat(path, deadline);
    if (status.ok()) return ManifestOf(path, *status, deadline);
    const StatusCode code = status.status().code();
    const bool is_answer =
        code == StatusCode::kNotFound || code == StatusCode::kPermissionDenied || code == StatusCode::kInvalidArgument;
    if (is_answer) return std::optional<StripeManifest>();
    return status.status();
  }

  Status ShowLength(const std::string& path, FileStatus* status, Deadline deadline) {
    ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest, ManifestOf(path, *status, deadline));
    if (manifest.has_value()) status->length_bytes = manifest->length_bytes();
    return Status();
  }

  // Folders of stripes that belong to no file of `directory` and to no writer there. A writer of stripes has the file
  // that will name them open, hidden, from before it makes the folder until the manifest has its name.
  Result<std::vector<std::string>> UnusedFolders(const std::string& directory, Deadline deadline) {
    ASSIGN_OR_RETURN(const std::vector<FileStatus> entries, ListAll(*plain_, directory, deadline));
    const bool has_writers = !GroupByWriter(entries).empty();
    std::vector<std::string> folders;
    for (const FileStatus& entry : entries) {
      const std::optional<PartName> part = ParsePartName(entry.name);
      if (!part.has_value() || !part->is_stripe_folder) continue;
      if (has_writers) {
        // Which of them it belongs to nobody can tell; but while its stripes are written they have writers too.
        if (entry.modified > clock_.WallNow() - kStripesAge) continue;
        ASSIGN_OR_RETURN(const std::vector<FileStatus> stripes,
                         ListAll(*plain_, (directory == "/" ? "" : directory) + "/" + entry.name, deadline));
        if (!GroupByWriter(stripes).empty()) continue;
      }
      folders.push_back(entry.name);
    }
    if (folders.empty()) return folders;
    for (const FileStatus& entry : entries) {
      // Without a doubt, or not at all: a manifest that cannot be read may name any of them.
      ASSIGN_OR_RETURN(const std::optional<StripeManifest> manifest,
                       ManifestOf((directory == "/" ? "" : directory) + "/" + entry.name, entry, deadline));
      if (!manifest.has_value()) continue;
      for (const StripeSet& set : manifest->sets) std::erase(folders, set.folder);
    }
    return folders;
  }

  // Best effort: nobody can reach them any more, and the janitor finds them.
  void RemoveFolders(const std::string& directory, const std::vector<StripeSet>& sets, Deadline deadline) {
    for (const StripeSet& set : sets) {
      plain_->Remove(directory + "/" + set.folder, RemoveMode::kRecursive, deadline).IgnoreError();
    }
  }

  template <typename Change>
  static Status OnFolders(const std::string& path, const std::optional<StripeManifest>& manifest, Change change) {
    if (!manifest.has_value()) return Status();
    for (const StripeSet& set : manifest->sets) RETURN_IF_ERROR(change(DirectoryOf(path) + "/" + set.folder));
    return Status();
  }

  // For writing on where `manifest` ends; Rewrite fills the options in.
  StripedWriter::Target TargetOver(const std::string& path, StripeManifest manifest) {
    return {.plain = *plain_,
            .budget = *budget_,
            .clock = clock_,
            .path = path,
            .options = {},
            .rules = rules_,
            .before = std::move(manifest)};
  }

  // Opens the file that gets the manifest anew, with the attributes that the present one has.
  Result<std::unique_ptr<Writer>> Rewrite(const std::string& path, StripedWriter::Target* target, Deadline deadline) {
    ASSIGN_OR_RETURN(const FileStatus status, plain_->Stat(path, deadline));
    target->options = {.mode = CreateMode::kOverwrite,
                       .permission = status.mode,
                       .replication = status.replication,
                       .block_size_bytes = status.block_size_bytes};
    const Result<Xattrs> attributes = plain_->GetXattrs(path, deadline);
    if (attributes.ok()) {
      target->on_replaced = [this, path, kept = *attributes](Deadline limit) {
        for (const auto& [name, value] : kept) {
          if (name.starts_with("user.")) {
            plain_->SetXattr(path, name, value, XattrMode::kCreateOrReplace, limit).IgnoreError();
          }
        }
      };
    }
    return plain_->Create(path, target->options, deadline);
  }

  // One entry for each unit, with the hosts of the stripe's block that holds it.
  Status LocateSet(const std::string& directory, const StripeSet& set, uint64_t start, ByteRange range,
                   std::vector<BlockLocation>* out, Deadline deadline) {
    std::vector<std::vector<BlockLocation>> blocks(set.files);
    for (uint32_t i = 0; i < set.files; ++i) {
      const std::string stripe = fmt::format("{}/{}/{}", directory, set.folder, StripeName(i));
      ASSIGN_OR_RETURN(blocks[i], plain_->Locate(stripe, {0, INT64_MAX}, deadline));
    }
    for (const StripePiece& piece : PlanStripes(set, range)) {
      BlockLocation location{.offset_bytes = start + piece.in_set, .length_bytes = piece.in_stripe.length};
      for (const BlockLocation& block : blocks[piece.stripe]) {
        if (piece.in_stripe.offset < block.offset_bytes + block.length_bytes) {
          location.hosts = block.hosts;
          location.is_corrupt = block.is_corrupt;
          break;
        }
      }
      out->push_back(std::move(location));
    }
    return Status();
  }

  const std::unique_ptr<FileSystem> plain_;
  const StripeRules rules_;
  const std::shared_ptr<ByteBudget> budget_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Cached> cache_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<FileSystem> MakeStripedFileSystem(std::unique_ptr<FileSystem> plain, const StripeRules& rules,
                                                  std::shared_ptr<ByteBudget> budget, const Clock& clock) {
  return std::make_unique<StripedFileSystem>(std::move(plain), rules, std::move(budget), clock);
}

}  // namespace paceline::hdfs
