// A filesystem that checkpoints live on, as the FUSE mount, `pacectl fs` and the tests see it: HDFS spoken natively, or
// a folder of this machine under the same face (file:///), so that everything works without a cluster at hand.
//
// Paths are absolute within the filesystem ("/user/a/ckpt"), without scheme and authority; ParseLocation cuts a URI.
// Every call blocks, at most until its Deadline (kDeadlineExceeded), and no call waits for ever inside. FileSystem and
// Reader are thread-safe; a Writer belongs to one thread at a time. Readers and writers must go before their
// FileSystem. Failures that have an errno of their own carry it: ErrnoOf in posix_error.h gives what a FUSE reply
// needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace paceline::hdfs {

// Permission bits including the sticky bit (07777), as in st_mode without the type.
using FileMode = uint32_t;

struct FileStatus {
  enum class Type { kFile, kDirectory, kSymlink };
  Type type = Type::kFile;
  std::string name;  // the last component; empty for the root
  uint64_t length_bytes = 0;
  FileMode mode = 0;
  std::string owner, group;
  WallTime modified, accessed;
  uint32_t replication = 0;       // 0 for directories
  uint64_t block_size_bytes = 0;  // 0 for directories
  uint64_t file_id = 0;           // stays over a rename; 0 when the server has none
  std::string symlink_target;
  bool is_encrypted = false;      // inside an encryption zone: Open and Create refuse it with kUnimplemented
  bool is_erasure_coded = false;  // Append and Truncate refuse it with kUnimplemented
};

struct ListPage {
  std::vector<FileStatus> entries;  // in order of their names' bytes
  bool has_more = false;            // ask again with start_after = the last name of this page
};

struct Capacity {
  uint64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;  // raw: divide by the replication for what fits
};

// Where one block lies. `hosts` are "address:port" of the DataNodes, nearest first as the server sorts them.
struct BlockLocation {
  uint64_t offset_bytes = 0, length_bytes = 0;
  std::vector<std::string> hosts;
  bool is_corrupt = false;  // no good replica is known
};

struct ByteRange {
  uint64_t offset = 0, length = 0;
};

enum class RenameMode { kFailIfExists, kOverwrite };
enum class RemoveMode { kFileOrEmptyDirectory, kRecursive };
enum class MkdirsMode { kParentMustExist, kMakeParents };
enum class XattrMode { kCreateOrReplace, kCreate, kReplace };
enum class CreateMode { kFailIfExists, kOverwrite };

// Names carry their namespace: "user.paceline.layout", "trusted.x".
using Xattrs = std::vector<std::pair<std::string, std::string>>;

// One open file. Thread-safe: reads at different offsets run beside each other.
class Reader {
 public:
  virtual ~Reader() = default;

  // Length when it was opened; of a file being written, what its writer had flushed by then.
  virtual uint64_t length_bytes() const = 0;

  // Fills `out` from `offset` with bytes whose checksums were verified, and returns how many: less than asked for only
  // at the end of the file, 0 beyond it. A failed replica is replaced by another one inside the call. kDataLoss when
  // every replica is gone or corrupt; kNotFound when the file was deleted and its blocks are gone; `out` is then
  // undefined.
  virtual Result<size_t> Read(uint64_t offset, std::span<std::byte> out, Deadline deadline) = 0;

  // Says that `range` will be read: it is fetched in the background as far as the memory budget goes. Does not block.
  virtual void Prefetch(ByteRange range) = 0;
};

// One file being written, bytes in order. Nothing is visible under the final name before Close has returned ok, except
// after Append. Used by one thread at a time. Destroying it without Close or Abandon abandons.
class Writer {
 public:
  virtual ~Writer() = default;

  // Takes all bytes of `data`, which may go at return. Blocks while too many bytes wait to be sent. After a failure
  // only Abandon makes sense, and every other call gives the first failure again.
  virtual Status Write(std::span<const std::byte> data, Deadline deadline) = 0;

  // Everything written so far is in the memory of all replicas' machines (hflush) or on their disks (hsync).
  virtual Status Flush(Deadline deadline) = 0;
  virtual Status Sync(Deadline deadline) = 0;

  // Completes the file and makes it appear under its name. A failure means that it is not there, or (kDeadlineExceeded,
  // kUnavailable) that the answer was lost.
  virtual Status Close(Deadline deadline) = 0;

  // Removes what has been written, except what Append found. Blocks for a few seconds at most; safe to call twice and
  // after Close, where it does nothing.
  virtual void Abandon() = 0;

  virtual uint64_t position_bytes() const = 0;
};

