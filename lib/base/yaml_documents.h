// Finds where a second YAML document begins, without parsing. Callers: readers of one-document files (configuration,
// plans), which then parse with YAML::Load: YAML::LoadAll of yaml-cpp 0.7 never returns on some damaged texts. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

// The line (from 0) of the "---" that follows content; empty when the text holds at most one document. At the start of
// a line "---" means nothing else in YAML.
std::optional<int> SecondYamlDocument(std::string_view text);

}  // namespace paceline
