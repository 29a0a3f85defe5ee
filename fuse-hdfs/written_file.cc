#include "fuse-hdfs/written_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/check.h"
#include "lib/hdfs/posix_error.h"

namespace paceline::fuse_hdfs {
namespace {

constexpr size_t kSendBytes = 1 << 20;
constexpr std::array<std::byte, 256 << 10> kZeros{};

}  // namespace

// The right to use the fields of a file and its writer. Waiting for it is bounded by the deadline; taken() says whether
// it came.
class WrittenFile::Turn {
 public:
  Turn(WrittenFile& file, Deadline deadline) : file_(file) {
    MutexLock lock(file_.mutex_);
    while (file_.has_turn_ && !deadline.Expired(file_.clock_)) {
      file_.turn_ended_.WaitUntil(lock, file_.clock_, deadline.when());
    }
    is_taken_ = !file_.has_turn_;
    if (is_taken_) file_.has_turn_ = true;
  }
  ~Turn() {
    if (!is_taken_) return;
    file_.Account();
    file_.Publish();
    MutexLock lock(file_.mutex_);
    file_.has_turn_ = false;
    file_.turn_ended_.NotifyOne();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Status taken() const {
    return is_taken_ ? Status() : DeadlineExceededError("another call on this file has not ended in time");
  }

 private:
  WrittenFile& file_;
  bool is_taken_ = false;
};

WrittenFile::WrittenFile(hdfs::FileSystem& fs, const Clock& clock, const WriteRules& rules, WriteBudget& budget,
                         std::string path, uint64_t length)
    : fs_(fs),
      clock_(clock),
      rules_(rules),
      budget_(budget),
      window_(length),
      size_(length),
      server_length_(length),
      path_(std::move(path)) {
  Publish();
}

WrittenFile::~WrittenFile() {
  DropWriter();
  budget_.held_bytes -= accounted_;
}

WrittenFile::View WrittenFile::view() const {
  MutexLock lock(mutex_);
  return view_;
}

std::string WrittenFile::path() const {
  MutexLock lock(mutex_);
  return path_;
}

void WrittenFile::Publish() {
  MutexLock lock(mutex_);
  view_ = {.size_bytes = size_,
           .is_open = writer_ != nullptr || is_orphan_,
           .is_on_server = is_on_server_,
           .modified = modified_,
           .mode = mode_};
}

void WrittenFile::Account() {
  const uint64_t held = window_.held_bytes();
  budget_.held_bytes += held - accounted_;  // wraps where it shrinks, which adds up
  accounted_ = held;
}

Status WrittenFile::Usable() const { return failure_; }

void WrittenFile::DropWriter() {
  if (writer_ == nullptr) return;
  writer_->Abandon();
  writer_.reset();
}

// A stream that failed is of no use any more, and what it had sent is not in the file.
Status WrittenFile::Fail(Status status) {
  failure_ = std::move(status);
  DropWriter();
  return failure_;
}

Status WrittenFile::Begin(hdfs::CreateMode create, hdfs::FileMode mode, bool is_on_server, Deadline deadline) {
  Turn turn(*this, deadline);
  RETURN_IF_ERROR(turn.taken());
  DropWriter();
  hdfs::CreateOptions options;
  options.mode = create;
  options.permission = mode;
  options.replication = rules_.replication;
  options.block_size_bytes = rules_.block_size_bytes;
  ASSIGN_OR_RETURN(writer_, fs_.Create(path(), options, deadline));
  window_ = WriteWindow();
  size_ = server_length_ = 0;
  is_on_server_ = is_on_server;
  mode_ = mode;
  modified_ = clock_.WallNow();
  failure_ = Status();
  return Status();
}

// A closed file goes on at its end; everything else has no way in HDFS.
Status WrittenFile::EnsureWriter(uint64_t offset, Deadline deadline) {
  if (writer_ != nullptr) return Status();
  if (offset < server_length_) {
    return hdfs::PosixError(EOPNOTSUPP,
                            fmt::format("write {} at {}: HDFS cannot change bytes that a file has", path(), offset));
  }
  ASSIGN_OR_RETURN(writer_, fs_.Append(path(), deadline));
  if (writer_->position_bytes() != server_length_) {
    const Status status = hdfs::PosixError(ESTALE, fmt::format("append to {}: somebody else changed it", path()));
    DropWriter();
    return status;
  }
  window_ = WriteWindow(server_length_);
  return Status();
}

Status WrittenFile::Write(uint64_t offset, std::span<const std::byte> data, Deadline deadline) {
  Turn turn(*this, deadline);
  RETURN_IF_ERROR(turn.taken());
  RETURN_IF_ERROR(Usable());
  if (data.empty()) return Status();
  modified_ = clock_.WallNow();
  if (is_orphan_) {
    size_ = std::max(size_, offset + data.size());
    return Status();
  }
  RETURN_IF_ERROR(EnsureWriter(offset, deadline));
  if (offset < window_.start()) {
    return hdfs::PosixError(EOPNOTSUPP, fmt::format("write {} at {}: bytes before {} are sent and cannot be changed",
                                                    path(), offset, window_.start()));
  }
  RETURN_IF_ERROR(FillHoleIfFar(offset, data.size(), deadline));
  RETURN_IF_ERROR(window_.Put(offset, data));
  size_ = std::max(size_, offset + data.size());
  Account();
  const bool is_crowded = budget_.held_bytes > rules_.budget_bytes;
  const uint64_t keep = is_crowded ? 0 : rules_.holdback_bytes;
  return window_.ready_bytes() >= keep + kSendBytes ? Send(keep, deadline) : Status();
}

// Bytes that stay behind a hole would pile up in memory. Whoever leaves a hole of that size means zeros.
Status WrittenFile::FillHoleIfFar(uint64_t offset, uint64_t size, Deadline deadline) {
  const uint64_t end = offset + size;
  while (end > window_.start() + rules_.window_bytes) {
    RETURN_IF_ERROR(Send(0, deadline));
    const uint64_t skipped = window_.SkipHole(std::min(offset, end - rules_.window_bytes));
    if (skipped == 0) break;
    RETURN_IF_ERROR(SendZeros(skipped, deadline));
  }
  return Status();
}

Status WrittenFile::SendZeros(uint64_t count, Deadline deadline) {
  while (count > 0) {
    const size_t piece = std::min<uint64_t>(count, kZeros.size());
    const Status status = writer_->Write(std::span(kZeros).first(piece), deadline);
    if (!status.ok()) return Fail(status);
    count -= piece;
  }
  return Status();
}

// Sends what is ready, except the last `keep_bytes` of it.
Status WrittenFile::Send(uint64_t keep_bytes, Deadline deadline) {
  uint64_t ready = window_.ready_bytes();
  while (ready > keep_bytes) {
    const std::span<const std::byte> piece = window_.Front(std::min<uint64_t>(ready - keep_bytes, kSendBytes));
    const Status status = writer_->Write(piece, deadline);
    if (!status.ok()) return Fail(status);
    ready -= piece.size();
    window_.Pop(piece.size());
  }
  return Status();
}

std::optional<size_t> WrittenFile::Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) {
  Turn turn(*this, deadline);
  if (!turn.taken().ok() || (writer_ == nullptr && !is_orphan_)) return std::nullopt;
  if (offset >= size_) return 0;
  const size_t count = std::min<uint64_t>(out.size(), size_ - offset);
  if (offset < window_.start()) return std::nullopt;
  std::fill_n(out.begin(), count, std::byte{0});  // holes
  window_.CopyTo(offset, out.first(count));
  return count;
}

Status WrittenFile::Commit(Durability durability, Deadline deadline) {
  Turn turn(*this, deadline);
  RETURN_IF_ERROR(turn.taken());
  return CommitInTurn(durability, deadline);
}

Status WrittenFile::CommitInTurn(Durability durability, Deadline deadline) {
  RETURN_IF_ERROR(Usable());
  if (writer_ == nullptr || is_orphan_) return Status();
  while (window_.start() < size_) {
    RETURN_IF_ERROR(Send(0, deadline));
    RETURN_IF_ERROR(SendZeros(window_.SkipHole(size_), deadline));
  }
  if (durability == Durability::kOnDisk) {
    const Status synced = writer_->Sync(deadline);
    if (!synced.ok()) return Fail(synced);
  }
  // Close completes the blocks at all replicas; what it has not acknowledged is an error here.
  const Status status = writer_->Close(deadline);
  if (!status.ok()) return Fail(status);
  writer_.reset();
  is_on_server_ = true;
  server_length_ = size_;
  return Status();
}

Status WrittenFile::Truncate(uint64_t size, Deadline deadline) {
  Turn turn(*this, deadline);
  RETURN_IF_ERROR(turn.taken());
  RETURN_IF_ERROR(Usable());
  if (size == size_) return Status();
  modified_ = clock_.WallNow();
  if (is_orphan_) {
    size_ = size;
    return Status();
  }
  if (writer_ != nullptr && size >= window_.start()) {
    window_.Cut(size);
    size_ = size;
    return Status();
  }
  if (writer_ != nullptr) RETURN_IF_ERROR(CommitInTurn(Durability::kVisible, deadline));
  return TruncateClosed(size, deadline);
}

Status WrittenFile::TruncateClosed(uint64_t size, Deadline deadline) {
  if (size > server_length_) {
    RETURN_IF_ERROR(EnsureWriter(server_length_, deadline));
    size_ = size;
    return Status();
  }
  RETURN_IF_ERROR(fs_.Truncate(path(), size, deadline));
  size_ = server_length_ = size;
  window_ = WriteWindow(size);
  return Status();
}

void WrittenFile::SetPath(const std::string& path) {
  MutexLock lock(mutex_);
  path_ = path;
}

void WrittenFile::Orphan() {
  // Whoever sends just now is done within its own deadline.
  Turn turn(*this, Deadline::Infinite());
  is_orphan_ = true;
  DropWriter();
}

}  // namespace paceline::fuse_hdfs
