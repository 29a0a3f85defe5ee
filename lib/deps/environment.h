// Which environment variables an install sees, and which of them decide what it installs: docs/formats/
// dependency-snapshot.md, section 1.3. Pure; called for the key and before the command is run.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::deps {

struct EnvironmentChoice {
  std::vector<std::string> added;    // names whose values count
  std::vector<std::string> secrets;  // names that the install sees and whose values nobody looks at
};

struct InstallEnvironment {
  std::map<std::string, std::string> keyed;  // for the key
  std::vector<std::string> secrets;          // names, sorted
  std::vector<std::string> passed;           // "NAME=value": what the install sees, sorted
};

InstallEnvironment SplitEnvironment(const std::map<std::string, std::string>& all, const EnvironmentChoice& choice);

// The text with user and password taken out of every URL in it.
std::string WithoutUserInfo(std::string_view text);

}  // namespace paceline::deps
