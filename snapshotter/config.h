// Settings of paceline-snapshotter's commands: every flag and configuration key, with its default. The only place of
// the program that reads them.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/registry/registry_exchange.h"
#include "snapshotter/image_mount.h"

namespace paceline::snapshotter {

struct ServeConfig {
  std::string store;
  std::string image;  // digest of the converted image's manifest
  std::string directory;
  bool runs_as_daemon = false;
  bool is_writable = false;
  std::string state_folder = "/run/paceline/images";
  std::string cache_folder;
  ByteSize cache_quota{uint64_t{20} << 30};
  std::string backing = "auto";
  int fetch_threads = 8;
  ByteSize memory{32 << 20};
  Duration read_limit = std::chrono::seconds(30);
  Duration open_limit = std::chrono::seconds(120);
  std::string hot_set;
  std::string log_file;
  std::string hosts_folder = "/etc/containerd/certs.d";
  std::string credentials_file;
  std::vector<std::string> plain_http;
  std::vector<std::string> ca_files;
  bool skips_verification = false;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribeServeConfig(ServeConfig* config);

// What the parts are told.
BackingChoice BackingOf(const ServeConfig& config);
blocks::RegistryOptions RegistryOptionsOf(const ServeConfig& config);
blocks::EngineOptions EngineOptionsOf(const ServeConfig& config);

}  // namespace paceline::snapshotter
