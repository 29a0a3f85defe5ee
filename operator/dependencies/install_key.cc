#include "operator/dependencies/install_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/json.h"
#include "lib/deps/environment.h"
#include "lib/deps/tree_checks.h"

namespace paceline::operator_ {
namespace {

constexpr int kMaxIncludes = 16;
// Below these lies what the image brings, or what the machine does.
constexpr std::string_view kSystemPlaces[] = {"/usr",  "/bin", "/sbin", "/lib", "/lib64", "/etc",
                                              "/boot", "/dev", "/proc", "/sys", "/run"};
// These themselves; what is below is the user's.
constexpr std::string_view kSharedPlaces[] = {"/", "/opt", "/home", "/root", "/srv", "/tmp", "/var", "/mnt", "/media"};
// Seen by an install wherever they come from: the runtime sets them.
constexpr std::string_view kRuntimeVariables[] = {"HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG"};

const Json* ListIn(const Json& object, const char* name) {
  const Json* list = FindJson(object, name);
  return list != nullptr && list->is_array() ? list : nullptr;
}

std::string TextIn(const Json& object, const char* path) { return JsonStringOr(object, path, "").value_or(""); }

std::string Join(const std::string& directory, const std::string& path) {
  return std::filesystem::path(path.starts_with('/') ? path : directory + "/" + path).lexically_normal().string();
}

bool LiesIn(const std::string& path, std::string_view place) { return deps::IsBelowRoots(path, {std::string(place)}); }

// A number of the container's securityContext, or of the pod's.
std::string SecurityNumber(const InstallKeySources& sources, const std::string& name) {
  for (const Json* context :
       {FindJson(sources.container, "securityContext"), FindJson(sources.pod, "spec.securityContext")}) {
    if (context == nullptr) continue;
    const Result<int64_t> number = JsonInt(*context, name);
    if (number.ok()) return std::to_string(*number);
  }
  return "";
}

class KeyMaker {
 public:
  explicit KeyMaker(const InstallKeySources& sources) : sources_(sources) {}

  Result<InstallKey> Make() {
    deps::KeyInputs& inputs = key_.inputs;
    inputs.ns = sources_.ns;
    inputs.image = sources_.image.digest;
    // The rest of the machine follows from the image.
    inputs.machine.arch = sources_.machine;
    const std::string user = SecurityNumber(sources_, "runAsUser"), group = SecurityNumber(sources_, "runAsGroup");
    inputs.machine.user = user.empty() ? sources_.image.user : user;
    if (!group.empty()) inputs.machine.user += ":" + group;
    std::string directory = TextIn(sources_.container, "workingDir");
    if (directory.empty()) directory = sources_.image.directory;
    inputs.machine.directory = directory.empty() ? "/" : directory;
    inputs.command = sources_.settings.install;
    inputs.capture = sources_.settings.capture;
    std::sort(inputs.capture.begin(), inputs.capture.end());
    inputs.exclude = sources_.settings.exclude;
    RETURN_IF_ERROR(TakeEnvironment());
    for (const std::string& input : sources_.settings.inputs) {
      RETURN_IF_ERROR(TakeInput(Join(inputs.machine.directory, input), 0));
    }
    deps::InstallInputs read;
    for (const auto& [path, digest] : digests_) read.inputs.push_back({path, digest});
    read.pinning = pinning_;
    key_.pinning = deps::PinningOf(inputs.command, read);
    inputs.inputs = std::move(read.inputs);
    return std::move(key_);
  }

 private:
  Status TakeEnvironment() {
    if (const Json* from = ListIn(sources_.container, "envFrom"); from != nullptr && !from->empty()) {
      return InvalidArgumentError(
          "envFrom brings variables whose names and values are not known before the pod starts");
    }
    std::map<std::string, std::string> all = sources_.image.environment;
    deps::EnvironmentChoice choice{sources_.settings.environment, {}};
    if (const Json* list = ListIn(sources_.container, "env"); list != nullptr) {
      for (const Json& entry : *list) RETURN_IF_ERROR(TakeVariable(entry, &all, &choice));
    }
    for (const std::string_view name : kRuntimeVariables) all.try_emplace(std::string(name), "");
    deps::InstallEnvironment split = deps::SplitEnvironment(all, choice);
    key_.inputs.environment = std::move(split.keyed);
    key_.inputs.secrets = std::move(split.secrets);
    for (const std::string& entry : split.passed) key_.variables.push_back(entry.substr(0, entry.find('=')));
    return Status();
  }

  Status TakeVariable(const Json& entry, std::map<std::string, std::string>* all,
                      deps::EnvironmentChoice* choice) const {
    const std::string name = TextIn(entry, "name"), value = TextIn(entry, "value");
    const Json* from = FindJson(entry, "valueFrom");
    (*all)[name] = value;
    const deps::InstallEnvironment probe = deps::SplitEnvironment({{name, ""}}, {sources_.settings.environment, {}});
    const bool counts = !probe.keyed.empty() || !probe.secrets.empty();
    if (!counts || (from == nullptr && value.find("$(") == std::string::npos)) return Status();
    if (from != nullptr && FindJson(*from, "secretKeyRef") != nullptr) {
      choice->secrets.push_back(name);
      return Status();
    }
    return InvalidArgumentError("the value of " + name + " is not known before the pod starts");
  }

