#include "cli/fs_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::cli {
namespace {

constexpr size_t kPieceBytes = 4 << 20;

std::string LastPart(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// What one command has done so far, told to the sink.
class Tally {
 public:
  explicit Tally(const ProgressSink& sink) : sink_(sink) {}
  void Expect(uint64_t bytes) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    total_ += bytes;
  }
  void Done(uint64_t bytes) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    result_.bytes += bytes;
    if (sink_) sink_(result_.bytes, total_);  // draws a line at most; the lock keeps two from being drawn at once
  }
  void FileDone() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++result_.files;
  }
  TransferResult result() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return result_;
  }

 private:
  const ProgressSink& sink_;
  mutable Mutex mutex_;
  TransferResult result_ GUARDED_BY(mutex_);
  uint64_t total_ GUARDED_BY(mutex_) = 0;
};

Status WriteAt(int fd, std::span<const std::byte> data, uint64_t offset, const std::string& path) {
  while (!data.empty()) {
    const ssize_t put = pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, path);
    data = data.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return Status();
}

// Fetches pieces of a file until none is left or somebody failed.
class PieceFetcher {
 public:
  PieceFetcher(hdfs::Reader& reader, int fd, std::string path, const TransferOptions& options, const Clock& clock,
               Tally& tally)
      : reader_(reader), fd_(fd), path_(std::move(path)), options_(options), clock_(clock), tally_(tally) {}

  Status Run() {
    const uint64_t pieces = (reader_.length_bytes() + kPieceBytes - 1) / kPieceBytes;
    const int threads = static_cast<int>(std::clamp<uint64_t>(pieces, 1, static_cast<uint64_t>(options_.threads)));
    std::vector<std::thread> workers;
    for (int i = 1; i < threads; ++i) workers.emplace_back([this] { Work(); });
    Work();
    for (std::thread& worker : workers) worker.join();
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  void Work() {
    std::vector<std::byte> buffer(std::min<uint64_t>(kPieceBytes, reader_.length_bytes()));
    while (!has_failed_) {
      const uint64_t offset = next_.fetch_add(kPieceBytes);
      if (offset >= reader_.length_bytes()) return;
      const Status status = FetchPiece(offset, buffer);
      if (status.ok()) continue;
      MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = status;
      has_failed_ = true;
    }
  }

  Status FetchPiece(uint64_t offset, std::vector<std::byte>& buffer) {
    const size_t want = std::min<uint64_t>(buffer.size(), reader_.length_bytes() - offset);
    ASSIGN_OR_RETURN(const size_t got,
                     reader_.Read(offset, std::span(buffer).first(want), Deadline::After(clock_, options_.call_limit)));
    if (got != want)
      return DataLossError(fmt::format("{}: {} bytes at {} where {} were expected", path_, got, offset, want));
    RETURN_IF_ERROR(WriteAt(fd_, std::span(buffer).first(got), offset, path_));
    tally_.Done(got);
    return Status();
  }

  hdfs::Reader& reader_;
  const int fd_;
  const std::string path_;
  const TransferOptions& options_;
  const Clock& clock_;
  Tally& tally_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> has_failed_{false};
  Mutex mutex_;
  Status failure_ GUARDED_BY(mutex_);
};

struct Transfer {
  hdfs::FileSystem& fs;
  const TransferOptions& options;
  const Clock& clock;
  Tally& tally;

