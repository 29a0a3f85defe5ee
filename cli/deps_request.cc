#include "cli/deps_request.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>
#include <utility>

#include "lib/deps/environment.h"
#include "lib/deps/machine_facts.h"
#include "lib/deps/tree_checks.h"

namespace paceline::cli {
namespace {

constexpr char kDefaultNamespace[] = "default";

Result<std::string> ResolveRoot(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(directory, error), error);
  if (error) return InvalidArgumentError("--capture " + directory + ": " + error.message());
  std::string path = resolved.string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode)) {
    return InvalidArgumentError("--capture " + directory + ": it is no directory");
  }
  return path;
}

}  // namespace

void AddStoreArguments(CLI::App& command, DepsArguments* arguments) {
  command
      .add_option("--store", arguments->store, "where snapshots are: file:///FOLDER or docker://REGISTRY/REPOSITORY")
      ->required();
  AddRegistryOptions(command, &arguments->registry);
}

void AddKeyArguments(CLI::App& command, DepsArguments* arguments) {
  command.add_option("--command", arguments->command, "the install, as a shell would be given it")->required();
  command.add_option("--capture", arguments->capture, "a directory that it writes to; repeatable")->required();
  command.add_option("--input", arguments->inputs,
                     "file or directory that decides what is installed (requirements are followed); repeatable");
  command.add_option("--env", arguments->environment, "name of one more variable that decides it; repeatable");
  command.add_option("--secret-env", arguments->secrets,
                     "name of a variable that the install needs and nobody may see; repeatable");
  command.add_option("--exclude", arguments->exclude, "pattern of paths that are not captured; repeatable");
  command.add_option("--image", arguments->image, "digest of the container image's platform manifest");
  command.add_option("--interpreter", arguments->interpreters, "Python whose version counts; repeatable")
      ->capture_default_str();
  command.add_option("--epoch", arguments->epoch, "another number means another snapshot");
  command.add_flag("--keep-times", arguments->keeps_times,
                   "keep the times of files; two installs then never give the same bytes");
  AddStoreArguments(command, arguments);
}

Result<std::vector<std::string>> ResolveRoots(const std::vector<std::string>& directories) {
  std::set<std::string> roots;
  for (const std::string& directory : directories) {
    ASSIGN_OR_RETURN(std::string root, ResolveRoot(directory));
    if (root == "/") return InvalidArgumentError("--capture /: name the directories that the install writes to");
    roots.insert(std::move(root));
  }
  for (const std::string& root : roots) {
    for (const std::string& other : roots) {
      if (root != other && deps::IsBelowRoots(root, {other})) {
        return InvalidArgumentError("--capture " + root + " lies in --capture " + other + ": leave it out");
      }
    }
  }
  return std::vector<std::string>(roots.begin(), roots.end());
}

std::string StoreFolder(const std::string& store_url) {
  constexpr std::string_view kFile = "file://";
  if (store_url.starts_with('/')) return store_url;
  return store_url.starts_with("file:///") ? store_url.substr(kFile.size()) : "";
}

std::string LeaseFolderOf(const std::string& store_url) {
  const std::string folder = StoreFolder(store_url);
  if (!folder.empty()) return folder + "/leases";
  return geteuid() == 0 ? "/run/paceline/deps/leases" : fmt::format("/tmp/paceline-deps-{}/leases", geteuid());
}

std::map<std::string, std::string> ProcessEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

Result<deps::RecordRequest> MakeRequest(const DepsArguments& arguments, const std::string& ns,
                                        const std::map<std::string, std::string>& variables, const Clock& clock) {
  deps::RecordRequest request;
  if (arguments.command.empty()) return InvalidArgumentError("--command is empty");
  if (!arguments.image.empty()) RETURN_IF_ERROR(blocks::ParseDigest(arguments.image).status().Annotate("--image"));
  request.key.ns = ns.empty() ? kDefaultNamespace : ns;
  request.key.epoch = arguments.epoch;
  request.key.image = arguments.image;
  ASSIGN_OR_RETURN(request.key.machine, deps::ReadMachineFacts(arguments.interpreters, variables, clock));
  request.key.command = arguments.command;
  ASSIGN_OR_RETURN(deps::InstallInputs inputs, deps::ReadInputs(arguments.inputs, request.key.machine.directory));
  request.pinning = deps::PinningOf(arguments.command, inputs);
  request.key.inputs = std::move(inputs.inputs);
  deps::InstallEnvironment environment = deps::SplitEnvironment(variables, {arguments.environment, arguments.secrets});
  request.key.environment = std::move(environment.keyed);
  request.key.secrets = std::move(environment.secrets);
  request.environment = std::move(environment.passed);
  ASSIGN_OR_RETURN(request.key.capture, ResolveRoots(arguments.capture));
  request.key.exclude = arguments.exclude;
  request.key.times = arguments.keeps_times ? deps::FileTimes::kKept : deps::FileTimes::kNormalized;
  request.lease_folder = LeaseFolderOf(arguments.store);
  return request;
}

}  // namespace paceline::cli
