// One file being written through the mount, shared by all handles that have it open: bytes come in at any offset and go
// out to an hdfs::Writer in order.
//
// A file is "open" while a Writer exists, "closed" otherwise; a closed file that is written again is appended to, and
// only then is the server asked. Commit makes everything visible under the file's name: at close(2), at fsync(2) and
// whenever something is asked that a stream cannot give (cutting, reading back what was sent).
// docs/decisions/0009-posix-on-streams.md says why.
//
// Thread-safe. Calls that reach the server run one at a time; view() never waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fuse-hdfs/write_window.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/hdfs/file_system.h"

namespace paceline::fuse_hdfs {

struct WriteRules {
  uint64_t holdback_bytes = 4 << 20;  // kept back for rewriting while the file is open
  uint64_t window_bytes = 64 << 20;   // how far ahead of the front a write may land before holes become zeros
  uint64_t budget_bytes = 512 << 20;  // held by all files together; beyond it nothing is kept back
  uint32_t replication = 0;           // of new files; 0: the server's default
  uint64_t block_size_bytes = 0;      // likewise
};

// What Commit waits for: that everybody sees the file, or also that its bytes are on the disks of all replicas.
enum class Durability { kVisible, kOnDisk };

// What all files of a mount hold in memory.
struct WriteBudget {
  std::atomic<uint64_t> held_bytes{0};
};

class WrittenFile {
 public:
  // `fs`, `clock`, `budget` are borrowed. `length` is that of the file on the server; nothing is sent yet.
  WrittenFile(hdfs::FileSystem& fs, const Clock& clock, const WriteRules& rules, WriteBudget& budget, std::string path,
              uint64_t length);
  ~WrittenFile();

  struct View {
    uint64_t size_bytes = 0;
    bool is_open = false;      // a Writer exists: the server does not have it all
    bool is_on_server = true;  // the name exists there already (with older content, if open)
    WallTime modified;         // of the last write; the epoch when there was none
    hdfs::FileMode mode = 0;   // of a file made here
  };
  View view() const EXCLUDES(mutex_);
  std::string path() const EXCLUDES(mutex_);

  // Starts the file anew, empty, as Create and O_TRUNC do. `is_on_server`: a file has the name already and is replaced
  // at the next Commit. Failures are those of FileSystem::Create.
  Status Begin(hdfs::CreateMode create, hdfs::FileMode mode, bool is_on_server, Deadline deadline) EXCLUDES(mutex_);

  // kUnimplemented (EOPNOTSUPP) for bytes before what was sent: HDFS cannot change them. After a failure to send, every
  // call gives that failure again until the file is begun anew or all handles are closed.
  Status Write(uint64_t offset, std::span<const std::byte> data, Deadline deadline) EXCLUDES(mutex_);

  // What only memory has of the file: fills `out` and returns how much of it lies in the file, or nothing when the
  // server has to be asked (after Commit, if is_open).
  std::optional<size_t> Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) EXCLUDES(mutex_);

  // Everything written is acknowledged and visible under the name. Holes become zeros. Nothing to do for a closed file.
  Status Commit(Durability durability, Deadline deadline) EXCLUDES(mutex_);

  // ftruncate. Growing an open file is remembered and costs nothing until Commit.
  Status Truncate(uint64_t size, Deadline deadline) EXCLUDES(mutex_);

  // The file has got another name on the server. Only after Commit.
  void SetPath(const std::string& path) EXCLUDES(mutex_);

  // The name is gone: what is written from now on goes nowhere, and no Commit makes it appear.
  void Orphan() EXCLUDES(mutex_);

 private:
  class Turn;

  Status Usable() const;
  Status EnsureWriter(uint64_t offset, Deadline deadline);
  Status Send(uint64_t keep_bytes, Deadline deadline);
  Status SendZeros(uint64_t count, Deadline deadline);
  Status FillHoleIfFar(uint64_t offset, uint64_t size, Deadline deadline);
  Status CommitInTurn(Durability durability, Deadline deadline);
  Status TruncateClosed(uint64_t size, Deadline deadline);
  Status Fail(Status status);
  void DropWriter();
  void Publish() EXCLUDES(mutex_);
  void Account();

  hdfs::FileSystem& fs_;
  const Clock& clock_;
  const WriteRules rules_;
  WriteBudget& budget_;

  // These belong to whoever has the turn.
  std::unique_ptr<hdfs::Writer> writer_;
  WriteWindow window_;
  uint64_t size_ = 0;           // as programs see it
  uint64_t server_length_ = 0;  // of the closed file
  bool is_on_server_ = true;
  bool is_orphan_ = false;
  hdfs::FileMode mode_ = 0;
  WallTime modified_{};
  Status failure_;
  uint64_t accounted_ = 0;

  mutable Mutex mutex_;
  CondVar turn_ended_;
  bool has_turn_ GUARDED_BY(mutex_) = false;
  std::string path_ GUARDED_BY(mutex_);
  View view_ GUARDED_BY(mutex_);
};

}  // namespace paceline::fuse_hdfs
