// Names of the hidden files and folders that a writer makes beside the file it writes: docs/formats/hdfs-parts.md and
// hdfs-striped.md. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/hdfs/file_system.h"

namespace paceline::hdfs {

// Who writes one file: when it started, and a number that no other writer has.
struct WriterId {
  uint32_t start_seconds = 0;  // since 1970
  uint64_t random = 0;
  friend bool operator==(const WriterId&, const WriterId&) = default;
};

WriterId MakeWriterId(const Clock& clock);

// What a hidden name says: of which writer, and which part (nothing: the target before it gets its name), or that it is
// the folder of a finished or growing file's stripes.
struct PartName {
  WriterId writer;
  std::optional<uint32_t> part;
  bool is_stripe_folder = false;
};

// At most 255 bytes: a long `name` is cut in the middle of the result, never the writer's id.
std::string TemporaryName(std::string_view name, const WriterId& writer);
std::string PartFileName(std::string_view name, const WriterId& writer, uint32_t part);
std::string StripeFolderName(std::string_view name, const WriterId& writer);

// Nothing when `name` is no name of ours.
std::optional<PartName> ParsePartName(std::string_view name);

// The hidden files of one writer in one directory.
struct WriterParts {
  WriterId writer;
  std::optional<FileStatus> target;  // what gets the name at the end
  std::vector<FileStatus> parts;
  WallTime changed;  // of the youngest of them, or when the writer started
};
// Of `entries`, what is ours, without folders of stripes: those may be in use for years.
std::vector<WriterParts> GroupByWriter(const std::vector<FileStatus>& entries);

}  // namespace paceline::hdfs
