#include <fmt/format.h>

#include <algorithm>

#include "lib/api/crd.h"

namespace paceline::api {

namespace {

// Text that YAML reads back as the same text without quotes. Narrow on purpose: everything else is quoted as in JSON.
bool IsPlainYaml(const std::string& text) {
  if (text.empty() || text.size() > 100) return false;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || std::string("._/-").find(c) != std::string::npos;
  };
  if (!is_letter(text.front()) || !std::all_of(text.begin(), text.end(), is_plain)) return false;
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (lower == word) return false;
  }
  return true;
}

std::string YamlScalar(const OrderedJson& value) {
  if (value.is_string() && IsPlainYaml(value.get<std::string>())) return value.get<std::string>();
  return value.dump();
}

std::string YamlKey(const std::string& key) { return IsPlainYaml(key) ? key : OrderedJson(key).dump(); }

void AppendYaml(const OrderedJson& value, int indent, std::string& out);

// What follows "key:" or "-": a scalar on the same line, or a block below.
void AppendYamlValue(const OrderedJson& value, int indent, std::string& out) {
  if (value.is_structured() && !value.empty()) {
    out += '\n';
    AppendYaml(value, indent, out);
  } else {
    out += ' ' + (value.is_structured() ? value.dump() : YamlScalar(value)) + '\n';
  }
}

void AppendYaml(const OrderedJson& value, int indent, std::string& out) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end(); ++it) {
      out += margin + YamlKey(it.key()) + ':';
      // Lists stand under their key without further indentation, as kubectl writes them.
      AppendYamlValue(it.value(), it.value().is_array() ? indent : indent + 2, out);
    }
  } else if (value.is_array()) {
    for (const OrderedJson& item : value) {
      std::string block;
      if (item.is_object() && !item.empty()) {
        AppendYaml(item, indent + 2, block);
        block[static_cast<size_t>(indent)] = '-';
        out += block;
      } else {
        out += margin + '-';
        AppendYamlValue(item, indent + 2, out);
      }
    }
  } else {
    out += margin + YamlScalar(value) + '\n';
  }
}

std::string TypeWords(const OrderedJson& schema) {
  if (schema.contains("x-kubernetes-int-or-string")) return "integer or text";
  const std::string type = schema.value("type", "");
  if (schema.contains("enum")) {
    std::string words;
    for (const OrderedJson& entry : schema["enum"]) words += (words.empty() ? "" : ", ") + entry.get<std::string>();
    return "one of " + words;
  }
  if (type == "array") return "list of " + TypeWords(schema["items"]);
  if (type == "object" && schema.contains("additionalProperties")) return "map of text";
  if (type == "string" && schema.value("format", "") == "date-time") return "time";
  if (type == "string") return "text";
  return type;
}

std::string LimitWords(const OrderedJson& schema) {
  std::vector<std::string> words;
  if (schema.contains("minimum") && schema.contains("maximum")) {
    words.push_back(schema["minimum"].dump() + " to " + schema["maximum"].dump());
  } else if (schema.contains("minimum")) {
    words.push_back("at least " + schema["minimum"].dump());
  }
  if (schema.contains("minItems")) words.push_back("at least " + schema["minItems"].dump() + " entry");
  if (schema.contains("maxItems")) words.push_back("at most " + schema["maxItems"].dump() + " entries");
  if (schema.contains("maxProperties")) words.push_back("at most " + schema["maxProperties"].dump() + " entries");
  if (schema.contains("maxLength")) words.push_back("at most " + schema["maxLength"].dump() + " characters");
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

bool IsRequired(const OrderedJson& parent, const std::string& name) {
  if (!parent.contains("required")) return false;
  const OrderedJson& required = parent["required"];
  return std::find(required.begin(), required.end(), name) != required.end();
}

void AppendFields(const OrderedJson& schema, const std::string& prefix, std::string& out) {
  if (!schema.contains("properties")) return;
  for (auto it = schema["properties"].begin(); it != schema["properties"].end(); ++it) {
    const OrderedJson& field = it.value();
    const bool is_list = field.value("type", "") == "array";
    const std::string path = prefix + it.key() + (is_list ? "[]" : "");
    const std::string fallback = IsRequired(schema, it.key())   ? "required"
                                 : !field.contains("default")   ? ""
                                 : field["default"].is_object() ? ""
                                                                : "`" + field["default"].dump() + "`";
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", path, TypeWords(field), fallback, LimitWords(field),
                       field.value("description", ""));
    AppendFields(is_list ? field["items"] : field, path + ".", out);
  }
}

