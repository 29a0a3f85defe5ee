// The conversations in tests/data/hdfs-wire, captured between Hadoop 3.5.0's own client and daemons: a file is a list
// of parts, each with a title and bytes. For tests of the codecs; not thread-safe.
#pragma once

#include <string>
#include <vector>

namespace paceline::hdfs {

struct CapturePart {
  std::string title;  // "request (102 bytes)"
  std::string bytes;
  bool is_whole = true;  // false: only the first 1,200 bytes of a larger part were kept
};

// An empty list when there is no such file; tests assert that it is not. `name` without folder and ".txt".
std::vector<CapturePart> LoadCapture(const std::string& name);

// Names of all captures that begin with `prefix`, sorted.
std::vector<std::string> CaptureNames(const std::string& prefix);

}  // namespace paceline::hdfs
