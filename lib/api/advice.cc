#include "lib/api/advice.h"

namespace paceline::api {

std::string Say(const Advice& advice, std::string_view what) {
  std::string text(what);
  if (advice.cost.empty() && advice.action.empty()) return text;
  text += text.empty() ? "(" : " (";
  text += advice.cost;
  if (!advice.cost.empty() && !advice.action.empty()) text += "; ";
  text += advice.action;
  return text + ")";
}

}  // namespace paceline::api
