#include "lib/api/node_probe.h"

#include <algorithm>
#include <cctype>

#include "lib/api/node_probe_fields.h"

namespace paceline::api {

const ProbeMeasure* FindProbeMeasure(std::string_view name) {
  for (const ProbeMeasure& measure : kProbeMeasures) {
    if (measure.name == name) return &measure;
  }
  return nullptr;
}

std::string_view ProbeCheckText(ProbeCheck check) { return EnumText(check); }

std::optional<ProbeCheck> ParseProbeCheck(std::string_view text) {
  const auto is_same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (const auto& [check, name] : EnumTable<ProbeCheck>::kEntries) {
    if (std::equal(name.begin(), name.end(), text.begin(), text.end(), is_same)) return check;
  }
  return std::nullopt;
}

std::string_view ProbeStateText(ProbeState state) { return EnumText(state); }

std::string_view ProbeVerdictText(ProbeVerdict verdict) { return EnumText(verdict); }

}  // namespace paceline::api
