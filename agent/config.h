// Settings of paceline-agent: every flag, configuration key and environment variable, with its default. The only place
// of the agent that reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/log.h"
#include "lib/blocks/registry/registry_config.h"

namespace paceline::agent {

struct AgentConfig {
  std::string node_name;
  std::string kubeconfig;
  std::string plan;
  std::string plan_status = "-";
  std::string kubelet_dir = "/var/lib/kubelet";
  std::string state_dir = "/var/lib/paceline";
  std::string csi_socket;
  std::string holder_socket = "/run/paceline/holder/holder.sock";
  ByteSize hdfs_memory_limit{1ULL << 30};
  Duration hdfs_mount_limit = std::chrono::seconds(60);
  std::string hdfs_file_root;
  std::string registration_socket;
  std::string trace_plugin = "/usr/lib/paceline/libnccl-profiler-paceline.so";
  ByteSize trace_volume_size{256ULL << 20};
  std::string trace_folder;
  std::string dependencies_store;
  std::string dependencies_wrapper = "/usr/bin/paceline-deps";
  Duration dependencies_find_limit = std::chrono::seconds(10);
  Duration dependencies_mount_limit = std::chrono::seconds(30);
  int dependencies_threads = 1;
  std::string dependencies_signing_key;
  std::string dependencies_trusted_keys;
  bool dependencies_require_signatures = false;
  Duration dependencies_collect_period = std::chrono::hours(6);
  Duration dependencies_collect_grace = std::chrono::hours(24);
  blocks::RegistryConfig registry;
  std::string snapshotter_socket = "/run/paceline/snapshotter/status.sock";
  std::string node_address;
  std::string advertise_address;
  std::string host_root;
  std::string containerd_socket = "/run/containerd/containerd.sock";
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string cuda_library = "libcuda.so.1";
  std::string metrics_address = "0.0.0.0";
  int metrics_port = 9464;
  Duration heartbeat = std::chrono::minutes(5);
  Duration facts_period = std::chrono::minutes(10);
  Duration stage_period = std::chrono::seconds(2);
  Duration clean_up_period = std::chrono::minutes(1);
  Duration shutdown_grace = std::chrono::seconds(10);
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;

  // In a cluster the plan is the NodePlan of the node and kubelet is served; with a plan file neither is.
  bool uses_plan_file() const { return !plan.empty(); }
};

// Describes every field of `config`, which must outlive the result.
ConfigSpec DescribeAgentConfig(AgentConfig* config);

// Fills in what follows from other settings: the sockets below kubelet's folder, the node's name from the host's name
// with a plan file. To be called after parsing.
void CompleteAgentConfig(AgentConfig* config);

}  // namespace paceline::agent
