#include "tests/fakes/api_server_patch.h"

#include <algorithm>

namespace paceline::fakes {
namespace {

// The key by which the elements of a list are told apart; "" for sets of plain values, null for lists that are replaced
// whole.
const char* MergeKeyOf(const std::string& field) {
  static const std::map<std::string, const char*> keys = {
      {"conditions", "type"},     {"containers", "name"}, {"initContainers", "name"},
      {"volumes", "name"},        {"env", "name"},        {"webhooks", "name"},
      {"ownerReferences", "uid"}, {"finalizers", ""},     {"volumeMounts", "mountPath"},
  };
  auto it = keys.find(field);
  return it == keys.end() ? nullptr : it->second;
}

bool HasKey(const Json& element, const std::string& key) { return element.is_object() && element.contains(key); }

Json* FindElement(Json& list, const std::string& key, const Json& element) {
  for (Json& candidate : list) {
    if (key.empty() ? candidate == element
                    : HasKey(candidate, key) && HasKey(element, key) && candidate[key] == element.at(key)) {
      return &candidate;
    }
  }
  return nullptr;
}

// ".spec.containers[name=main].image" as steps: "spec", "containers", "=\"main\"", "image".
std::string ElementStep(const std::string& key, const Json& element) {
  return "=" + (key.empty() ? element : element.at(key)).dump();
}

void Flatten(const Json& value, const FieldPath& path, std::map<FieldPath, Json>& leaves);

void FlattenList(const Json& list, const std::string& key, const FieldPath& path, std::map<FieldPath, Json>& leaves) {
  for (const Json& element : list) {
    FieldPath below = path;
    below.push_back(ElementStep(key, element));
    if (key.empty()) {
      leaves[below] = element;
    } else {
      Flatten(element, below, leaves);
    }
  }
}

bool IsKeyed(const Json& list, const char* key) {
  if (key == nullptr || !list.is_array()) return false;
  return *key == '\0' || std::all_of(list.begin(), list.end(), [key](const Json& e) { return HasKey(e, key); });
}

void Flatten(const Json& value, const FieldPath& path, std::map<FieldPath, Json>& leaves) {
  const char* key = path.empty() ? nullptr : MergeKeyOf(path.back());
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, member] : value.items()) {
      FieldPath below = path;
      below.push_back(name);
      Flatten(member, below, leaves);
    }
  } else if (IsKeyed(value, key) && !value.empty()) {
    FlattenList(value, key, path, leaves);
  } else {
    leaves[path] = value;
  }
}

// Fields that nobody owns: identity and what the server keeps.
bool IsOwnable(const FieldPath& path) {
  if (path.empty() || path[0] == "apiVersion" || path[0] == "kind") return false;
  if (path[0] != "metadata") return true;
  if (path.size() < 2) return false;
  return path[1] == "labels" || path[1] == "annotations" || path[1] == "finalizers" || path[1] == "ownerReferences";
}

std::map<FieldPath, Json> OwnableLeaves(const Json& object) {
  std::map<FieldPath, Json> leaves;
  Flatten(object, {}, leaves);
  for (auto it = leaves.begin(); it != leaves.end();) it = IsOwnable(it->first) ? std::next(it) : leaves.erase(it);
  return leaves;
}

std::string Display(const FieldPath& path) {
  std::string text;
  for (const std::string& step : path) text += step[0] == '=' ? "[" + step.substr(1) + "]" : "." + step;
  return text;
}

void MergeApplied(Json& live, const Json& fields, const std::string& name) {
  const char* key = MergeKeyOf(name);
  if (fields.is_object() && live.is_object()) {
    for (const auto& [member, value] : fields.items()) {
      if (live.contains(member)) {
        MergeApplied(live[member], value, member);
      } else {
        live[member] = value;
      }
    }
  } else if (IsKeyed(fields, key) && live.is_array()) {
    for (const Json& element : fields) {
      Json* found = FindElement(live, key, element);
      if (found == nullptr) {
        live.push_back(element);
      } else {
        MergeApplied(*found, element, "");
      }
    }
  } else {
    live = fields;
  }
}

