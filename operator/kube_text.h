// Labels and annotations of cached objects as the map that lib/api works on. Pure.
#pragma once

#include <map>
#include <string>

#include "lib/kube/views.h"

namespace paceline::operator_ {

inline std::map<std::string, std::string> ToTextMap(const kube::StringMap& map) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : map) out.emplace(key.str(), value.str());
  return out;
}

}  // namespace paceline::operator_
