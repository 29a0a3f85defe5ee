#include "holder/config.h"

#include <fmt/format.h>

namespace paceline::holder {
namespace {

Status CheckPath(std::string_view key, const std::string& path) {
  const bool is_usable = path.size() > 1 && path.front() == '/' && path.back() != '/';
  if (is_usable) return Status();
  return InvalidArgumentError(fmt::format("{}: \"{}\" must be absolute, without a slash at its end", key, path));
}

Status Check(const HolderConfig& config) {
  RETURN_IF_ERROR(CheckPath("stateDir", config.state_dir));
  RETURN_IF_ERROR(CheckPath("mountRoot", config.mount_root));
  if (config.programs.empty()) return InvalidArgumentError("programs: name at least one");
  for (const std::string& program : config.programs) RETURN_IF_ERROR(CheckPath("programs", program));
  if (config.max_restart < config.first_restart) {
    return InvalidArgumentError("restart.max: must not be shorter than restart.first");
  }
  return Status();
}

}  // namespace

ConfigSpec DescribeHolderConfig(HolderConfig* config) {
  ConfigSpec spec("paceline-holder", "Parent of mount processes, so that mounts outlive a restart of the node agent.");
  spec.Add("stateDir", &config->state_dir,
           "Records, credentials and sockets of the mounts. A folder in memory that goes with a reboot, as mounts do.");
  spec.Add("socket", &config->socket, "Where requests come in. Empty: holder.sock in stateDir.");
  spec.Add("mountRoot", &config->mount_root, "Folder below which everything is mounted.");
  spec.Add("programs", &config->programs, "Programs that may be started; nothing else ever is.");
  spec.Add("environment", &config->environment, "Environment variables that a request may set.");
  spec.Add("maxMounts", &config->max_mounts, "Mounts at one time.").Range(1, 4096);
  spec.Add("restart.first", &config->first_restart, "Wait before a mount process that died is started again.")
      .Positive();
  spec.Add("restart.max", &config->max_restart, "The longest such wait; it doubles from death to death.").Positive();
  spec.Add("stopLimit", &config->stop_limit,
           "How long a process may write out what it holds after SIGTERM, before SIGKILL.")
      .Positive();
  spec.Add("stopMounts", &config->stop_mounts,
           "What SIGTERM of the holder means for the mounts: yes, they write out and end, and the next holder starts "
           "them again; no, they stay; auto: yes when this is the first process of a container, since they would be "
           "killed with it.")
      .OneOf({"auto", "yes", "no"});
  spec.Add("log.level", &config->log_level, "Least severe lines that are logged.");
  spec.Add("log.format", &config->log_format, "Form of log lines.");
  spec.AddCheck([config] { return Check(*config); });
  return spec;
}

void CompleteHolderConfig(HolderConfig* config) {
  if (config->socket.empty()) config->socket = config->state_dir + "/holder.sock";
}

}  // namespace paceline::holder
