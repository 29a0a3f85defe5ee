#include "tests/fakes/api_server_select.h"

#include <algorithm>
#include <set>

namespace paceline::fakes {
namespace {

using Json = nlohmann::json;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits at commas outside parentheses.
std::vector<std::string_view> SplitTerms(std::string_view text) {
  std::vector<std::string_view> terms;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (std::string_view term = Trim(text.substr(start, i - start)); !term.empty()) terms.push_back(term);
    start = i + 1;
  }
  return terms;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != separator) continue;
    parts.emplace_back(Trim(text.substr(start, i - start)));
    start = i + 1;
  }
  return parts;
}

// What each resource can be selected by, beside name and namespace.
bool IsSelectable(const kube::Resource& resource, const std::string& field) {
  if (field == "metadata.name" || (field == "metadata.namespace" && resource.is_namespaced)) return true;
  static const std::set<std::string> pod = {"spec.nodeName", "status.phase", "spec.restartPolicy",
                                            "spec.serviceAccountName", "spec.schedulerName"};
  static const std::set<std::string> event = {"involvedObject.kind",
                                              "involvedObject.namespace",
                                              "involvedObject.name",
                                              "involvedObject.uid",
                                              "involvedObject.apiVersion",
                                              "reason",
                                              "type",
                                              "reportingComponent"};
  if (resource == kube::kPods) return pod.count(field) > 0;
  if (resource == kube::kCoreEvents) return event.count(field) > 0;
  if (resource == kube::kNodes) return field == "spec.unschedulable";
  if (resource == kube::kNamespaces) return field == "status.phase";
  if (resource == kube::kSecrets) return field == "type";
  return false;
}

std::string FieldValue(const Json& object, const std::vector<std::string>& path) {
  const Json* at = &object;
  for (const std::string& step : path) {
    if (!at->is_object() || !at->contains(step)) return "";
    at = &(*at)[step];
  }
  return at->is_string() ? at->get<std::string>() : at->dump();
}

}  // namespace

Result<Selector::Requirement> Selector::ParseLabel(std::string_view text) {
  const size_t open = text.find('(');
  if (open != std::string_view::npos) {
    const std::vector<std::string> head = Split(Trim(text.substr(0, open)), ' ');
    if (head.size() != 2 || text.back() != ')' || (head[1] != "in" && head[1] != "notin")) {
      return InvalidArgumentError("unable to parse requirement: " + std::string(text));
    }
    return Requirement{head[0], head[1] == "in" ? Operator::kIn : Operator::kNotIn,
                       Split(text.substr(open + 1, text.size() - open - 2), ',')};
  }
  for (std::string_view sign : {"!=", "==", "="}) {
    const size_t at = text.find(sign);
    if (at == std::string_view::npos) continue;
    return Requirement{std::string(Trim(text.substr(0, at))),
                       sign == "!=" ? Operator::kNotIn : Operator::kIn,
                       {std::string(Trim(text.substr(at + sign.size())))}};
  }
  if (text.find(' ') != std::string_view::npos) {
    return InvalidArgumentError("unable to parse requirement: " + std::string(text));
  }
  if (text.front() == '!') return Requirement{std::string(text.substr(1)), Operator::kNotExists, {}};
  return Requirement{std::string(text), Operator::kExists, {}};
}

Result<Selector> Selector::Parse(const kube::Resource& resource, std::string_view labels, std::string_view fields) {
  Selector selector;
  for (std::string_view term : SplitTerms(labels)) {
    ASSIGN_OR_RETURN(Requirement requirement, ParseLabel(term));
    selector.labels_.push_back(std::move(requirement));
  }
  for (std::string_view term : SplitTerms(fields)) {
    const size_t at = term.find('=');
    if (at == std::string_view::npos) return InvalidArgumentError("invalid field selector: " + std::string(term));
    const bool is_equal = at == 0 || term[at - 1] != '!';
    const std::string field(term.substr(0, is_equal ? at : at - 1));
    std::string_view value = term.substr(at + 1);
    if (!value.empty() && value.front() == '=') value.remove_prefix(1);
    if (!IsSelectable(resource, field)) return InvalidArgumentError("field label not supported: " + field);
    selector.fields_.push_back({Split(field, '.'), std::string(value), is_equal});
  }
  return selector;
}

bool Selector::Matches(const Json& object) const {
  const Json none = Json::object();
  const Json& metadata = object.contains("metadata") ? object["metadata"] : none;
  const Json& labels = metadata.contains("labels") && metadata["labels"].is_object() ? metadata["labels"] : none;
  for (const Requirement& want : labels_) {
    const bool is_there = labels.contains(want.key);
    const bool is_listed = is_there && std::count(want.values.begin(), want.values.end(), labels[want.key]) > 0;
    switch (want.op) {
      case Operator::kIn:
        if (!is_listed) return false;
        break;
      case Operator::kNotIn:
        if (is_listed) return false;
        break;
      case Operator::kExists:
        if (!is_there) return false;
        break;
      case Operator::kNotExists:
        if (is_there) return false;
        break;
    }
  }
  return std::all_of(fields_.begin(), fields_.end(), [&object](const FieldRequirement& want) {
    return (FieldValue(object, want.path) == want.value) == want.is_equal;
  });
}

}  // namespace paceline::fakes
