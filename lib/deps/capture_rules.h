// What of an install's leftovers never travels, by its name alone: docs/formats/dependency-snapshot.md, section 4.
// Pure; called for every file of a scan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::deps {

// The sentinel of section 2.2 and the mark of a recording that is under way; neither is ever captured as it lies there.
inline constexpr char kSentinelName[] = ".paceline-dependencies";
inline constexpr char kRecordingName[] = ".paceline-recording";

class CaptureRules {
 public:
  // `exclude`: patterns of the user, in which `*` crosses slashes, as in fnmatch(3) without flags. A rule for a place
  // does not count where a capture directory itself lies in that place: whoever names /tmp/venv means it.
  CaptureRules(std::vector<std::string> exclude, std::vector<std::string> roots)
      : exclude_(std::move(exclude)), roots_(std::move(roots)) {}

  // Why the file at this absolute path stays behind, in one word of section 4; "" when it is captured. `mode` is its
  // st_mode. Whatever is below a directory that is dropped is dropped as well.
  std::string_view DropReason(const std::string& path, uint32_t mode) const;

 private:
  std::vector<std::string> exclude_, roots_;
};

// Whether `pattern` matches all of `path`.
bool MatchesPattern(const std::string& pattern, const std::string& path);

}  // namespace paceline::deps
