#include "lib/blocks/format/folder_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "lib/base/filesystem.h"
#include "lib/base/json.h"
#include "lib/base/unique_fd.h"

namespace paceline::blocks {
namespace {

constexpr char kMarker[] = "/paceline-store";
constexpr char kMarkerText[] = "{\"version\":1}\n";
constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";
constexpr size_t kMaxTagBytes = 128;

Status CheckTag(const std::string& tag) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const bool is_tag = !tag.empty() && tag.size() <= kMaxTagBytes && kLetters.find(tag[0]) != std::string_view::npos &&
                      tag.find_first_not_of(std::string(kLetters) + ".-") == std::string::npos;
  return is_tag ? Status() : InvalidArgumentError("\"" + tag.substr(0, 200) + "\" is no tag");
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

Status SyncFolder(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_valid() || ::fsync(folder.get()) != 0) return ErrnoStatus(errno, "sync " + path);
  return Status();
}

// A file in tmp/ that is locked as long as its writer lives.
struct LockedFile {
  UniqueFd fd;
  std::string path;
};

Result<LockedFile> MakeLockedFile(const std::string& folder) {
  for (;;) {
    std::string path = folder + "/blob-XXXXXX";
    UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
    if (!fd.is_valid()) return ErrnoStatus(errno, "create a file in " + folder);
    struct stat info;
    if (::flock(fd.get(), LOCK_EX) != 0 || ::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "lock " + path);
    // Between the two calls somebody may have taken it for a dead writer's.
    if (info.st_nlink > 0) return LockedFile{std::move(fd), std::move(path)};
  }
}

void RemoveDeadFiles(const std::string& folder, const FileSystem& files) {
  const Result<std::vector<std::string>> names = files.List(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd.is_valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

class FolderBlobWriter final : public BlobWriter {
 public:
  FolderBlobWriter(LockedFile file, std::string blobs) : file_(std::move(file)), blobs_(std::move(blobs)) {}
  ~FolderBlobWriter() override {
    if (!is_committed_) ::unlink(file_.path.c_str());
  }

  Status Append(std::string_view bytes, Deadline) override {
    hash_.Update(bytes);
    size_bytes_ += bytes.size();
    return WriteAll(file_.fd.get(), bytes, file_.path);
  }

  Result<Descriptor> Commit(Deadline) override {
    Descriptor blob{"", hash_.Finish(), size_bytes_, {}};
    const std::string path = blobs_ + "/" + blob.digest.Hex();
    if (::fchmod(file_.fd.get(), 0644) != 0) return ErrnoStatus(errno, "chmod " + file_.path);
    if (::fsync(file_.fd.get()) != 0) return ErrnoStatus(errno, "sync " + file_.path);
    // Also over a blob that is there: these bytes are known to be right.
    if (::rename(file_.path.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename to " + path);
    is_committed_ = true;
    RETURN_IF_ERROR(SyncFolder(blobs_));
    return blob;
  }

 private:
  LockedFile file_;
  std::string blobs_;
  Sha256 hash_;
  uint64_t size_bytes_ = 0;
  bool is_committed_ = false;
};

class FolderStore final : public BlobStore {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}

  Result<uint64_t> StatBlob(const Digest& digest, Deadline) override {
    struct stat info;
    const std::string path = BlobPath(digest);
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
    return static_cast<uint64_t>(info.st_size);
  }

  Status ReadBlob(const Digest& digest, uint64_t offset_bytes, std::span<char> out, Deadline) override {
    const std::string path = BlobPath(digest);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.is_valid()) return ErrnoStatus(errno, "open " + path);
    while (!out.empty()) {
      const ssize_t got = ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset_bytes));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read " + path);
      if (got == 0) return DataLossError(fmt::format("{} ends {} bytes early", path, out.size()));
      out = out.subspan(static_cast<size_t>(got));
      offset_bytes += static_cast<uint64_t>(got);
    }
    return Status();
  }

  Result<std::unique_ptr<BlobWriter>> NewBlob(Deadline) override {
    ASSIGN_OR_RETURN(LockedFile file, MakeLockedFile(folder_ + "/tmp"));
    return std::make_unique<FolderBlobWriter>(std::move(file), Blobs());
  }

  Result<StoredManifest> GetManifest(const std::string& tag_or_digest, Deadline deadline) override {
    StoredManifest manifest;
    if (tag_or_digest.find(':') != std::string::npos) {
      ASSIGN_OR_RETURN(manifest.descriptor.digest, ParseDigest(tag_or_digest));
      manifest.descriptor.media_type = kManifestType;
      ASSIGN_OR_RETURN(manifest.descriptor.size_bytes, StatBlob(manifest.descriptor.digest, deadline));
    } else {
      RETURN_IF_ERROR(CheckTag(tag_or_digest));
      ASSIGN_OR_RETURN(manifest.descriptor, ReadTag(folder_ + "/tags/" + tag_or_digest));
    }
    if (manifest.descriptor.size_bytes > kMaxManifestBytes) {
      return DataLossError("manifest " + tag_or_digest + " is too large");
    }
    ASSIGN_OR_RETURN(manifest.bytes, ReadWholeBlob(*this, manifest.descriptor, deadline));
    return manifest;
  }

  Result<Descriptor> PutManifest(const std::string& tag, const std::string& media_type, std::string_view bytes,
                                 Deadline deadline) override {
    ASSIGN_OR_RETURN(const Descriptor manifest, WriteWholeBlob(*this, media_type, bytes, deadline));
    if (tag.empty()) return manifest;
    RETURN_IF_ERROR(CheckTag(tag));
    const Json json = {
        {"mediaType", media_type}, {"digest", manifest.digest.ToString()}, {"size", manifest.size_bytes}};
    RETURN_IF_ERROR(files_.WriteFileAtomically(folder_ + "/tags/" + tag, DumpJson(json) + "\n", 0644));
    return manifest;
  }

  Result<std::vector<std::string>> ListTags(const std::string& prefix, Deadline) override {
    ASSIGN_OR_RETURN(std::vector<std::string> tags, files_.List(folder_ + "/tags"));
    // Files being written atomically have names that are no tags.
    std::erase_if(tags, [&](const std::string& tag) { return !tag.starts_with(prefix) || !CheckTag(tag).ok(); });
    return tags;
  }

  Status RemoveTag(const std::string& tag, Deadline) override {
    RETURN_IF_ERROR(CheckTag(tag));
    const Status removed = files_.Remove(folder_ + "/tags/" + tag);
    return removed.code() == StatusCode::kNotFound ? Status() : removed;
  }

  std::string Describe() const override { return "file://" + folder_; }

 private:
  std::string Blobs() const { return folder_ + "/blobs/sha256"; }
  std::string BlobPath(const Digest& digest) const { return Blobs() + "/" + digest.Hex(); }

  Result<Descriptor> ReadTag(const std::string& path) const {
    constexpr size_t kMaxTagFileBytes = 4096;
    ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(path, kMaxTagFileBytes));
    Descriptor descriptor;
    Result<Json> json = ParseJson(text);
    Result<std::string> digest = json.ok() ? JsonString(*json, "digest") : json.status();
    Result<int64_t> size = json.ok() ? JsonInt(*json, "size") : json.status();
    Result<std::string> type = json.ok() ? JsonString(*json, "mediaType") : json.status();
    for (const Status& status : {digest.status(), size.status(), type.status()}) {
      if (!status.ok()) return DataLossError(path + ": " + status.message());
    }
    Result<Digest> parsed = ParseDigest(*digest);
    if (!parsed.ok() || *size < 0) return DataLossError(path + ": no descriptor");
    return Descriptor{std::move(*type), *parsed, static_cast<uint64_t>(*size), {}};
  }

