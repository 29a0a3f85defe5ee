#include "agent/plan/plan_text.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/yaml_documents.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;
constexpr int kMostNodes = 50'000;  // aliases can make a short text very large

Status ErrorAt(const YAML::Mark& mark, std::string_view what) {
  return InvalidArgumentError(fmt::format("line {}: {}", mark.line + 1, what));
}

// A plain word means what it means in YAML's core schema; a quoted one is text.
json Scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  auto parsed = std::from_chars(text.data(), end, whole);
  if (parsed.ec == std::errc() && parsed.ptr == end) return whole;
  double number = 0;
  auto fraction = std::from_chars(text.data(), end, number);
  if (fraction.ec == std::errc() && fraction.ptr == end && std::isfinite(number)) return number;
  return text;
}

class Converter {
 public:
  Result<json> Convert(const YAML::Node& node, int depth) {
    if (depth > kDeepest) return ErrorAt(node.Mark(), "nested too deep");
    if (++nodes_ > kMostNodes) return ErrorAt(node.Mark(), "too large");
    switch (node.Type()) {
      case YAML::NodeType::Sequence: return Sequence(node, depth);
      case YAML::NodeType::Map: return Map(node, depth);
      case YAML::NodeType::Scalar: return Scalar(node);
      default: return json(nullptr);
    }
  }

 private:
  Result<json> Sequence(const YAML::Node& node, int depth) {
    json array = json::array();
    for (const YAML::Node& item : node) {
      ASSIGN_OR_RETURN(json value, Convert(item, depth + 1));
      array.push_back(std::move(value));
    }
    return array;
  }

  Result<json> Map(const YAML::Node& node, int depth) {
    json object = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return ErrorAt(entry.first.Mark(), "a key must be a word");
      const std::string& key = entry.first.Scalar();
      if (object.contains(key)) return ErrorAt(entry.first.Mark(), fmt::format("\"{}\" is given twice", key));
      ASSIGN_OR_RETURN(json value, Convert(entry.second, depth + 1));
      object[key] = std::move(value);
    }
    return object;
  }

  int nodes_ = 0;
};

}  // namespace

Result<json> ParsePlanText(std::string_view text) {
  if (SecondYamlDocument(text)) return InvalidArgumentError("there is more than one plan in it");
  try {
    // Not LoadAll: yaml-cpp 0.7 never comes back from it for some damaged texts.
    const YAML::Node document = YAML::Load(std::string(text));
    if (!document.IsDefined() || document.IsNull()) return InvalidArgumentError("there is no plan in it");
    return Converter().Convert(document, 0);
  } catch (const YAML::Exception& error) {
    return ErrorAt(error.mark, error.msg);
  }
}

}  // namespace paceline::agent
