// Which Paceline this is. Set at configure time; a source archive without git gives the revision "unknown" unless
// -DPACELINE_REVISION=... says it.
#pragma once

#include <string>
#include <string_view>

namespace paceline {

std::string_view Version();   // "0.1.0"
std::string_view Revision();  // abbreviated git commit, or "unknown"

// "<program> 0.1.0 (abc123)", for --version.
std::string VersionLine(std::string_view program);

}  // namespace paceline
