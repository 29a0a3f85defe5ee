#include "agent/csi/target_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace paceline::agent {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

// One path component made of harmless characters; pod uids, volume names and volume ids all are.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), IsNameCharacter);
}

std::vector<std::string_view> SplitComponents(std::string_view path) {
  std::vector<std::string_view> components;
  while (true) {
    size_t slash = path.find('/');
    components.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return components;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<TargetPath> ParseTargetPath(std::string_view kubelet_dir, std::string_view path) {
  const auto refuse = [&] {
    return InvalidArgumentError(
        fmt::format("target path \"{}\" is not {}/pods/UID/volumes/kubernetes.io~csi/NAME/mount", path, kubelet_dir));
  };
  constexpr size_t kLongest = 4000;  // the kernel takes 4095 with the closing NUL
  if (path.size() > kLongest || path.size() <= kubelet_dir.size() + 1 ||
      path.substr(0, kubelet_dir.size()) != kubelet_dir || path[kubelet_dir.size()] != '/') {
    return refuse();
  }
  std::vector<std::string_view> parts = SplitComponents(path.substr(kubelet_dir.size() + 1));
  if (parts.size() != 6 || parts[0] != "pods" || parts[2] != "volumes" || parts[3] != "kubernetes.io~csi" ||
      parts[5] != "mount" || !IsPlainName(parts[1]) || !IsPlainName(parts[4])) {
    return refuse();
  }
  return TargetPath{std::string(path), std::string(parts[1]), std::string(parts[4])};
}

bool IsValidVolumeId(std::string_view volume_id) { return volume_id.size() <= 128 && IsPlainName(volume_id); }

}  // namespace paceline::agent
