// The YAML side of configuration: reading a file into fields and printing fields as a file. Used by config.cc only; the
// only place that knows yaml-cpp.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"

namespace paceline {

// Sets `fields` from the YAML in `text`. Appends to `mistakes` one line per mistake, "<name>:<line>: ..."; fields
// without a mistake are set all the same. An empty file is fine.
void ApplyConfigYaml(std::string_view name, const std::string& text, std::deque<ConfigField>& fields,
                     std::vector<std::string>& mistakes);

// All fields with their present values as YAML, each under its doc as a comment, sections in order of first use.
std::string PrintConfigYaml(std::string_view head, const std::deque<ConfigField>& fields);

// The one of `candidates` that `text` is most likely a misspelling of; empty when none is close.
std::string NearestName(std::string_view text, const std::vector<std::string>& candidates);

// `text` cut at blanks into lines of at most `width` characters (longer words stay whole), each after `indent`.
std::string WrapText(std::string_view text, std::string_view indent, size_t width);

}  // namespace paceline
