// The key of a dependency snapshot: everything that decides what an install command would install, as one JSON document
// and its digest. docs/formats/dependency-snapshot.md, section 1.
//
// Called by whoever records or restores, with facts that others have gathered. Pure functions over plain values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/blocks/format/digest.h"

namespace paceline::deps {

inline constexpr int kKeyVersion = 1;
inline constexpr int kRulesVersion = 1;

// A file or directory that the install reads.
struct KeyInput {
  std::string path;
  blocks::Digest digest;
  friend bool operator==(const KeyInput&, const KeyInput&) = default;
};

// What the machine and its image say of themselves.
struct MachineFacts {
  std::string arch;    // "x86_64"
  std::string libc;    // "glibc 2.36"
  std::string system;  // "debian 12"
  std::map<std::string, std::string> interpreters;
  std::string user;  // "UID:GID"
  std::string home, directory;
  std::string umask;  // octal
};

enum class FileTimes { kNormalized, kKept };

struct KeyInputs {
  std::string ns;  // namespace
  int64_t epoch = 0;
  std::string image;
  std::string base;
  MachineFacts machine;
  std::string command;
  std::vector<KeyInput> inputs;
  std::map<std::string, std::string> environment;
  std::vector<std::string> secrets;
  std::vector<std::string> capture, exclude;
  FileTimes times = FileTimes::kNormalized;
};

// The key document; lists are sorted and freed of repetitions.
Json KeyDocument(const KeyInputs& inputs);
// The inputs of which KeyDocument makes exactly this document: from whoever has computed the key to whoever records.
// kInvalidArgument for any other document.
Result<KeyInputs> ParseKeyDocument(const Json& document);
// Its digest: what snapshots are found by.
blocks::Digest KeyOf(const Json& document);

struct KeyDifference {
  std::string field;          // "command", "environment.PIP_INDEX_URL", "inputs./app/requirements.txt"
  std::string recorded, now;  // as text; "-" where a side has no such field
  friend bool operator==(const KeyDifference&, const KeyDifference&) = default;
};

// What tells two key documents apart, sorted by field; empty when they have the same key. Documents of foreign versions
// or with missing fields are compared as far as they go.
std::vector<KeyDifference> ExplainDifference(const Json& recorded, const Json& now);

}  // namespace paceline::deps
