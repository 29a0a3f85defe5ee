// Settings of paceline-snapshotter's commands: every flag and configuration key, with its default. The only place of
// the program that reads them.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/registry/registry_exchange.h"
#include "snapshotter/image_mount.h"

namespace paceline::snapshotter {

// How registries are reached.
struct RegistryConfig {
  std::string hosts_folder = "/etc/containerd/certs.d";
  std::string credentials_file;
  std::vector<std::string> plain_http;
  std::vector<std::string> ca_files;
  bool skips_verification = false;
};

// How chunks are fetched and kept.
struct FetchConfig {
  ByteSize cache_quota{uint64_t{20} << 30};
  int threads = 8;
  ByteSize memory{32 << 20};
  Duration read_limit = std::chrono::seconds(30);
  Duration open_limit = std::chrono::seconds(120);
};

struct ServeConfig {
  std::string store;
  std::string image;  // digest of the converted image's manifest
  std::string directory;
  bool runs_as_daemon = false;
  bool is_writable = false;
  std::string state_folder = "/run/paceline/images";
  std::string cache_folder;
  std::string backing = "auto";
  FetchConfig fetch;
  std::string hot_set;
  std::string log_file;
  RegistryConfig registry;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribeServeConfig(ServeConfig* config);

// Parts that the commands share.
void AddRegistryFields(ConfigSpec& spec, RegistryConfig* config);
void AddFetchFields(ConfigSpec& spec, FetchConfig* config);
void AddBackingField(ConfigSpec& spec, std::string* backing);

// What the parts are told.
BackingChoice BackingOf(const std::string& backing);
blocks::RegistryOptions RegistryOptionsOf(const RegistryConfig& config);
blocks::EngineOptions EngineOptionsOf(const FetchConfig& config);

}  // namespace paceline::snapshotter