void AppendRules(const OrderedJson& schema, const std::string& path, std::string& out) {
  if (schema.contains("x-kubernetes-validations")) {
    for (const OrderedJson& rule : schema["x-kubernetes-validations"]) {
      const std::string where = path + rule.value("fieldPath", "");
      out += fmt::format("- `{}`: {}\n", where.empty() ? "the object" : where, rule["message"].get<std::string>());
    }
  }
  const OrderedJson& fields = schema.value("type", "") == "array" ? schema["items"] : schema;
  const std::string prefix = schema.value("type", "") == "array" ? path + "[]" : path;
  if (&fields != &schema) return AppendRules(fields, prefix, out);
  if (!schema.contains("properties")) return;
  for (auto it = schema["properties"].begin(); it != schema["properties"].end(); ++it) {
    AppendRules(it.value(), path.empty() ? it.key() : path + "." + it.key(), out);
  }
}

constexpr std::string_view kReferenceHead = R"(# API reference

Group `paceline.dev`, version `v1alpha1`. Written by `paceline-crdgen` from the descriptions in `lib/api/*_fields.h`; edit
those. The API server fills in the defaults and refuses what is outside of the limits and rules.

| kind | plural | short | scope |
| --- | --- | --- | --- |
)";

constexpr std::string_view kAnnotationText = R"(
## Annotations

A job of another kind asks for Paceline by annotations, on the job itself or on its pod template; the template wins key by
key. They are read into the same settings as the fields of `TrainingJob`. A bad annotation is reported as a Warning event
on the job and as the condition `ConfigurationValid` of the run; it counts as absent and the job starts all the same.

| annotation | field of TrainingJob | value |
| --- | --- | --- |
| `paceline.dev/enabled` | | `"true"`: Paceline follows this job. The others have no effect without it |
| `paceline.dev/image-convert` | `spec.startup.image.convert` | `Auto` or `Off` |
| `paceline.dev/image-prefetch` | `spec.startup.image.prefetch` | `"true"` or `"false"` |
| `paceline.dev/dependencies-install` | `spec.startup.dependencies.install` | a shell command |
| `paceline.dev/dependencies-inputs` | `spec.startup.dependencies.inputs` | paths, separated by commas or line ends, or a JSON list of them |
| `paceline.dev/dependencies-capture` | `spec.startup.dependencies.capture` | directories, likewise |
| `paceline.dev/checkpoints` | `spec.checkpoints` | a JSON list of objects with the fields of `spec.checkpoints[]` |
| `paceline.dev/trace` | `spec.tracing.enabled` | `"true"` or `"false"` |
| `paceline.dev/straggler-policy` | `spec.stragglerPolicy` | name of a StragglerPolicy |
)";

}  // namespace

std::string ToYaml(const OrderedJson& value, int indent) {
  std::string out;
  AppendYaml(value, indent, out);
  return out;
}

std::string CrdTemplate(const KindInfo& kind) {
  OrderedJson crd = MakeCrd(kind);
  const std::string name = crd["metadata"]["name"].get<std::string>();
  std::string out = "{{- /* Written by paceline-crdgen from lib/api; edit lib/api/*_fields.h. */ -}}\n";
  out += "{{- if .Values.crds.enabled }}\n";
  out += "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name + "\n";
  out += "  labels:\n    {{- include \"paceline.labels\" . | nindent 4 }}\n";
  out += "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n";
  out += ToYaml(OrderedJson{{"spec", crd["spec"]}});
  return out + "{{- end }}\n";
}

std::string ApiReference() {
  std::string out(kReferenceHead);
  for (const KindInfo& kind : kAllKinds) {
    out += fmt::format("| [{0}](#{1}) | {2} | {3} | {4} |\n", kind.kind, kind.singular, kind.plural, kind.short_name,
                       kind.scope == Scope::kCluster ? "cluster" : "namespaced");
  }
  out += kAnnotationText;
  for (const KindInfo& kind : kAllKinds) {
    const OrderedJson crd = MakeCrd(kind);
    OrderedJson root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    out +=
        fmt::format("\n## {}\n\n{}\n\n| field | type | default | limits | meaning |\n| --- | --- | --- | --- | --- |\n",
                    kind.kind, root["description"].get<std::string>());
    for (const char* part : {"apiVersion", "kind", "metadata"}) root["properties"].erase(part);
    AppendFields(root, "", out);
    std::string rules;
    AppendRules(root, "", rules);
    if (!rules.empty()) out += "\nRules:\n\n" + rules;
  }
  return out;
}

}  // namespace paceline::api
