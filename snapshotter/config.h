// Settings of paceline-snapshotter's commands: every flag and configuration key, with its default. The only place of
// the program that reads them.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/registry/registry_config.h"
#include "snapshotter/image_mount.h"
#include "snapshotter/mount_hot_set.h"

namespace paceline::snapshotter {

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
  std::string control_socket;
  bool keeps_connection = false;
  std::string cache_folder;
  std::string backing = "auto";
  FetchConfig fetch;
  std::string hot_set;
  std::string hot_set_use = "fetch";
  std::string hot_set_folder = "/var/lib/paceline/hot-sets";
  Duration hot_set_window = std::chrono::seconds(120);
  ByteSize hot_set_limit{uint64_t{4} << 30};
  ByteSize read_around{512 << 10};
  std::string log_file;
  blocks::RegistryConfig registry;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribeServeConfig(ServeConfig* config);

// Parts that the commands share.
void AddRegistryAccess(ConfigSpec& spec, blocks::RegistryConfig* config);
void AddFetchFields(ConfigSpec& spec, FetchConfig* config);
void AddBackingField(ConfigSpec& spec, std::string* backing);

// What the parts are told.
BackingChoice BackingOf(const std::string& backing);
// But for the set that is given.
MountHotSetOptions HotSetOptionsOf(const ServeConfig& config);
blocks::EngineOptions EngineOptionsOf(const FetchConfig& config);

}  // namespace paceline::snapshotter
