#include "lib/api/field_writer.h"

#include <algorithm>
#include <set>

#include "lib/api/field_checker.h"

namespace paceline::api {

Json WriteText(const FieldSpec& spec, const std::string& text) {
  const bool is_number = !text.empty() && text.size() <= 18 && (text.size() == 1 || text.front() != '0') &&
                         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (spec.format != TextFormat::kPlain && is_number) return std::stoll(text);
  return ReplaceInvalidUtf8(text);
}

void CheckUnique(ErrorList& errors, const FieldSpec& spec, const Json& list) {
  std::set<Json> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    Json key = list[i];
    FieldPath::Scope scope(errors.path, i);
    if (spec.list == ListType::kMap) {
      const auto found = list[i].find(spec.list_key);
      if (found == list[i].end()) continue;  // reported as required
      key = *found;
    }
    if (seen.insert(key).second) continue;
    const std::string where = spec.list == ListType::kMap ? "." + std::string(spec.list_key) : "";
    errors.AddAt(errors.path.text() + where, "must not repeat " + key.dump());
  }
}

}  // namespace paceline::api
