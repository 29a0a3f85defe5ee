#include "lib/api/pod_template.h"

#include <set>

#include "lib/api/field_reader.h"

namespace paceline::api {

namespace {

constexpr int64_t kMaxContainers = 64;

constexpr std::string_view kRestartPolicyWords =
    "must be Never: Paceline restarts the whole gang, see spec.restartPolicy";

// A text at `key` of `object`, or null when it is absent; anything else is an error.
const std::string* OptionalText(ErrorList& errors, const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  if (found->is_string()) return found->get_ptr<const std::string*>();
  FieldPath::Scope scope(errors.path, key);
  errors.Add("must be text, not " + std::string(JsonTypeWords(*found)));
  return nullptr;
}

void CheckContainers(ErrorList& errors, const Json& spec) {
  FieldPath::Scope scope(errors.path, "containers");
  const auto containers = spec.find("containers");
  if (containers == spec.end() || containers->is_null()) return errors.Add("is required");
  if (!containers->is_array()) return errors.Add("must be a list, not " + std::string(JsonTypeWords(*containers)));
  if (containers->empty()) return errors.Add("must have at least one entry");
  CheckSize(errors, {.max_items = kMaxContainers}, containers->size());
  std::set<std::string> names;
  for (size_t i = 0; i < containers->size(); ++i) {
    FieldPath::Scope item_scope(errors.path, i);
    const Json& container = (*containers)[i];
    if (!container.is_object()) {
      errors.Add("must be an object, not " + std::string(JsonTypeWords(container)));
      continue;
    }
    const std::string* name = OptionalText(errors, container, "name");
    FieldPath::Scope name_scope(errors.path, "name");
    if (name == nullptr || name->empty()) {
      errors.Add("is required");
    } else if (!names.insert(*name).second) {
      errors.Add("must differ from the other containers' names");
    }
  }
}

OrderedJson OpenObject(OrderedJson properties) {
  return {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}, {"properties", std::move(properties)}};
}

}  // namespace

OrderedJson PodTemplateSchema() {
  const OrderedJson text_map{{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  OrderedJson container = OpenObject(
      {{"name", {{"type", "string"}, {"minLength", 1}, {"maxLength", 63}}}, {"image", {{"type", "string"}}}});
  container["required"] = OrderedJson::array({"name"});
  OrderedJson spec = OpenObject({{"containers",
                                  {{"type", "array"},
                                   {"minItems", 1},
                                   {"maxItems", kMaxContainers},
                                   {"items", container},
                                   {"x-kubernetes-list-type", "map"},
                                   {"x-kubernetes-list-map-keys", OrderedJson::array({"name"})}}},
                                 {"restartPolicy", {{"type", "string"}}}});
  spec["required"] = OrderedJson::array({"containers"});
  OrderedJson rules = OrderedJson::array();
  rules.push_back({{"rule", "!has(self.restartPolicy) || self.restartPolicy == 'Never'"},
                   {"message", std::string(kRestartPolicyWords)},
                   {"fieldPath", ".restartPolicy"}});
  spec["x-kubernetes-validations"] = std::move(rules);
  OrderedJson metadata = OpenObject({{"labels", text_map}, {"annotations", text_map}});
  OrderedJson schema = OpenObject({{"metadata", metadata}, {"spec", spec}});
  schema["required"] = OrderedJson::array({"spec"});
  return schema;
}

void CheckPodTemplate(ErrorList& errors, const Json& pod_template) {
  FieldPath::Scope scope(errors.path, "spec");
  const auto spec = pod_template.find("spec");
  if (spec == pod_template.end() || spec->is_null()) return errors.Add("is required");
  if (!spec->is_object()) return errors.Add("must be an object, not " + std::string(JsonTypeWords(*spec)));
  CheckContainers(errors, *spec);
  const std::string* restart_policy = OptionalText(errors, *spec, "restartPolicy");
  if (restart_policy != nullptr && *restart_policy != "Never") {
    errors.AddAt(errors.path.text() + ".restartPolicy", std::string(kRestartPolicyWords));
  }
}

}  // namespace paceline::api
