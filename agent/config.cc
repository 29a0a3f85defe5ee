#include "agent/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lib/api/names.h"

namespace paceline::agent {
namespace {

Status CheckFolder(std::string_view key, const std::string& path) {
  const bool is_usable = path.size() > 1 && path.front() == '/' && path.back() != '/';
  if (is_usable) return Status();
  return InvalidArgumentError(fmt::format("{}: \"{}\" must be absolute, without a slash at its end", key, path));
}

Status Check(const AgentConfig& config) {
  if (config.node_name.empty() && !config.uses_plan_file()) {
    return InvalidArgumentError("nodeName: set it (or NODE_NAME) to the name of this node in Kubernetes");
  }
  if (config.uses_plan_file() && !config.kubeconfig.empty()) {
    return InvalidArgumentError("plan, kubeconfig: with a plan file no cluster is used; give one of the two");
  }
  RETURN_IF_ERROR(CheckFolder("kubeletDir", config.kubelet_dir));
  RETURN_IF_ERROR(CheckFolder("stateDir", config.state_dir));
  RETURN_IF_ERROR(CheckFolder("holder.socket", config.holder_socket));
  if (!config.hdfs_file_root.empty()) RETURN_IF_ERROR(CheckFolder("hdfs.fileRoot", config.hdfs_file_root));
  if (!config.trace_folder.empty()) RETURN_IF_ERROR(CheckFolder("trace.folder", config.trace_folder));
  RETURN_IF_ERROR(CheckFolder("dependencies.wrapper", config.dependencies_wrapper));
  const bool has_keys = !config.dependencies_signing_key.empty() || !config.dependencies_trusted_keys.empty();
  if (config.dependencies_require_signatures && !has_keys) {
    return InvalidArgumentError(
        "dependencies.requireSignatures: set dependencies.signingKey or dependencies.trustedKeys as well");
  }
  if (!config.host_root.empty()) RETURN_IF_ERROR(CheckFolder("hostRoot", config.host_root));
  return Status();
}

void AddNodeFields(ConfigSpec& spec, AgentConfig* config) {
  spec.Add("nodeName", &config->node_name, "Name of this node in Kubernetes.").Env("NODE_NAME");
  spec.Add("kubeconfig", &config->kubeconfig,
           "Kubeconfig file. Empty: $KUBECONFIG, ~/.kube/config, or the pod's service account.");
  spec.Add("plan", &config->plan,
           "A NodePlan as YAML or JSON to follow instead of a cluster's, for bare metal. No volumes are served then.");
  spec.Add("planStatus", &config->plan_status, "Where the status goes with a plan file; \"-\" is stdout.");
  spec.Add("kubeletDir", &config->kubelet_dir, "Kubelet's folder (its --root-dir), as seen from here.");
  spec.Add("stateDir", &config->state_dir,
           "Where the agent keeps its records and the contents of Disk scratch volumes. Must outlive a reboot.");
  spec.Add("csi.socket", &config->csi_socket, "Socket of the CSI driver. Empty: below kubeletDir.");
  spec.Add("csi.registrationSocket", &config->registration_socket,
           "Socket where kubelet finds the driver. Empty: below kubeletDir.");
}

void AddHdfsFields(ConfigSpec& spec, AgentConfig* config) {
  spec.Add("holder.socket", &config->holder_socket,
           "Socket of paceline-holder, which runs the mounts of hdfs volumes.");
  spec.Add("hdfs.memoryLimit", &config->hdfs_memory_limit,
           "Buffers of a mount whose volume sets no memoryLimit: half for reading, half for writing.")
      .Positive();
  spec.Add("hdfs.mountLimit", &config->hdfs_mount_limit, "How long a new mount may take before its pod is told so.")
      .Positive();
  spec.Add(
      "hdfs.fileRoot", &config->hdfs_file_root,
      "Folder (of the holder) below which hdfs volumes may have a file:// uri, for tests without HDFS. Empty: none "
      "may, since such a volume shows the node's files to whoever may create pods.");
}

void AddTraceFields(ConfigSpec& spec, AgentConfig* config) {
  spec.Add("trace.plugin", &config->trace_plugin,
           "The NCCL profiler plugin that trace volumes bring to training processes.");
  spec.Add("trace.volumeSize", &config->trace_volume_size,
           "Largest size of a trace volume that says none; about 20 MiB are used for each process.")
      .Positive();
  spec.Add("trace.folder", &config->trace_folder,
           "Folder with the trace rings of training processes outside Kubernetes. Empty: none.");
  spec.Add("advertiseAddress", &config->advertise_address,
           "Address of this agent, where the operator asks for traces at metricsPort. Empty: it cannot.")
      .Env("POD_IP");
}

void AddDependencyFields(ConfigSpec& spec, AgentConfig* config) {
  spec.Add("dependencies.store", &config->dependencies_store,
           "Store of dependency snapshots, file:///FOLDER or docker://REGISTRY/REPOSITORY, as agent and holder both "
           "reach it. Empty: installs run in every pod, and nothing is recorded.");
  spec.Add("dependencies.wrapper", &config->dependencies_wrapper,
           "The program that runs installs in front of training programs; deps volumes bring it to containers.");
  spec.Add("dependencies.findLimit", &config->dependencies_find_limit,
           "How long a snapshot may be looked for before the install runs instead.")
      .Positive();
  spec.Add("dependencies.mountLimit", &config->dependencies_mount_limit,
           "How long a snapshot may take to be mounted before the install runs instead.")
      .Positive();
  spec.Add("dependencies.recordThreads", &config->dependencies_threads,
           "Threads that compress what is recorded, at the lowest priority.")
      .Range(1, 64);
  spec.Add("dependencies.signingKey", &config->dependencies_signing_key,
           "PEM file with the private Ed25519 key that recordings are signed with. Empty: they are not signed.");
  spec.Add("dependencies.trustedKeys", &config->dependencies_trusted_keys,
           "PEM file with the public Ed25519 keys of those who may record, one after the other. The signing key's own "
           "is trusted without being named.");
  spec.Add("dependencies.requireSignatures", &config->dependencies_require_signatures,
           "Mount no snapshot that is not signed with one of these keys: its install runs instead.");
  spec.Add("dependencies.collectPeriod", &config->dependencies_collect_period,
           "How often ended and superseded snapshots are removed from the store, by whichever agent comes first. 0: "
           "never from here.");
  spec.Add("dependencies.collectGrace", &config->dependencies_collect_grace,
           "How long a snapshot, and what nothing names any more, is left alone after its end. Must be far longer than "
           "clocks differ and pods take to start.")
      .Positive();
  blocks::AddRegistryFields(spec, &config->registry);
}

void AddOtherFields(ConfigSpec& spec, AgentConfig* config) {
  spec.Add("snapshotter.socket", &config->snapshotter_socket,
           "Socket where paceline-snapshotter tells how images came to this node. Empty: nobody asks it.");
  spec.Add("snapshotter.nodeAddress", &config->node_address,
           "Address of this node, where the snapshotters of others reach its own to share chunks of images. Empty: it "
           "is "
           "not offered to them.")
      .Env("HOST_IP");
  spec.Add("facts.hostRoot", &config->host_root, "Where the host's root is mounted, for facts about the node.");
  spec.Add("facts.containerdSocket", &config->containerd_socket, "Socket of containerd. Empty: do not ask it.");
  spec.Add("facts.nvmlLibrary", &config->nvml_library, "NVIDIA's management library, opened if it is there.");
  spec.Add("probe.cudaLibrary", &config->cuda_library,
           "The CUDA driver's library, opened by probes of the node if it is there.");
  spec.Add("facts.period", &config->facts_period, "How often the node is looked at anew.").Positive();
  spec.Add("metricsAddress", &config->metrics_address,
           "Address for /metrics, /healthz, /readyz, /v1/node, /v1/traces and /v1/probe.");
  spec.Add("metricsPort", &config->metrics_port, "Its port; 0 picks a free one.").Range(0, 65535);
  spec.Add("heartbeat", &config->heartbeat, "How often an unchanged status is written again.").Positive();
  spec.Add("stagePeriod", &config->stage_period, "How often the stage files of pods are read.").Positive();
  spec.Add("cleanUpPeriod", &config->clean_up_period, "How often volumes of vanished pods are looked for.").Positive();
  spec.Add("shutdownGrace", &config->shutdown_grace, "How long running calls may take to end after SIGTERM.");
  spec.Add("log.level", &config->log_level, "Least severe lines that are logged.");
  spec.Add("log.format", &config->log_format, "Form of log lines.");
}

}  // namespace

ConfigSpec DescribeAgentConfig(AgentConfig* config) {
  ConfigSpec spec("paceline-agent", "Node agent of Paceline: CSI volumes, node facts and the node's plan.");
  AddNodeFields(spec, config);
  AddHdfsFields(spec, config);
  AddTraceFields(spec, config);
  AddDependencyFields(spec, config);
  AddOtherFields(spec, config);
  spec.AddCheck([config] { return Check(*config); });
  return spec;
}

void CompleteAgentConfig(AgentConfig* config) {
  if (config->csi_socket.empty()) {
    config->csi_socket = fmt::format("{}/plugins/{}/csi.sock", config->kubelet_dir, api::kCsiDriver);
  }
  if (config->registration_socket.empty()) {
    config->registration_socket = fmt::format("{}/plugins_registry/{}-reg.sock", config->kubelet_dir, api::kCsiDriver);
  }
  if (config->node_name.empty()) {
    char name[256] = {};
    config->node_name = gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
  }
}

}  // namespace paceline::agent
