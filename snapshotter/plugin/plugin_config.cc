#include "snapshotter/plugin/plugin_config.h"

namespace paceline::snapshotter {
namespace {

constexpr int kMaxPort = 65535;

void AddPeers(ConfigSpec& spec, PluginConfig* config) {
  spec.Add(
      "peers.certificates", &config->peer_certificates,
      "Folder with ca.crt, tls.crt and tls.key, with which nodes know each other. With it chunks of lazy images are "
      "asked of the nodes that the agent names, and given to them. Empty: of stores only.");
  spec.Add("peers.address", &config->peer_address, "Address on which other nodes are given chunks.");
  spec.Add("peers.port", &config->peer_port, "Its port; 0 picks a free one.").Range(0, kMaxPort);
  spec.Add("peers.serverName", &config->peer_server_name,
           "Common name and DNS name that the certificates of all nodes have.");
  spec.Add(
          "peers.slackPercent", &config->peer_slack_percent,
          "A node that takes more than so much of the time that the store takes is not asked. More than 100 spares the "
          "store at the expense of time.")
      .Range(1, 1000000);
  spec.Add("peers.maxRequests", &config->peer_max_requests,
           "So many requests of other nodes are answered at once; the rest is turned away.")
      .Range(1, 256);
  spec.Add("peers.maxBytesPerSecond", &config->peer_max_rate,
           "So much is given to other nodes in a second; requests beyond it are turned away.")
      .Positive();
}

}  // namespace

ConfigSpec DescribePluginConfig(PluginConfig* config) {
  ConfigSpec spec("paceline-snapshotter plugin",
                  "containerd's snapshotter for converted images, and for all others as overlayfs is.");
  spec.Add(
      "root", &config->root,
      "Where snapshots and chunks are kept, on ext4, xfs or btrfs and not on an overlay. Seen by containerd and by "
      "containers under the same path, mounts below it included.");
  spec.Add("socket", &config->socket, "Unix socket for containerd: the address of the proxy plugin.");
  spec.Add("stores", &config->stores,
           "Where converted images are looked for, in this order: \"image\" for the repository of the image itself, "
           "docker://REGISTRY/REPOSITORY, or file:///FOLDER. Whoever may write there decides what containers read.");
  spec.Add("findLimit", &config->find_limit, "After so long without an answer an image is pulled the ordinary way.")
      .Positive();
  AddBackingField(spec, &config->backing);
  AddFetchFields(spec, &config->fetch);
  AddRegistryAccess(spec, &config->registry);
  spec.Add("hotSet.window", &config->hot_set_window,
           "How long the reads of an image without a hot set are recorded, from its first container on.")
      .Positive();
  spec.Add("hotSet.maxBytes", &config->hot_set_limit, "Most that is fetched ahead for one image.");
  spec.Add("hotSet.share", &config->shares_hot_sets,
           "Keep recorded sets beside the image, for other nodes. Needs credentials that may push there.");
  spec.Add("firstStart.fillBelow", &config->fill_below,
           "Images without a hot set that take less in their store are fetched whole, behind all other fetches.");
  spec.Add("firstStart.readAround", &config->read_around,
           "Of larger ones, so much behind each read is fetched as well while the hot set is recorded.");
  AddPeers(spec, config);
  spec.Add(
      "keeper.socket", &config->keeper.socket,
      "Socket of the process that keeps mounts alive while this one is away. Empty: mounts end with this process.");
  spec.Add("keeper.spawn", &config->spawns_keeper,
           "Start that process when it is not there. No: somebody else runs it (paceline-snapshotter keep).");
  spec.Add("keeper.giveUpAfter", &config->keeper.give_up_after,
           "After so long without a plugin a keeper that was started so ends, and reads of lazy images fail.")
      .Positive();
  spec.Add("status.socket", &config->status_socket,
           "Unix socket where the node's agent and pacectl ask for the state of images. Empty: none.");
  spec.Add("metrics.address", &config->metrics_address, "Address that /metrics and /healthz are served on.");
  spec.Add("metrics.port", &config->metrics_port, "Its port; 0 picks a free one.").Range(0, kMaxPort);
  spec.Add("shutdownGrace", &config->shutdown_grace, "How long calls of containerd may take to end after SIGTERM.");
  spec.Add("log.level", &config->log_level, "Least important lines that are logged.");
  spec.Add("log.format", &config->log_format, "Form of the log lines.");
  spec.AddCheck([config]() -> Status {
    if (!config->root.starts_with('/')) return InvalidArgumentError("root: must be an absolute path");
    if (config->stores.empty()) return InvalidArgumentError("stores: name one at least, or use overlayfs");
    return Status();
  });
  return spec;
}

}  // namespace paceline::snapshotter
