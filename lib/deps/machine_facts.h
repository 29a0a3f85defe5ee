// What the key says of the machine: processor, C library, distribution, interpreters, user. docs/formats/
// dependency-snapshot.md, section 1. Called once per record or restore; blocks while interpreters start.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/deps/key.h"

namespace paceline::deps {

// `interpreters` are names of Pythons on the PATH of `environment`. An interpreter that is not there is a fact; one
// that does not answer within 20 s is an error.
Result<MachineFacts> ReadMachineFacts(const std::vector<std::string>& interpreters,
                                      const std::map<std::string, std::string>& environment, const Clock& clock);

// "debian 12" of the text of /etc/os-release; "unknown" without an ID. Pure.
std::string SystemName(std::string_view os_release);

// {2, 36} of "glibc 2.36"; {0, 0} for another libc. Pure.
std::pair<int, int> GlibcVersion(std::string_view libc);

}  // namespace paceline::deps