struct CreateOptions {
  CreateMode mode = CreateMode::kOverwrite;
  FileMode permission = 0644;      // the umask is applied by the caller
  uint32_t replication = 0;        // 0: the server's default
  uint64_t block_size_bytes = 0;   // 0: the server's default
  std::optional<uint64_t> length;  // expected length, when known: a hint for the layout
  // Stopping makes the call of the writer that is under way, and every later one but Abandon, fail with kCancelled
  // soon.
  std::stop_token stop;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // kNotFound when there is none. A symlink is described, not followed.
  virtual Result<FileStatus> Stat(const std::string& path, Deadline deadline) = 0;

  // The entries behind `start_after` (empty: from the start), as many as the server gives at once. kNotFound. Pages are
  // no snapshot: entries may come and go between two calls. Of a file: the file itself.
  virtual Result<ListPage> List(const std::string& path, const std::string& start_after, Deadline deadline) = 0;

  // Ok when the directory is already there. kAlreadyExists (EEXIST) when a file is, kInvalidArgument (ENOTDIR) when one
  // is on the way.
  virtual Status Mkdirs(const std::string& path, FileMode mode, MkdirsMode parents, Deadline deadline) = 0;

  // kNotFound; kAlreadyExists (ENOTEMPTY) for a directory with entries when not recursive.
  virtual Status Remove(const std::string& path, RemoveMode mode, Deadline deadline) = 0;

  // Atomic. Overwriting replaces a file by a file, an empty directory by a directory.
  virtual Status Rename(const std::string& from, const std::string& to, RenameMode mode, Deadline deadline) = 0;

  virtual Status SetMode(const std::string& path, FileMode mode, Deadline deadline) = 0;
  // An empty name leaves that one as it is.
  virtual Status SetOwner(const std::string& path, const std::string& owner, const std::string& group,
                          Deadline deadline) = 0;
  // HDFS keeps milliseconds. Without a value that time stays.
  virtual Status SetTimes(const std::string& path, std::optional<WallTime> modified, std::optional<WallTime> accessed,
                          Deadline deadline) = 0;
  virtual Status SetReplication(const std::string& path, uint32_t replication, Deadline deadline) = 0;

  virtual Result<Xattrs> GetXattrs(const std::string& path, Deadline deadline) = 0;
  virtual Status SetXattr(const std::string& path, const std::string& name, std::string_view value, XattrMode mode,
                          Deadline deadline) = 0;
  // kNotFound (ENODATA) when the attribute is not there.
  virtual Status RemoveXattr(const std::string& path, const std::string& name, Deadline deadline) = 0;

  virtual Result<Capacity> StatCapacity(Deadline deadline) = 0;

  // kNotFound; kInvalidArgument (EISDIR) for a directory; kUnimplemented for encrypted files, and for files of an
  // erasure coding policy that is not known.
  virtual Result<std::unique_ptr<Reader>> Open(const std::string& path, Deadline deadline) = 0;

  // The parent must exist. Fails now rather than at Close for what can be known now: permission, quota, safe mode.
  virtual Result<std::unique_ptr<Writer>> Create(const std::string& path, const CreateOptions& options,
                                                 Deadline deadline) = 0;

  // Goes on at the end of an existing file; its bytes become visible with each Flush. kUnavailable (EBUSY) while
  // another writer holds it.
  virtual Result<std::unique_ptr<Writer>> Append(const std::string& path, Deadline deadline) = 0;

  // Cuts a closed file to `length`, which must not exceed the present one; returns when the file is usable again.
  virtual Status Truncate(const std::string& path, uint64_t length, Deadline deadline) = 0;

  virtual Result<std::vector<BlockLocation>> Locate(const std::string& path, ByteRange range, Deadline deadline) = 0;

  // Removes hidden parts in `directory` that writers left behind when they died. Returns how many. Dead is whose lease
  // has run out, on HDFS a minute after its last sign of life; where all files are complete and no lease tells, whose
  // files have not changed for `quiet`, which must exceed the time that Writer::Close may take.
  virtual Result<size_t> RemoveStaleParts(const std::string& directory, Duration quiet, Deadline deadline) = 0;

  // False for names of parts and temporary files of writers, which a mount hides from its listings.
  virtual bool IsVisibleName(std::string_view name) const = 0;
};

// Whole directory, page after page.
Result<std::vector<FileStatus>> ListAll(FileSystem& fs, const std::string& path, Deadline deadline);

// All bytes of [offset, offset+length), at most `max_bytes`; kResourceExhausted when the file has more.
Result<std::string> ReadWholeFile(FileSystem& fs, const std::string& path, size_t max_bytes, Deadline deadline);

}  // namespace paceline::hdfs
