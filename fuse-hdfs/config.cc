#include "fuse-hdfs/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace paceline::fuse_hdfs {
namespace {

void AddPlaceFields(ConfigSpec& spec, MountConfig* config) {
  spec.Add("uri", &config->uri,
           "What is mounted: hdfs://host:port/folder, hdfs://nameservice/folder, hdfs:///folder (fs.defaultFS) or "
           "file:///folder. May be given as the first argument.");
  spec.Add("directory", &config->directory, "Where. May be given as the second argument.");
  spec.Add("daemon", &config->runs_as_daemon, "Go to the background once the mount works.");
  spec.Add("pidFile", &config->pid_file, "Write the process's number there once the mount works.");
  spec.Add("readOnly", &config->is_read_only, "Refuse every change.");
  spec.Add("createDirectory", &config->creates_directory,
           "Make what is mounted, and the directories above it, when it is not there: mode 0755, of the mount's user.");
  spec.Add("hadoop.configDir", &config->hadoop_config_dir,
           "Folder of core-site.xml and hdfs-site.xml. Empty: HADOOP_CONF_DIR, $HADOOP_HOME/etc/hadoop, "
           "/etc/hadoop/conf.");
  spec.Add("hadoop.user", &config->user,
           "HDFS user without Kerberos. Empty: HADOOP_USER_NAME, else the user of this process.");
  spec.Add("control.socket", &config->control_socket,
           "Unix socket that answers stats, metrics, flush, drop-caches, prefetch and log-level. Empty: none.");
}

void AddWriteFields(ConfigSpec& spec, MountConfig* config) {
  spec.Add("writes.layout", &config->layout,
           "plain: segments of a file go out in parallel and are joined to one ordinary HDFS file; single: one "
           "pipeline; striped: small units are dealt over several files, which only Paceline reads.")
      .OneOf({"plain", "single", "striped"});
  spec.Add("writes.stripeFiles", &config->stripe_files, "Files that a striped file is dealt over.")
      .Range(1, hdfs::kMaxStripeFiles);
  spec.Add("writes.stripeUnit", &config->stripe_unit,
           "Bytes that go to one stripe before the next one's turn; 64 KiB to 64 MiB.")
      .Positive();
  spec.Add("writes.pipelines", &config->write_pipelines, "Segments of one file in flight.").Range(1, 64);
  spec.Add("writes.segmentSize", &config->segment_size, "Size that segments grow to; at most the block size.")
      .Positive();
  spec.Add("writes.budget", &config->write_budget, "Bytes written and not yet safe, over all files.").Positive();
  spec.Add("writes.holdback", &config->holdback,
           "Bytes at the end of each file that stay changeable while it is written.");
  spec.Add("writes.window", &config->window, "How far writes may arrive out of order.").Positive();
  spec.Add("writes.replication", &config->replication, "Of new files; 0 is the server's default.").Range(0, 512);
  spec.Add("writes.blockSize", &config->block_size, "Of new files; 0 is the server's default.");
}

void AddReadFields(ConfigSpec& spec, MountConfig* config) {
  spec.Add("reads.budget", &config->read_budget, "Bytes fetched and not yet read, over all files.").Positive();
  spec.Add("reads.rangeSize", &config->range_size, "One request to a DataNode.").Positive();
  spec.Add("reads.lanesPerDatanode", &config->lanes_per_datanode, "Requests in flight to one DataNode.").Range(1, 64);
  spec.Add("reads.threads", &config->fetch_threads, "Threads that fetch.").Range(1, 512);
  spec.Add("reads.firstAhead", &config->first_ahead, "Fetched ahead of a sequential reader at first.").Positive();
  spec.Add("reads.maxAhead", &config->max_ahead, "Fetched ahead at most, for each file; 0 turns it off.");
  spec.Add("reads.kernelAhead", &config->kernel_ahead, "The kernel's read-ahead. Needs root; else 128 KiB.").Positive();
  spec.Add(
      "prefetch.paths", &config->prefetch_paths,
      "Files and directories below the mount's root, separated by commas, that will be read first: they are loaded "
      "as soon as the mount works, up to half of reads.budget.");
  spec.Add("prefetch.hold", &config->prefetch_hold, "How long a loaded file waits for whoever opens it.").Positive();
}

void AddAccessFields(ConfigSpec& spec, MountConfig* config) {
  spec.Add("owners.uid", &config->uid, "Show everything as this user's; -1 maps HDFS's names.").Range(-1, 2147483647.0);
  spec.Add("owners.gid", &config->gid, "Show everything as this group's; -1 maps HDFS's names.")
      .Range(-1, 2147483647.0);
  spec.Add("owners.unknownUid", &config->unknown_uid, "For users that this machine does not know.")
      .Range(0, 2147483647.0);
  spec.Add("owners.unknownGid", &config->unknown_gid, "For groups that this machine does not know.")
      .Range(0, 2147483647.0);
  spec.Add("access.allowOther", &config->allow_other,
           "Other users than the mounting one: yes, no, auto (yes for root).")
      .OneOf({"auto", "yes", "no"});
  spec.Add("access.kernelChecks", &config->kernel_checks,
           "The kernel checks permission by mode and owner, before HDFS does for the mount's user.");
  spec.Add("cache.lifetime", &config->attribute_lifetime,
           "How long attributes and names are believed. Own changes are seen at once.");
  spec.Add("cache.entries", &config->max_cached, "Paths remembered at most.").Range(0, 100000000);
  spec.Add("threads", &config->max_threads, "Requests served at once.").Range(1, 1024);
  spec.Add("spaceReplication", &config->space_replication,
           "statfs divides the cluster's raw space by it; 0: dfs.replication, else 3.")
      .Range(0, 512);
}

void AddLimitFields(ConfigSpec& spec, MountConfig* config) {
  spec.Add("limits.metadata", &config->metadata_limit, "Longest time of a request about names and attributes.")
      .Positive();
  spec.Add("limits.read", &config->read_limit, "Longest time of a read.").Positive();
  spec.Add("limits.write", &config->write_limit, "Longest time of a write.").Positive();
  spec.Add("limits.commit", &config->commit_limit, "Longest time of close, fsync and unmounting.").Positive();
  spec.Add("log.level", &config->log_level, "Least severe lines that are logged.");
  spec.Add("log.format", &config->log_format, "Form of log lines.");
  spec.Add("log.file", &config->log_file, "With daemon: where the log goes. Empty: nowhere.");
}

Status Check(const MountConfig& config) {
  if (config.uri.empty() || config.directory.empty()) {
    return InvalidArgumentError(
        "uri, directory: say what to mount and where: paceline-hdfs-mount hdfs://host:8020/ /mnt");
  }
  if (config.is_read_only && config.creates_directory) {
    return InvalidArgumentError("readOnly, createDirectory: what is only read must be there");
  }
  return LocationOf(config).status();
}

std::string AbsolutePath(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  char here[4096];
  return getcwd(here, sizeof here) == nullptr ? path : fmt::format("{}/{}", here, path);
}

}  // namespace

