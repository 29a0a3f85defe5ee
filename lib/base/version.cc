#include "lib/base/version.h"

namespace paceline {

std::string_view Version() { return PACELINE_VERSION; }

std::string_view Revision() { return PACELINE_REVISION; }

std::string VersionLine(std::string_view program) {
  return std::string(program) + " " + std::string(Version()) + " (" + std::string(Revision()) + ")";
}

}  // namespace paceline
