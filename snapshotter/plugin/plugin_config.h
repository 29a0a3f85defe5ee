// Settings of `paceline-snapshotter plugin`: every flag and configuration key, with its default.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "snapshotter/config.h"
#include "snapshotter/connection_keeper.h"
#include "snapshotter/plugin/converted_images.h"

namespace paceline::snapshotter {

struct PluginConfig {
  std::string root = "/var/lib/paceline/snapshotter";
  std::string socket = "/run/paceline/snapshotter/snapshotter.sock";
  std::vector<std::string> stores = {kOwnRepository};
  Duration find_limit = std::chrono::seconds(10);
  std::string backing = "auto";
  FetchConfig fetch;
  blocks::RegistryConfig registry;
  Duration hot_set_window = std::chrono::seconds(120);
  ByteSize hot_set_limit{uint64_t{4} << 30};
  bool shares_hot_sets = true;
  ByteSize fill_below{8 << 20};
  ByteSize read_around{512 << 10};
  std::string peer_certificates;
  std::string peer_address = "0.0.0.0";
  int peer_port = 9466;
  std::string peer_server_name = "paceline-peers";
  int peer_slack_percent = 120;
  int peer_max_requests = 32;
  ByteSize peer_max_rate{256 << 20};
  KeeperConfig keeper;
  bool spawns_keeper = true;
  std::string status_socket = "/run/paceline/snapshotter/status.sock";
  std::string metrics_address = "0.0.0.0";
  int metrics_port = 9465;
  Duration shutdown_grace = std::chrono::seconds(10);
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribePluginConfig(PluginConfig* config);

}  // namespace paceline::snapshotter