ConfigSpec DescribeMountConfig(MountConfig* config) {
  ConfigSpec spec("paceline-hdfs-mount", "HDFS, or a folder, as a directory for training jobs.");
  AddPlaceFields(spec, config);
  AddWriteFields(spec, config);
  AddReadFields(spec, config);
  AddAccessFields(spec, config);
  AddLimitFields(spec, config);
  spec.AddCheck([config] { return Check(*config); });
  return spec;
}

std::vector<std::string> NamePositionals(const ConfigSpec& spec, const std::vector<std::string>& args) {
  const auto takes_value = [&spec](const std::string& arg) {
    if (arg == "--config") return true;
    if (arg == "--help" || arg == "--version" || arg == "--print-default-config") return false;
    for (const ConfigField& field : spec.fields()) {
      if (arg == "--" + field.flag()) return !field.is_bool();
    }
    return false;
  };
  static const char* const kNames[] = {"--uri", "--directory"};
  std::vector<std::string> named;
  size_t position = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_positional = !args[i].empty() && args[i].front() != '-';
    if (is_positional && position < std::size(kNames)) named.push_back(kNames[position++]);
    named.push_back(args[i]);
    if (!is_positional && takes_value(args[i]) && i + 1 < args.size()) named.push_back(args[++i]);
  }
  return named;
}

