// Settings of paceline-holder: every flag and configuration key, with its default. The only place of the program that
// reads them.
#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"

namespace paceline::holder {

struct HolderConfig {
  std::string state_dir = "/run/paceline/holder";
  std::string socket;
  std::string mount_root = "/var/lib/kubelet/plugins/csi.paceline.dev/mounts";
  std::vector<std::string> programs = {"/usr/bin/paceline-hdfs-mount", "/usr/bin/paceline-snapshotter"};
  std::vector<std::string> environment = {"HADOOP_CONF_DIR",
                                          "HADOOP_USER_NAME",
                                          "HADOOP_TOKEN_FILE_LOCATION",
                                          "KRB5_CONFIG",
                                          "KRB5CCNAME",
                                          "KRB5_CLIENT_KTNAME",
                                          "PACELINE_SNAPSHOTTER_CONTROL",
                                          "PACELINE_SNAPSHOTTER_HOT_SET",
                                          "PACELINE_SNAPSHOTTER_KEEPER"};
  int max_mounts = 256;
  Duration first_restart = std::chrono::seconds(1);
  Duration max_restart = std::chrono::seconds(60);
  Duration stop_limit = std::chrono::seconds(330);
  std::string stop_mounts = "auto";
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribeHolderConfig(HolderConfig* config);

// Fills in what follows from other settings. To be called after parsing.
void CompleteHolderConfig(HolderConfig* config);

}  // namespace paceline::holder
