// Names of the hidden files and folders that a writer makes beside the file it writes: docs/formats/hdfs-parts.md and
// hdfs-striped.md. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"

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

// Whether the writer of `name` is surely dead: the file has not changed for `age`, and `name` is one of ours.
// `modified` is the file's own; a part under construction keeps the time of its creation, so `age` must exceed the time
// that a segment may take. Never so for a folder of stripes, which may be in use for years.
bool IsStalePart(std::string_view name, WallTime modified, WallTime now, Duration age);

}  // namespace paceline::hdfs