std::vector<std::string> PrefetchPathsOf(const MountConfig& config) {
  std::vector<std::string> paths;
  std::istringstream text(config.prefetch_paths);
  for (std::string path; std::getline(text, path, ',');) {
    if (!path.empty()) paths.push_back(PathBelowMount(config, path));
  }
  return paths;
}

std::string PathBelowMount(const MountConfig& config, const std::string& path) {
  const std::string directory = AbsolutePath(config.directory);
  if (path == directory) return "/";
  if (path.rfind(directory + "/", 0) == 0) return path.substr(directory.size());
  return path.rfind('/', 0) == 0 ? path : "/" + path;
}

Result<hdfs::Location> LocationOf(const MountConfig& config) { return hdfs::ParseLocation(config.uri).Annotate("uri"); }

Result<hdfs::FileSystemOptions> FileSystemOptionsOf(const MountConfig& config, const hdfs::Location& location) {
  hdfs::FileSystemOptions options;
  if (location.scheme != "file") {
    ASSIGN_OR_RETURN(options.config, hdfs::LoadHadoopConfig(config.hadoop_config_dir));
  }
  options.user = config.user;
  options.read_budget = config.read_budget;
  options.write_budget = config.write_budget;
  options.range_size = config.range_size;
  options.lanes_per_datanode = config.lanes_per_datanode;
  options.fetch_threads = config.fetch_threads;
  ASSIGN_OR_RETURN(options.layout, hdfs::ParseWriteLayout(config.layout));
  options.stripe_files = static_cast<uint32_t>(config.stripe_files);
  options.stripe_unit = config.stripe_unit;
  options.write_pipelines = config.write_pipelines;
  options.segment_size = config.segment_size;
  return options;
}

MountRules RulesOf(const MountConfig& config, const hdfs::Location& location, const hdfs::HadoopConfig& hadoop) {
  MountRules rules;
  rules.root = location.path;
  if (config.uid >= 0) rules.owners.uid = static_cast<uint32_t>(config.uid);
  if (config.gid >= 0) rules.owners.gid = static_cast<uint32_t>(config.gid);
  rules.owners.unknown_uid = static_cast<uint32_t>(config.unknown_uid);
  rules.owners.unknown_gid = static_cast<uint32_t>(config.unknown_gid);
  rules.writes.holdback_bytes = config.holdback.bytes;
  rules.writes.window_bytes = config.window.bytes;
  rules.writes.budget_bytes = config.write_budget.bytes;
  rules.writes.replication = static_cast<uint32_t>(config.replication);
  rules.writes.block_size_bytes = config.block_size.bytes;
  rules.read_ahead = {.first_bytes = config.first_ahead.bytes, .max_bytes = config.max_ahead.bytes};
  // The other half is for those who read.
  rules.prefetch.budget_bytes = config.read_budget.bytes / 2;
  rules.prefetch.step_bytes = std::min(rules.prefetch.step_bytes, rules.prefetch.budget_bytes);
  rules.prefetch.hold = config.prefetch_hold;
  // No close takes longer than its limit.
  rules.janitor.quiet = config.commit_limit;
  rules.attribute_lifetime = config.attribute_lifetime;
  rules.max_cached = static_cast<size_t>(config.max_cached);
  rules.metadata_limit = config.metadata_limit;
  rules.read_limit = config.read_limit;
  rules.write_limit = config.write_limit;
  rules.commit_limit = config.commit_limit;
  rules.space_replication = static_cast<uint32_t>(config.space_replication);
  if (config.space_replication == 0) {
    const int64_t usual = hadoop.GetInt("dfs.replication", 3).value_or(3);
    rules.space_replication = location.scheme == "file" ? 1 : static_cast<uint32_t>(usual < 1 ? 1 : usual);
  }
  return rules;
}

fusefs::MountOptions MountOptionsOf(const MountConfig& config) {
  const bool allows_others = config.allow_other == "yes" || (config.allow_other == "auto" && geteuid() == 0);
  return {.directory = AbsolutePath(config.directory),
          .source = config.uri,
          .type = "paceline-hdfs",
          .allows_other_users = allows_others,
          .kernel_checks_permission = config.kernel_checks,
          .is_read_only = config.is_read_only,
          .max_threads = config.max_threads,
          .read_ahead_bytes = static_cast<uint32_t>(config.kernel_ahead.bytes)};
}

}  // namespace paceline::fuse_hdfs
