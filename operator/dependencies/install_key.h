// The key of a job's dependency snapshot from outside of the container: what the pod's spec, its image and the
// ConfigMaps that it mounts say. docs/formats/dependency-snapshot.md, 1.4. Pure, but for reading ConfigMaps through
// the callback.
//
// Called by the pod webhook for each pod, so all pods of one template get the same key.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/api/job_settings.h"
#include "lib/base/result.h"
#include "lib/deps/install_inputs.h"
#include "lib/deps/key.h"
#include "operator/dependencies/image_facts.h"

namespace paceline::operator_ {

// Contents of a ConfigMap of the pod's namespace, by key.
using ReadConfigMap = std::function<Result<std::map<std::string, std::string>>(const std::string& name)>;

struct InstallKeySources {
  const nlohmann::json& pod;
  const nlohmann::json& container;  // of the pod, which installs
  const api::DependencySettings& settings;
  const ImageFacts& image;
  std::string ns;
  std::string machine;  // as `uname -m` says: "x86_64"
  ReadConfigMap read_config_map;
};

struct InstallKey {
  deps::KeyInputs inputs;
  deps::Pinning pinning;
  std::vector<std::string> variables;  // names that the install sees
};

// kInvalidArgument: not cacheable, with the reason as a sentence.
Result<InstallKey> MakeInstallKey(const InstallKeySources& sources);

// "" when the directories may be mounted over: no directory of the system, none within another or within a volume of
// the container. Else why not. An image's own contents there cannot be seen from here.
std::string WhyNotCaptured(const std::vector<std::string>& capture, const nlohmann::json& container);

// "amd64" -> "x86_64"; "" for an architecture without a name here.
std::string MachineOf(const std::string& architecture);

}  // namespace paceline::operator_
