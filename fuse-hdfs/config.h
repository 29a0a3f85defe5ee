// Settings of paceline-hdfs-mount: every flag and configuration key, with its default. The only place of the program
// that reads them.
#pragma once

#include <string>
#include <vector>

#include "fuse-hdfs/mount_file_system.h"
#include "lib/base/config.h"
#include "lib/fusefs/session.h"
#include "lib/hdfs/open.h"

namespace paceline::fuse_hdfs {

struct MountConfig {
  std::string uri;
  std::string directory;
  bool runs_as_daemon = false;
  std::string log_file;
  std::string pid_file;
  bool is_read_only = false;
  bool creates_directory = false;
  std::string hadoop_config_dir;
  std::string user;
  std::string layout = "plain";
  int stripe_files = 8;
  ByteSize stripe_unit{1 << 20};
  int write_pipelines = 8;
  ByteSize segment_size{32 << 20};
  ByteSize write_budget{512 << 20};
  ByteSize holdback{4 << 20};
  ByteSize window{64 << 20};
  int replication = 0;
  ByteSize block_size{0};
  ByteSize read_budget{512 << 20};
  ByteSize range_size{4 << 20};
  int lanes_per_datanode = 4;
  int fetch_threads = 32;
  ByteSize first_ahead{8 << 20};
  ByteSize max_ahead{128 << 20};
  ByteSize kernel_ahead{4 << 20};
  std::string prefetch_paths;
  Duration prefetch_hold = std::chrono::minutes(10);
  int uid = -1;
  int gid = -1;
  int unknown_uid = 65534;
  int unknown_gid = 65534;
  std::string allow_other = "auto";
  bool kernel_checks = true;
  Duration attribute_lifetime = std::chrono::seconds(1);
  int max_cached = 100000;
  int max_threads = 32;
  int space_replication = 0;
  Duration metadata_limit = std::chrono::seconds(60);
  Duration read_limit = std::chrono::seconds(120);
  Duration write_limit = std::chrono::seconds(120);
  Duration commit_limit = std::chrono::seconds(300);
  std::string control_socket;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribeMountConfig(MountConfig* config);

// "URI DIR" may stand without --uri and --directory in front: returns the same command line with them.
std::vector<std::string> NamePositionals(const ConfigSpec& spec, const std::vector<std::string>& args);

// What the parts of the mount are told. kInvalidArgument names the key or the file.
Result<hdfs::Location> LocationOf(const MountConfig& config);
Result<hdfs::FileSystemOptions> FileSystemOptionsOf(const MountConfig& config, const hdfs::Location& location);
MountRules RulesOf(const MountConfig& config, const hdfs::Location& location, const hdfs::HadoopConfig& hadoop);
fusefs::MountOptions MountOptionsOf(const MountConfig& config);

// The paths of prefetch.paths, each from the mount's root on.
std::vector<std::string> PrefetchPathsOf(const MountConfig& config);
// What a person calls `path`, as the mount's root sees it: "/mnt/step_100" and "step_100" are "/step_100" where /mnt is
// the mount's directory.
std::string PathBelowMount(const MountConfig& config, const std::string& path);

}  // namespace paceline::fuse_hdfs