  std::string folder_;
  mutable RealFileSystem files_;
};

}  // namespace

Result<std::unique_ptr<BlobStore>> OpenFolderStore(const std::string& folder, StoreAccess access) {
  RealFileSystem files;
  const std::string marker = folder + kMarker;
  const Result<std::string> text = files.ReadFile(marker, 4096);
  if (text.ok()) {
    Result<Json> json = ParseJson(*text);
    const Result<int64_t> version = json.ok() ? JsonInt(*json, "version") : json.status();
    if (!version.ok()) return InvalidArgumentError(marker + ": " + version.status().message());
    if (*version != 1) return UnimplementedError(fmt::format("{}: a store of version {}", folder, *version));
  } else if (text.status().code() != StatusCode::kNotFound) {
    return text.status();
  } else if (access == StoreAccess::kRead) {
    return NotFoundError(folder + " is no store of block images");
  }
  if (access == StoreAccess::kWrite) {
    const Result<std::vector<std::string>> names = files.List(folder);
    // A first writer may be at work, or have died, before it came to the marker.
    const auto is_foreign = [](const std::string& name) {
      return name != "blobs" && name != "tags" && name != "tmp" && name.find(kMarker + 1) == std::string::npos;
    };
    if (!text.ok() && names.ok() && std::any_of(names->begin(), names->end(), is_foreign)) {
      return InvalidArgumentError(folder + " holds other things and is no store of block images");
    }
    for (const char* below : {"/blobs/sha256", "/tags", "/tmp"}) {
      RETURN_IF_ERROR(files.MakeDirectories(folder + below, 0755));
    }
    // Last: a folder with the marker is a whole store.
    if (!text.ok()) RETURN_IF_ERROR(files.WriteFileAtomically(marker, kMarkerText, 0644));
    RemoveDeadFiles(folder + "/tmp", files);
  }
  return std::make_unique<FolderStore>(folder);
}

}  // namespace paceline::blocks
