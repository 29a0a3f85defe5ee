#include "lib/api/meta.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"

namespace paceline::api {

namespace {

constexpr size_t kMaxMessageBytes = 32768;

}  // namespace

std::string JoinErrors(const std::vector<FieldError>& errors, size_t limit) {
  std::string joined;
  for (size_t i = 0; i < std::min(limit, errors.size()); ++i) {
    if (i > 0) joined += "; ";
    joined += errors[i].ToString();
  }
  if (errors.size() > limit) joined += fmt::format("; and {} more", errors.size() - limit);
  return joined;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found =
      std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool IsConditionTrue(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = FindCondition(conditions, type);
  return condition != nullptr && condition->status == ConditionStatus::kTrue;
}

bool SetCondition(std::vector<Condition>& conditions, Condition condition, WallTime now) {
  condition.message = TruncateUtf8(condition.message, kMaxMessageBytes);
  condition.last_transition_time = now;
  const auto found =
      std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == condition.type; });
  if (found == conditions.end()) {
    conditions.push_back(std::move(condition));
    return true;
  }
  if (found->status == condition.status && found->last_transition_time) {
    condition.last_transition_time = found->last_transition_time;
  }
  if (*found == condition) return false;
  *found = std::move(condition);
  return true;
}

}  // namespace paceline::api
