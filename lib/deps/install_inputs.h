// What an install command reads beside the package index: requirements files with all that they include, lock files,
// wheels, projects; and whether that names exactly one thing to install. docs/formats/dependency-snapshot.md, 1.1.
//
// Called once per record or restore. ReadInputs blocks for the disk; the rest is pure. Thread-safe: no state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/deps/key.h"

namespace paceline::deps {

// Whether the same command may install something else tomorrow.
struct Pinning {
  bool is_pinned = true;
  std::string reason;  // a sentence: what floats, or why nothing does
};

struct InstallInputs {
  std::vector<KeyInput> inputs;  // sorted by path, includes among them
  Pinning pinning;               // of the requirements in them
};

// `paths` are what the user names; relative ones lie below `directory`. kInvalidArgument for an input that cannot be
// read to the end, and for too many: then the run is not cacheable, and the message says why.
Result<InstallInputs> ReadInputs(const std::vector<std::string>& paths, const std::string& directory);

// One line of a requirements file.
struct Requirement {
  enum class Kind { kNothing, kPackage, kInclude, kLocalPath, kOption };
  Kind kind = Kind::kNothing;
  std::string text;  // the package's line, or the path
  bool is_pinned = true;
};
// Lines that end in a backslash are to be joined before.
Requirement ParseRequirement(std::string_view line);

// Looks at the words of an install command: pinned when it installs from `inputs` alone, all of which are pinned.
Pinning PinningOf(std::string_view command, const InstallInputs& inputs);

// SHA-256 of a file's bytes or of a directory's listing (1.1). kInvalidArgument beyond its limits.
Result<blocks::Digest> DigestOfInput(const std::string& path);

}  // namespace paceline::deps
