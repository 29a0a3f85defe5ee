// From two scans of the capture directories to the entries of a snapshot's layer: what the install wrote and removed,
// the directories above it, the sentinels; without bytecode that Python would not use. docs/formats/
// dependency-snapshot.md, sections 2.2 and 4.
//
// Called by the recorder. Blocks for the disk (headers of bytecode, directories above the roots).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/deps/key.h"
#include "lib/deps/tree_scan.h"

namespace paceline::deps {

// 1980-01-01: the first time that zip archives can hold.
inline constexpr int64_t kNormalTime = 315532800;

struct CapturedEntry {
  enum class Kind { kFile, kHardLink, kWhiteout, kSentinel };
  Kind kind = Kind::kFile;        // kFile: of any type that facts.mode says
  std::string path;               // absolute
  FileFacts facts;                // mode, owner and time are those to be stored
  FileFacts found;                // as it was scanned; differs when that changed since
  std::string link_to;            // of a kHardLink: the path of its first name
  std::string content;            // of a kSentinel
  bool gets_source_time = false;  // bytecode whose source has the normal time
};

struct CapturedTree {
  std::vector<CapturedEntry> entries;  // sorted by path
  std::map<std::string, uint64_t> dropped;
  uint64_t files = 0, bytes = 0, removed = 0;
};

enum class Privileges { kDropped, kKept };

struct CaptureOptions {
  std::vector<std::string> roots;
  FileTimes times = FileTimes::kNormalized;
  Privileges privileges = Privileges::kDropped;
  std::string sentinel;  // its content
  TreeView view;
};

Result<CapturedTree> CaptureTree(const TreeScan& before, const TreeScan& after, const CaptureOptions& options);

// The sentinel of section 2.2.
std::string SentinelText(const std::string& key, const std::string& base);
struct Sentinel {
  std::string key, base;
};
// kNotFound when there is none, kDataLoss when it is damaged.
Result<Sentinel> ReadSentinel(const std::string& directory);

}  // namespace paceline::deps
