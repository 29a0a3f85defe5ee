#include "lib/hdfs/file_system.h"

#include <algorithm>

#include "lib/hdfs/posix_error.h"

namespace paceline::hdfs {

Result<std::vector<FileStatus>> ListAll(FileSystem& fs, const std::string& path, Deadline deadline) {
  std::vector<FileStatus> all;
  std::string start_after;
  while (true) {
    ASSIGN_OR_RETURN(ListPage page, fs.List(path, start_after, deadline));
    std::move(page.entries.begin(), page.entries.end(), std::back_inserter(all));
    if (!page.has_more || all.empty()) return all;
    // A server that does not move on would keep us here for ever.
    if (all.back().name == start_after) return InternalError("list " + path + ": the same page twice");
    start_after = all.back().name;
  }
}

Result<std::string> ReadWholeFile(FileSystem& fs, const std::string& path, size_t max_bytes, Deadline deadline) {
  ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, fs.Open(path, deadline));
  if (reader->length_bytes() > max_bytes) return PosixError(EFBIG, path + ": larger than allowed here");
  std::string bytes(reader->length_bytes(), '\0');
  ASSIGN_OR_RETURN(const size_t got, reader->Read(0, std::as_writable_bytes(std::span(bytes)), deadline));
  bytes.resize(got);
  return bytes;
}

}  // namespace paceline::hdfs
