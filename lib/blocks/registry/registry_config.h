// How a program reaches registries, as its configuration says: the same keys and flags in every program.
//
// Callers: the configuration of the agent, the operator and paceline-snapshotter. Plain data and pure functions.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/registry/registry_exchange.h"

namespace paceline::blocks {

struct RegistryConfig {
  std::string hosts_folder = "/etc/containerd/certs.d";
  std::string credentials_file;
  std::vector<std::string> plain_http;
  std::vector<std::string> ca_files;
  bool skips_verification = false;  // no field of its own here: few programs offer it
};

// Describes every field of `config`, which must outlive `spec`, below "registry.".
void AddRegistryFields(ConfigSpec& spec, RegistryConfig* config);
// The same as flags, for a program that this one starts.
std::vector<std::string> RegistryArguments(const RegistryConfig& config);
// What the registry client is told. Reads no file: credentials are read when a registry asks for them.
RegistryOptions RegistryOptionsOf(const RegistryConfig& config);

}  // namespace paceline::blocks
