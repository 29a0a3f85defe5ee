#include "lib/blocks/registry/registry_config.h"

#include "lib/base/filesystem.h"

namespace paceline::blocks {
namespace {

constexpr size_t kMaxCredentialBytes = 4 << 20;

}  // namespace

void AddRegistryFields(ConfigSpec& spec, RegistryConfig* config) {
  spec.Add(
      "registry.hostsFolder", &config->hosts_folder,
      "Folder with a folder and a hosts.toml for each registry that has mirrors, as containerd has it. Empty: none.");
  spec.Add(
      "registry.credentials", &config->credentials_file,
      "File with credentials in Docker's form (config.json). Read again when a registry refuses what it held. Empty: "
      "anonymous.");
  spec.Add("registry.plainHttp", &config->plain_http, "Registries (host:port) that are asked without TLS.");
  spec.Add("registry.caFiles", &config->ca_files, "Certificates of authorities that are trusted besides the system's.");
}

std::vector<std::string> RegistryArguments(const RegistryConfig& config) {
  // Empty means none, not the default.
  std::vector<std::string> arguments = {"--registry-hosts-folder", config.hosts_folder};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (!config.credentials_file.empty()) add("--registry-credentials", config.credentials_file);
  for (const std::string& host : config.plain_http) add("--registry-plain-http", host);
  for (const std::string& file : config.ca_files) add("--registry-ca-files", file);
  return arguments;
}

RegistryOptions RegistryOptionsOf(const RegistryConfig& config) {
  RegistryOptions options;
  options.hosts_root = config.hosts_folder;
  options.plain_http = config.plain_http;
  options.ca_files = config.ca_files;
  options.skip_verification = config.skips_verification;
  if (!config.credentials_file.empty()) {
    options.credentials = NewDockerConfigSource(
        [path = config.credentials_file] { return RealFileSystem().ReadFile(path, kMaxCredentialBytes); });
  }
  return options;
}

}  // namespace paceline::blocks
