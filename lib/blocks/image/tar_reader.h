// Reads a tar stream entry by entry, as container layers are written by all kinds of tools: ustar, PAX, GNU and star
// headers, long names, sparse files of every form, extended attributes, numbers in base 256. Bounded memory, whatever
// the stream says.
//
// Called by the layer converter, and to find files in an image archive. One thread at a time; blocks with its source.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/blocks/image/byte_source.h"

namespace paceline::blocks {

struct TarEntry {
  enum class Type { kFile, kHardLink, kSymlink, kCharDevice, kBlockDevice, kDirectory, kFifo };
  // A stretch of a sparse file that is stored; between them are zeros.
  struct Extent {
    uint64_t offset_bytes = 0, size_bytes = 0;
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  Type type = Type::kFile;
  std::string name;         // as written: may begin with "./" or "/", end with "/", contain ".."
  std::string link_target;  // of links, as written
  uint32_t mode = 0;        // permission bits, 07777
  uint32_t uid = 0, gid = 0;
  int64_t mtime_s = 0;
  uint32_t mtime_ns = 0;
  uint32_t device_major = 0, device_minor = 0;
  uint64_t size_bytes = 0;                    // of a kFile, holes counted; 0 for all else
  bool is_sparse = false;                     // then extents say what is stored, else all is
  std::vector<Extent> extents;                // ascending, not overlapping, inside size_bytes
  std::map<std::string, std::string> xattrs;  // full names: "security.capability"
};

class TarReader {
 public:
  // Borrows `source`, which must not be used by anybody else until the end.
  explicit TarReader(ByteSource& source) : source_(source), block_(kBlockBytes, '\0') {}

  // The next entry; false at the end of the archive. Skips what was not read of the entry before. kDataLoss for a
  // stream that is damaged or cut short, kUnimplemented for an entry of a kind that no layer may hold (multi-volume
  // archives, unknown types), kInvalidArgument for values out of range.
  Result<bool> Next(TarEntry* entry);

  // Stored bytes of the entry, extent after extent without the holes between. 0 at their end.
  Result<size_t> Read(std::span<char> out);

  // Where in the stream the stored bytes of the entry begin, for readers that come back for them.
  uint64_t data_offset_bytes() const { return data_offset_; }
  uint64_t stored_bytes() const { return stored_; }

  // After Next said false: reads what the stream still holds (padding), so that its digest is that of all of it.
  Status Drain();

 private:
  static constexpr size_t kBlockBytes = 512;
  using Records = std::vector<std::pair<std::string, std::string>>;  // of a PAX header, in order

  Result<bool> ReadBlock();  // false at the end of the stream
  Result<std::string> ReadBody(uint64_t size_bytes, const char* what);
  Status Skip(uint64_t size_bytes);
  Result<bool> NextHeader();
  Status TakeExtension(char type, Records* local);
  Status FillEntry(const Records& local, TarEntry* entry);
  Status ReadOldSparse(TarEntry* entry);
  Status ApplySparseRecords(const Records& local, TarEntry* entry);
  Status ReadSparseMap(TarEntry* entry);

  ByteSource& source_;
  std::string block_;
  uint64_t position_ = 0;
  uint64_t data_offset_ = 0, stored_ = 0;
  uint64_t left_ = 0;     // stored bytes that nobody has read
  uint64_t padding_ = 0;  // behind them
  std::string long_name_, long_link_;
};

}  // namespace paceline::blocks