  Deadline Soon() const { return Deadline::After(clock, options.call_limit); }
};

Status DownloadFile(const Transfer& transfer, const std::string& path, const hdfs::FileStatus& status,
                    const std::string& local) {
  if (!transfer.options.overwrites && access(local.c_str(), F_OK) == 0) {
    return AlreadyExistsError(local + " is there already; --force replaces it");
  }
  transfer.tally.Expect(status.length_bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<hdfs::Reader> reader, transfer.fs.Open(path, transfer.Soon()));
  const std::string part = local + ".part";
  UniqueFd fd(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.is_valid()) return ErrnoStatus(errno, part);
  Status done = PieceFetcher(*reader, fd.get(), local, transfer.options, transfer.clock, transfer.tally).Run();
  // A full disk may show only now.
  if (done.ok() && close(fd.Release()) != 0) done = ErrnoStatus(errno, part);
  if (done.ok() && rename(part.c_str(), local.c_str()) != 0) done = ErrnoStatus(errno, local);
  if (!done.ok()) {
    unlink(part.c_str());
    return done;
  }
  transfer.tally.FileDone();
  return Status();
}

Status DownloadAny(const Transfer& transfer, const std::string& path, const hdfs::FileStatus& status,
                   const std::string& local) {
  if (status.type == hdfs::FileStatus::Type::kFile) return DownloadFile(transfer, path, status, local);
  if (status.type == hdfs::FileStatus::Type::kSymlink)
    return UnimplementedError(path + ": symbolic links are not followed");
  std::error_code error;
  std::filesystem::create_directories(local, error);
  if (error) return ErrnoStatus(error.value(), local);
  ASSIGN_OR_RETURN(const std::vector<hdfs::FileStatus> entries, hdfs::ListAll(transfer.fs, path, transfer.Soon()));
  for (const hdfs::FileStatus& entry : entries) {
    if (!transfer.fs.IsVisibleName(entry.name)) continue;
    RETURN_IF_ERROR(DownloadAny(transfer, JoinPath(path, entry.name), entry, JoinPath(local, entry.name)));
  }
  return Status();
}

Status CopyIn(const Transfer& transfer, int fd, hdfs::Writer& writer, const std::string& local) {
  std::vector<std::byte> buffer(kPieceBytes);
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, local);
    if (got == 0) return writer.Close(transfer.Soon());
    RETURN_IF_ERROR(writer.Write(std::span(buffer).first(static_cast<size_t>(got)), transfer.Soon()));
    transfer.tally.Done(static_cast<uint64_t>(got));
  }
}

Status UploadFile(const Transfer& transfer, const std::string& local, const struct stat& st, const std::string& path) {
  const UniqueFd fd(open(local.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) return ErrnoStatus(errno, local);
  transfer.tally.Expect(static_cast<uint64_t>(st.st_size));
  hdfs::CreateOptions create;
  create.mode = transfer.options.overwrites ? hdfs::CreateMode::kOverwrite : hdfs::CreateMode::kFailIfExists;
  create.permission = st.st_mode & 0777;
  create.length = static_cast<uint64_t>(st.st_size);
  Result<std::unique_ptr<hdfs::Writer>> writer = transfer.fs.Create(path, create, transfer.Soon());
  if (writer.status().code() == StatusCode::kAlreadyExists) {
    return AlreadyExistsError(path + " is there already; --force replaces it");
  }
  if (!writer.ok()) return writer.status();
  const Status copied = CopyIn(transfer, fd.get(), **writer, local);
  if (!copied.ok()) {
    (*writer)->Abandon();
    return copied;
  }
  transfer.tally.FileDone();
  return Status();
}

Status UploadAny(const Transfer& transfer, const std::string& local, const std::string& path) {
  struct stat st;
  if (stat(local.c_str(), &st) != 0) return ErrnoStatus(errno, local);
  if (S_ISREG(st.st_mode)) return UploadFile(transfer, local, st, path);
  if (!S_ISDIR(st.st_mode)) return InvalidArgumentError(local + ": neither a file nor a directory");
  RETURN_IF_ERROR(transfer.fs.Mkdirs(path, st.st_mode & 0777, hdfs::MkdirsMode::kMakeParents, transfer.Soon()));
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(local, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), local);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    RETURN_IF_ERROR(UploadAny(transfer, JoinPath(local, name), JoinPath(path, name)));
  return Status();
}

}  // namespace

std::string JoinPath(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

Result<TransferResult> Download(hdfs::FileSystem& fs, const std::string& path, const std::string& local,
                                const TransferOptions& options, const Clock& clock, const ProgressSink& progress) {
  Tally tally(progress);
  const Transfer transfer{fs, options, clock, tally};
  ASSIGN_OR_RETURN(const hdfs::FileStatus status, fs.Stat(path, transfer.Soon()));
  std::error_code error;
  const bool goes_into = std::filesystem::is_directory(local, error);
  RETURN_IF_ERROR(DownloadAny(transfer, path, status, goes_into ? JoinPath(local, LastPart(path)) : local));
  return tally.result();
}

Result<TransferResult> Upload(hdfs::FileSystem& fs, const std::string& local, const std::string& path,
                              const TransferOptions& options, const Clock& clock, const ProgressSink& progress) {
  Tally tally(progress);
  const Transfer transfer{fs, options, clock, tally};
  Result<hdfs::FileStatus> there = fs.Stat(path, transfer.Soon());
  if (!there.ok() && there.status().code() != StatusCode::kNotFound) return there.status();
  const bool goes_into = there.ok() && there->type == hdfs::FileStatus::Type::kDirectory;
  RETURN_IF_ERROR(UploadAny(transfer, local, goes_into ? JoinPath(path, LastPart(local)) : path));
  return tally.result();
}

}  // namespace paceline::cli
