#include "lib/base/yaml_documents.h"

namespace paceline {

std::optional<int> SecondYamlDocument(std::string_view text) {
  bool has_content = false;
  for (int number = 0; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.substr(0, 3) == "---") {
      if (has_content) return number;
    } else if (line.find_first_not_of(" \t\r") != std::string_view::npos && line.front() != '#') {
      has_content = true;
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace paceline
