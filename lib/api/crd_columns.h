// The columns of `kubectl get` for our kinds: what a person wants to see of one object in a line. Internal to lib/api.
#pragma once

#include <string_view>
#include <vector>

namespace paceline::api {

// Priority 1 shows with -o wide only.
struct Column {
  std::string_view name;
  std::string_view type;
  std::string_view path;
  std::string_view doc;
  int priority = 0;
};

// Empty for a kind that is not ours.
std::vector<Column> PrinterColumns(std::string_view kind);

}  // namespace paceline::api
