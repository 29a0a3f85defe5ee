// How a container comes to install before its program: the wrapper in front of its command, and the volume of type
// `deps` that brings the wrapper and holds the directories of a snapshot. docs/formats/dependency-snapshot.md,
// section 6. Pure.
//
// Used by the pod webhook.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/job_settings.h"
#include "operator/dependencies/image_facts.h"
#include "operator/dependencies/install_key.h"

namespace paceline::operator_ {

inline constexpr std::string_view kDependenciesVolumeName = "paceline-dependencies";
inline constexpr std::string_view kDependenciesMountPath = "/run/paceline/dependencies";

// A part of the volume in the container.
struct InstallMount {
  std::string path, sub_path;
  bool is_read_only = false;
};

struct InjectedInstall {
  std::map<std::string, std::string> attributes;  // of the volume; empty: there is none
  std::vector<InstallMount> mounts;
  std::vector<std::string> command, args;
};

// As a pod's spec has them.
nlohmann::json VolumeOf(const InjectedInstall& install);
std::vector<nlohmann::json> MountsOf(const InjectedInstall& install);

// What the container runs, as words for a pod's spec, where "$" is doubled; empty when nobody says. `image` may be
// null.
std::vector<std::string> CommandOf(const nlohmann::json& container, const ImageFacts* image);
// Whether the spec alone says it.
bool HasOwnCommand(const nlohmann::json& container);

// With a key: directories that are restored or recorded. Without: the install alone, and `reason` for the agent's log.
InjectedInstall InstallByWrapper(const api::DependencySettings& settings, const std::optional<InstallKey>& key,
                                 const std::string& reason, const std::vector<std::string>& program);
// Where no volume may be had: by the container's own shell.
InjectedInstall InstallByShell(const api::DependencySettings& settings, const std::vector<std::string>& program);

}  // namespace paceline::operator_
