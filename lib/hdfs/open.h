// From a URI to a filesystem: hdfs://host:port, hdfs://nameservice (from hdfs-site.xml), hdfs:/// (fs.defaultFS), or
// file:///. Called by main() of the mount, by `pacectl fs` and by tests. Functions are thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/units.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/hadoop_config.h"

namespace paceline::hdfs {

struct Location {
  std::string scheme;     // "hdfs" or "file"
  std::string authority;  // "host:port", a nameservice, or empty
  std::string path;       // absolute and normalised: no "//", "." or trailing "/"; ".." is refused
};

// "hdfs://nn:8020/a/b", "file:///a", or a bare "/a", which is hdfs:///a. kInvalidArgument says what is wrong.
Result<Location> ParseLocation(std::string_view uri);

enum class WriteLayout {
  kPlain,    // segments in parallel, joined into one ordinary HDFS file
  kSingle,   // one pipeline per file, as stock clients write
  kStriped,  // units dealt over several files, which only Paceline puts together: docs/formats/hdfs-striped.md
};

// "plain", "single" or "striped". kInvalidArgument.
Result<WriteLayout> ParseWriteLayout(std::string_view name);

inline constexpr uint32_t kMaxStripeFiles = 64;

// The defaults are for a mount on a training node.
struct FileSystemOptions {
  HadoopConfig config;               // core-site.xml and hdfs-site.xml; empty is fine for hdfs://host:port and file:///
  std::string user;                  // empty: HADOOP_USER_NAME as `config` read it, else the user of this process
  std::string client_name;           // empty: made, unique per filesystem
  ByteSize read_budget{512 << 20};   // bytes fetched and not yet read, over all open files
  ByteSize write_budget{512 << 20};  // bytes written and not yet safe, over all open files
  ByteSize range_size{4 << 20};      // one request to a DataNode
  int lanes_per_datanode = 4;        // requests in flight to one DataNode
  int fetch_threads = 32;
  WriteLayout layout = WriteLayout::kPlain;
  int write_pipelines = 16;                           // segments of one file in flight, within the budget
  ByteSize segment_size{32 << 20};                    // grows to this from 4 MiB; at most the block size
  uint32_t stripe_files = 8;                          // of a striped file
  ByteSize stripe_unit{1 << 20};                      // bytes that go to one stripe before the next one's turn
  Duration connect_limit = std::chrono::seconds(5);   // to a DataNode
  Duration silence_limit = std::chrono::seconds(15);  // a DataNode that sends nothing is dead
  Duration rpc_limit = std::chrono::seconds(20);      // one try of a NameNode call
};

// Files that were written striped are read whatever options.layout says. Reaches no server yet for hdfs:// when the
// authority is complete; the first call does. `clock` is borrowed and must outlive the filesystem. kInvalidArgument for
// an unknown scheme or nameservice, with the key that is missing.
Result<std::unique_ptr<FileSystem>> OpenFileSystem(const Location& location, const FileSystemOptions& options,
                                                   const Clock& clock);

}  // namespace paceline::hdfs
