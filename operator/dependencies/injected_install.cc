#include "operator/dependencies/injected_install.h"

#include <nlohmann/json.hpp>

#include "lib/api/names.h"
#include "lib/base/json.h"
#include "lib/base/units.h"

namespace paceline::operator_ {
namespace {

constexpr char kAnswerLimitSeconds[] = "60";
constexpr char kSentinel[] = "/.paceline-dependencies";

// Kubernetes expands $(NAME) in a container's words, and makes one of two dollar signs.
std::string Escaped(const std::string& word) {
  std::string escaped;
  for (const char c : word) escaped += c == '$' ? "$$" : std::string(1, c);
  return escaped;
}

std::vector<std::string> Words(const Json& container, const char* name) {
  return JsonStrings(container, name).value_or(std::vector<std::string>());
}

void Append(std::vector<std::string>* words, const std::vector<std::string>& more) {
  words->insert(words->end(), more.begin(), more.end());
}

std::string Path(std::string_view name) { return std::string(kDependenciesMountPath) + std::string(name); }

}  // namespace

Json VolumeOf(const InjectedInstall& install) {
  return {{"name", kDependenciesVolumeName},
          {"csi", {{"driver", api::kCsiDriver}, {"volumeAttributes", Json(install.attributes)}}}};
}

std::vector<Json> MountsOf(const InjectedInstall& install) {
  std::vector<Json> mounts;
  for (const InstallMount& mount : install.mounts) {
    Json& json = mounts.emplace_back(
        Json{{"name", kDependenciesVolumeName}, {"mountPath", mount.path}, {"subPath", mount.sub_path}});
    if (mount.is_read_only) json["readOnly"] = true;
  }
  return mounts;
}

std::vector<std::string> CommandOf(const Json& container, const ImageFacts* image) {
  std::vector<std::string> words = Words(container, "command");
  const std::vector<std::string> args = Words(container, "args");
  const bool has_own = !words.empty();
  if (!has_own && image != nullptr) {
    for (const std::string& word : image->entrypoint) words.push_back(Escaped(word));
  }
  if (!args.empty()) {
    Append(&words, args);
  } else if (!has_own && image != nullptr) {
    for (const std::string& word : image->command) words.push_back(Escaped(word));
  }
  return words;
}

bool HasOwnCommand(const Json& container) { return !Words(container, "command").empty(); }

InjectedInstall InstallByWrapper(const api::DependencySettings& settings, const std::optional<InstallKey>& key,
                                 const std::string& reason, const std::vector<std::string>& program) {
  InjectedInstall install;
  std::map<std::string, std::string>& attributes = install.attributes;
  attributes["type"] = "deps";
  install.command = {Path("/bin/paceline-deps")};
  install.mounts = {{Path("/bin"), "program", true}, {Path("/run"), "control"}};
  std::vector<std::string>& args = install.args;
  Append(&args, {"--report", Path("/run/report")});
  if (key) {
    const Json document = deps::KeyDocument(key->inputs);
    attributes["key"] = DumpJson(document);
    attributes["capture"] = DumpJson(document["capture"]);
    attributes["pinned"] = key->pinning.is_pinned ? "true" : "false";
    attributes["pinnedReason"] = key->pinning.reason;
    if (settings.ttl && settings.ttl->count() > 0) attributes["ttl"] = FormatDuration(*settings.ttl);
    Append(&args, {"--key", deps::KeyOf(document).Hex(), "--mark"});
    for (const std::string& directory : key->inputs.capture) {
      install.mounts.push_back({directory, "tree" + directory});
      Append(&args, {"--sentinel", Escaped(directory + kSentinel)});
    }
    for (const std::string& name : key->variables) Append(&args, {"--only", name});
    Append(&args,
           {"--answer", Path("/run/answer"), "--answer-limit", kAnswerLimitSeconds, "--started", Path("/run/started")});
  } else {
    attributes["reason"] = reason;
  }
  Append(&args, {"--install", Escaped(settings.install), "--"});
  Append(&args, program);
  return install;
}

InjectedInstall InstallByShell(const api::DependencySettings& settings, const std::vector<std::string>& program) {
  InjectedInstall install;
  install.command = {"/bin/sh", "-c"};
  // In a shell of its own, so that "exit" and "cd" stay in it.
  install.args = {"(" + Escaped(settings.install) + "\n) && exec \"$$@\"", "paceline-deps"};
  Append(&install.args, program);
  return install;
}

}  // namespace paceline::operator_
