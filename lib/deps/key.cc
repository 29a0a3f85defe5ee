#include "lib/deps/key.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace paceline::deps {
namespace {

std::vector<std::string> Sorted(const std::vector<std::string>& list) {
  const std::set<std::string> sorted(list.begin(), list.end());
  return {sorted.begin(), sorted.end()};
}

std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : DumpJson(value); }

// Empty where there are none; what has another form is left out.
std::map<std::string, std::string> TextMap(const Json& document, const char* name) {
  std::map<std::string, std::string> map;
  const auto field = document.find(name);
  if (field == document.end() || !field->is_object()) return map;
  for (const auto& [key, value] : field->items()) {
    if (value.is_string()) map[key] = value.get<std::string>();
  }
  return map;
}

std::vector<std::string> TextList(const Json& document, const char* name) {
  std::vector<std::string> list;
  const auto field = document.find(name);
  if (field == document.end() || !field->is_array()) return list;
  for (const Json& value : *field) {
    if (value.is_string()) list.push_back(value.get<std::string>());
  }
  return list;
}

// Fields to values; what is inside of the environment, the inputs and the interpreters counts as a field of its own.
std::map<std::string, std::string> Flatten(const Json& document) {
  std::map<std::string, std::string> flat;
  if (!document.is_object()) return flat;
  for (const auto& [name, value] : document.items()) {
    if (value.is_object()) {
      for (const auto& [inner, text] : value.items()) flat[name + "." + inner] = Text(text);
    } else if (name == "inputs" && value.is_array()) {
      for (const Json& input : value) {
        flat[name + "." + JsonStringOr(input, "path", "?").value_or("?")] =
            JsonStringOr(input, "digest", "?").value_or("?");
      }
    } else {
      flat[name] = Text(value);
    }
  }
  return flat;
}

}  // namespace

Json KeyDocument(const KeyInputs& inputs) {
  std::map<std::string, std::string> by_path;
  for (const KeyInput& input : inputs.inputs) by_path[input.path] = input.digest.ToString();
  Json files = Json::array();
  for (const auto& [path, digest] : by_path) files.push_back({{"path", path}, {"digest", digest}});
  return {{"keyVersion", kKeyVersion},
          {"rulesVersion", kRulesVersion},
          {"namespace", inputs.ns},
          {"epoch", inputs.epoch},
          {"image", inputs.image},
          {"base", inputs.base},
          {"arch", inputs.machine.arch},
          {"libc", inputs.machine.libc},
          {"system", inputs.machine.system},
          {"interpreters", Json(inputs.machine.interpreters)},
          {"user", inputs.machine.user},
          {"home", inputs.machine.home},
          {"directory", inputs.machine.directory},
          {"umask", inputs.machine.umask},
          {"command", inputs.command},
          {"inputs", std::move(files)},
          {"environment", Json(inputs.environment)},
          {"secrets", Sorted(inputs.secrets)},
          {"capture", Sorted(inputs.capture)},
          {"exclude", Sorted(inputs.exclude)},
          {"times", inputs.times == FileTimes::kNormalized ? "normalized" : "kept"}};
}

Result<KeyInputs> ParseKeyDocument(const Json& document) {
  KeyInputs inputs;
  const Status wrong = InvalidArgumentError("not a key document of this version");
  if (!document.is_object()) return wrong;
  const auto text = [&](const char* name) { return JsonStringOr(document, name, "").value_or(""); };
  inputs.ns = text("namespace");
  inputs.epoch = JsonIntOr(document, "epoch", 0).value_or(0);
  inputs.image = text("image");
  inputs.base = text("base");
  inputs.machine = {text("arch"), text("libc"), text("system"),    TextMap(document, "interpreters"),
                    text("user"), text("home"), text("directory"), text("umask")};
  inputs.command = text("command");
  inputs.environment = TextMap(document, "environment");
  inputs.secrets = TextList(document, "secrets");
  inputs.capture = TextList(document, "capture");
  inputs.exclude = TextList(document, "exclude");
  inputs.times = text("times") == "kept" ? FileTimes::kKept : FileTimes::kNormalized;
  const auto files = document.find("inputs");
  if (files == document.end() || !files->is_array()) return wrong;
  for (const Json& file : *files) {
    const Result<blocks::Digest> digest = blocks::ParseDigest(JsonStringOr(file, "digest", "").value_or(""));
    if (!digest.ok()) return wrong;
    inputs.inputs.push_back({JsonStringOr(file, "path", "").value_or(""), *digest});
  }
  // Whatever was missed above, or is of another version, shows here.
  if (KeyDocument(inputs) != document) return wrong;
  return inputs;
}

blocks::Digest KeyOf(const Json& document) { return blocks::Sha256Of(DumpJson(document)); }

std::vector<KeyDifference> ExplainDifference(const Json& recorded, const Json& now) {
  const std::map<std::string, std::string> before = Flatten(recorded), after = Flatten(now);
  std::set<std::string> fields;
  for (const auto& [field, value] : before) fields.insert(field);
  for (const auto& [field, value] : after) fields.insert(field);
  std::vector<KeyDifference> differences;
  for (const std::string& field : fields) {
    const auto old_value = before.find(field), new_value = after.find(field);
    const bool is_same =
        old_value != before.end() && new_value != after.end() && old_value->second == new_value->second;
    if (is_same) continue;
    differences.push_back({field, old_value == before.end() ? "-" : old_value->second,
                           new_value == after.end() ? "-" : new_value->second});
  }
  return differences;
}

}  // namespace paceline::deps
