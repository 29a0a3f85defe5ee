#include "agent/csi/deps_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/deps/tree_checks.h"

namespace paceline::agent {
namespace {

constexpr size_t kMaxDirectories = 64;
constexpr size_t kMaxPathBytes = 1024;
constexpr size_t kMaxKeyBytes = 1U << 20;

Status Wrong(std::string_view attribute, std::string_view why) {
  return InvalidArgumentError(fmt::format("attribute {}: {}", attribute, why));
}

// Absolute and without "", "." and "..": a path that is joined to a folder of ours.
bool IsPlainPath(std::string_view path) {
  if (path.size() < 2 || path.size() > kMaxPathBytes || path.front() != '/') return false;
  for (size_t start = 1; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = end + 1;
  }
  return path.find('\0') == std::string_view::npos;
}

Result<std::vector<std::string>> ReadCapture(const std::string& text) {
  const Result<Json> list = ParseJson(text);
  const bool is_list = list.ok() && list->is_array() && !list->empty() && list->size() <= kMaxDirectories;
  if (!is_list) return Wrong("capture", "must be a JSON list of 1 to 64 directories");
  std::vector<std::string> directories;
  for (const Json& entry : *list) {
    if (!entry.is_string() || !IsPlainPath(entry.get_ref<const std::string&>())) {
      return Wrong("capture", "must hold absolute paths without \".\" and \"..\" parts and without a slash at the end");
    }
    directories.push_back(entry.get<std::string>());
  }
  std::sort(directories.begin(), directories.end());
  for (const std::string& directory : directories) {
    for (const std::string& other : directories) {
      if (&directory != &other && deps::IsBelowRoots(directory, {other})) {
        return Wrong("capture", fmt::format("{} lies in {}", directory, other));
      }
    }
  }
  return directories;
}

Result<deps::KeyInputs> ReadKey(const std::string& text, const VolumeSpec& spec) {
  if (text.size() > kMaxKeyBytes) return Wrong("key", "is larger than 1 MiB");
  const Result<Json> document = ParseJson(text);
  if (!document.ok()) return Wrong("key", document.status().message());
  Result<deps::KeyInputs> key = deps::ParseKeyDocument(*document);
  if (!key.ok()) return Wrong("key", key.status().message());
  // kubelet says whose pod it is; the pod's author says the rest.
  if (key->ns != spec.pod.ns) return Wrong("key", "is of another namespace than the pod");
  if (!key->base.empty()) return Wrong("key", "is of directories that are not empty");
  return key;
}

}  // namespace

Result<DepsOrder> ReadDepsOrder(const VolumeSpec& spec) {
  DepsOrder order;
  if (spec.is_read_only) return InvalidArgumentError("readOnly: dependencies are installed into the volume");
  std::string key;
  for (const auto& [name, value] : spec.attributes) {
    if (name == "capture") {
      ASSIGN_OR_RETURN(order.capture, ReadCapture(value));
    } else if (name == "key") {
      key = value;
    } else if (name == "reason") {
      order.reason = value;
    } else if (name == "pinned") {
      if (value != "true" && value != "false") return Wrong(name, "is neither true nor false");
      order.pinning.is_pinned = value == "true";
    } else if (name == "pinnedReason") {
      order.pinning.reason = value;
    } else if (name == "ttl") {
      const Result<Duration> ttl = ParseDuration(value);
      if (!ttl.ok() || ttl->count() <= 0) return Wrong(name, "must be a duration such as 24h");
      order.ttl = *ttl;
    } else {
      return InvalidArgumentError(fmt::format(
          "unknown attribute \"{}\": a deps volume has type, capture, key, reason, pinned, pinnedReason, ttl", name));
    }
  }
  if (key.empty()) return order;
  ASSIGN_OR_RETURN(order.key, ReadKey(key, spec));
  std::vector<std::string> keyed = order.key->capture;
  if (keyed != order.capture) return Wrong("capture", "names other directories than the key");
  return order;
}

std::string KeyOf(const DepsOrder& order) { return deps::KeyOf(deps::KeyDocument(*order.key)).Hex(); }

}  // namespace paceline::agent