  // The mount of the container that a path lies in; null for the image's own files.
  const Json* MountOf(const std::string& path) const {
    const Json* mounts = ListIn(sources_.container, "volumeMounts");
    const Json* best = nullptr;
    size_t best_size = 0;
    if (mounts == nullptr) return nullptr;
    for (const Json& mount : *mounts) {
      const std::string place = TextIn(mount, "mountPath");
      if (place.empty() || place.size() < best_size || !LiesIn(path, place)) continue;
      best = &mount;
      best_size = place.size();
    }
    return best;
  }

  Status TakeInput(const std::string& path, int depth) {
    if (digests_.contains(path)) return Status();
    if (depth > kMaxIncludes) return InvalidArgumentError(path + " is included through too many files");
    const Json* mount = MountOf(path);
    if (mount == nullptr) {
      // A file of the image, with all that it includes there.
      ASSIGN_OR_RETURN(digests_[path], blocks::ParseDigest(sources_.image.digest));
      pinning_ = {false, path + " is a file of the image, which is not looked into"};
      return Status();
    }
    ASSIGN_OR_RETURN(const std::string text, ReadMounted(path, *mount));
    digests_[path] = blocks::Sha256Of(text);
    const bool is_requirements = path.ends_with(".txt") || path.ends_with(".in");
    return is_requirements ? Follow(path, text, depth) : Status();
  }

  Result<std::string> ReadMounted(const std::string& path, const Json& mount) {
    const std::string volume_name = TextIn(mount, "name"), place = TextIn(mount, "mountPath");
    const Json* volumes = ListIn(sources_.pod, "spec.volumes");
    const Json* map = nullptr;
    for (size_t i = 0; volumes != nullptr && i < volumes->size(); ++i) {
      if (TextIn((*volumes)[i], "name") == volume_name) map = FindJson((*volumes)[i], "configMap");
    }
    if (map == nullptr) {
      return InvalidArgumentError(
          fmt::format("the input {} lies on the volume {}, which is no ConfigMap", path, volume_name));
    }
    std::string file = TextIn(mount, "subPath");
    if (file.empty()) file = path.size() > place.size() ? path.substr(place.size() + 1) : "";
    std::string entry = file;
    if (const Json* items = ListIn(*map, "items"); items != nullptr) {
      entry.clear();
      for (const Json& item : *items) {
        if (TextIn(item, "path") == file) entry = TextIn(item, "key");
      }
    }
    const std::string name = TextIn(*map, "name");
    if (!maps_.contains(name)) {
      Result<std::map<std::string, std::string>> contents = sources_.read_config_map(name);
      if (!contents.ok()) {
        return InvalidArgumentError(
            fmt::format("the input {} cannot be read: ConfigMap {}: {}", path, name, contents.status().message()));
      }
      maps_[name] = *std::move(contents);
    }
    const auto found = maps_[name].find(entry);
    if (found == maps_[name].end()) {
      return InvalidArgumentError(fmt::format("the input {} is not in the ConfigMap {}", path, name));
    }
    return found->second;
  }

  // Paths in a requirements file count from the file.
  Status Follow(const std::string& path, std::string text, int depth) {
    for (size_t at = 0; (at = text.find("\\\n", at)) != std::string::npos;) text.replace(at, 2, " ");
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      const deps::Requirement line = deps::ParseRequirement(std::string_view(text).substr(start, end - start));
      start = end + 1;
      using Kind = deps::Requirement::Kind;
      if (line.kind == Kind::kInclude || line.kind == Kind::kLocalPath) {
        if (line.text.find("://") != std::string::npos) {
          return InvalidArgumentError(path + " includes " + line.text + ", which cannot be looked at");
        }
        RETURN_IF_ERROR(TakeInput(Join(path.substr(0, path.rfind('/')), line.text), depth + 1));
      }
      if (!line.is_pinned && pinning_.is_pinned) {
        pinning_ = {false, fmt::format("{} names {} without a version", path, line.text.substr(0, 100))};
      }
    }
    return Status();
  }

  const InstallKeySources& sources_;
  InstallKey key_;
  deps::Pinning pinning_;
  std::map<std::string, blocks::Digest> digests_;
  std::map<std::string, std::map<std::string, std::string>> maps_;
};

}  // namespace

Result<InstallKey> MakeInstallKey(const InstallKeySources& sources) { return KeyMaker(sources).Make(); }

std::string WhyNotCaptured(const std::vector<std::string>& capture, const Json& container) {
  if (capture.empty()) return "no directories are named (capture)";
  for (const std::string& directory : capture) {
    const bool ends_in_slash = directory.size() > 1 && directory.ends_with('/');
    if (!directory.starts_with('/') || ends_in_slash || Join("/", directory) != directory) {
      return directory + " is no plain absolute path without a slash at its end";
    }
    for (const std::string_view place : kSystemPlaces) {
      if (LiesIn(directory, place)) return fmt::format("{} lies in {}, which the image brings", directory, place);
    }
    for (const std::string_view place : kSharedPlaces) {
      if (directory == place) return directory + " holds more than an install makes";
    }
    for (const std::string& other : capture) {
      if (&other != &directory && LiesIn(directory, other)) return fmt::format("{} lies in {}", directory, other);
    }
    const Json* mounts = ListIn(container, "volumeMounts");
    for (size_t i = 0; mounts != nullptr && i < mounts->size(); ++i) {
      const std::string place = TextIn((*mounts)[i], "mountPath");
      if (!place.empty() && LiesIn(directory, place)) {
        return fmt::format("{} lies on the volume {}", directory, TextIn((*mounts)[i], "name"));
      }
    }
  }
  return "";
}

std::string MachineOf(const std::string& architecture) {
  if (architecture == "amd64") return "x86_64";
  if (architecture == "arm64") return "aarch64";
  return "";
}

}  // namespace paceline::operator_