// Removes the leaf at path[at...] and the containers that it leaves empty.
void RemoveLeaf(Json& value, const FieldPath& path, size_t at) {
  const std::string& step = path[at];
  const bool is_last = at + 1 == path.size();
  if (step[0] == '=') {
    const std::string& list_name = path[at - 1];
    const std::string key = MergeKeyOf(list_name);
    for (size_t i = 0; i < value.size(); ++i) {
      if (!key.empty() && !HasKey(value[i], key)) continue;
      if (ElementStep(key, value[i]) != step) continue;
      if (!is_last) RemoveLeaf(value[i], path, at + 1);
      if (is_last || value[i].empty()) value.erase(i);
      return;
    }
    return;
  }
  if (!value.is_object() || !value.contains(step)) return;
  if (!is_last) RemoveLeaf(value[step], path, at + 1);
  if (is_last || value[step].empty()) value.erase(step);
}

bool IsOwnedByOther(const Ownership& owned, const std::string& manager, const FieldPath& path) {
  return std::any_of(owned.begin(), owned.end(),
                     [&](const auto& entry) { return entry.first != manager && entry.second.count(path) > 0; });
}

}  // namespace

void MergePatch(Json& target, const Json& patch) { target.merge_patch(patch); }

Result<Json> JsonPatch(const Json& target, const Json& patch) {
  try {
    return target.patch(patch);
  } catch (const Json::exception& e) {
    return InvalidArgumentError(e.what());
  }
}

void StrategicMergePatch(Json& target, const Json& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = Json::object();
  for (const auto& [name, value] : patch.items()) {
    if (name.rfind("$setElementOrder", 0) == 0) continue;
    const char* key = MergeKeyOf(name);
    if (value.is_null()) {
      target.erase(name);
    } else if (IsKeyed(value, key) && *key != '\0' && target.contains(name)) {
      for (const Json& element : value) {
        Json* found = FindElement(target[name], key, element);
        const bool is_delete = element.value("$patch", "") == "delete";
        if (is_delete && found != nullptr) target[name].erase(found - &target[name][0]);
        if (is_delete) continue;
        if (found != nullptr) {
          StrategicMergePatch(*found, element);
        } else {
          target[name].push_back(element);
        }
      }
    } else if (value.is_object()) {
      StrategicMergePatch(target[name], value);
    } else {
      target[name] = value;
    }
  }
}

std::vector<ApplyConflict> ServerSideApply(Json& live, const Json& fields, const std::string& manager, bool force,
                                           Ownership& owned) {
  const std::map<FieldPath, Json> live_leaves = OwnableLeaves(live);
  const std::map<FieldPath, Json> wanted = OwnableLeaves(fields);
  std::vector<ApplyConflict> conflicts;
  for (const auto& [path, value] : wanted) {
    auto now = live_leaves.find(path);
    if (now != live_leaves.end() && now->second == value) continue;
    for (auto& [other, paths] : owned) {
      if (other == manager || paths.count(path) == 0) continue;
      if (force) {
        paths.erase(path);
      } else {
        conflicts.push_back({other, Display(path)});
      }
    }
  }
  if (!conflicts.empty()) return conflicts;
  MergeApplied(live, fields, "");
  std::set<FieldPath> now_owned;
  for (const auto& [path, value] : wanted) now_owned.insert(path);
  for (const FieldPath& path : owned[manager]) {
    // What was an empty object and has got fields is no leaf any more, but still wanted.
    const bool has_fields_now = std::any_of(now_owned.begin(), now_owned.end(), [&](const FieldPath& wanted_path) {
      return wanted_path.size() > path.size() && std::equal(path.begin(), path.end(), wanted_path.begin());
    });
    if (has_fields_now || now_owned.count(path) > 0 || IsOwnedByOther(owned, manager, path)) continue;
    RemoveLeaf(live, path, 0);
  }
  owned[manager] = std::move(now_owned);
  return {};
}

void TakeChangedFields(const Json& before, const Json& after, const std::string& manager, Ownership& owned) {
  const std::map<FieldPath, Json> old_leaves = OwnableLeaves(before);
  const std::map<FieldPath, Json> new_leaves = OwnableLeaves(after);
  for (const auto& [path, value] : old_leaves) {
    if (new_leaves.count(path) > 0) continue;
    for (auto& [other, paths] : owned) paths.erase(path);
  }
  for (const auto& [path, value] : new_leaves) {
    auto old = old_leaves.find(path);
    if (old != old_leaves.end() && old->second == value) continue;
    for (auto& [other, paths] : owned) paths.erase(path);
    owned[manager].insert(path);
  }
}

}  // namespace paceline::fakes
