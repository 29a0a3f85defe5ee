# Configuration files of one node: containerd (1.6 and 2.x), CNI, kubelet. Written below NODES/NODE/etc-*.
# shellcheck shell=bash

write_cni_config() { # node file
  cat >"$2" <<JSON
{"cniVersion": "0.4.0", "name": "testbed", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$(node_pod_net "$1").0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
}

write_registry_hosts() { # certs.d folder
  local port
  for port in 5000 5001; do
    mkdir -p "$1/registry.test:$port"
    cp "$PKI/ca.crt" "$1/registry.test:$port/ca.crt"
    cat >"$1/registry.test:$port/hosts.toml" <<TOML
server = "https://registry.test:$port"
ca = "/etc/containerd/certs.d/registry.test:$port/ca.crt"
[host."https://registry.test:$port"]
  capabilities = ["pull", "resolve"]
  ca = "/etc/containerd/certs.d/registry.test:$port/ca.crt"
TOML
  done
}

# restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower oom_score_adj and no sandbox starts.
# unpack_config: the transfer service of containerd 2 pulls only for snapshotters that are named there.
write_containerd_2_config() { # file
  cat >"$1" <<TOML
version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "$SNAPSHOTTER"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "$PAUSE_IMAGE"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "/etc/containerd/certs.d"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux/amd64"
  snapshotter = "$SNAPSHOTTER"
  differ = "walking"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false
TOML
}

write_containerd_1_config() { # file
  cat >"$1" <<TOML
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$SNAPSHOTTER"
    disable_snapshot_annotations = false
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
TOML
}

# exports: where statistics of images look, and that pulls through the transfer service name the image to the plugin.
write_proxy_plugin() { # folder
  cat >>"$1/config.toml" <<TOML
[proxy_plugins.paceline]
  type = "snapshot"
  address = "/run/paceline/snapshotter/snapshotter.sock"
  [proxy_plugins.paceline.exports]
    root = "/var/lib/paceline/snapshotter"
    enable_remote_snapshot_annotations = "true"
TOML
  # The node's own credentials, which a plugin needs: containerd keeps those of a pull to itself.
  printf '{"auths": {"registry.test:5000": {"username": "%s", "password": "%s"}}}\n' "$REGISTRY_USER" "$REGISTRY_PASSWORD" >"$1/registry-auth.json"
  chmod 600 "$1/registry-auth.json"
}

write_containerd_config() { # folder
  if [ "$CONTAINERD_KIND" = debian ]; then write_containerd_1_config "$1/config.toml"; else write_containerd_2_config "$1/config.toml"; fi
  [ -z "${LAZY_SNAPSHOTTER:-}" ] || write_proxy_plugin "$1"
  [ -z "$CONTAINERD_EXTRA" ] || cat "$CONTAINERD_EXTRA" >>"$1/config.toml"
  write_registry_hosts "$1/certs.d"
}

# protectKernelDefaults: kubelet must not write sysctls, which belong to the whole machine; node-init shows it
# files that already hold the values it wants. Short status and lease periods make tests of lost nodes quick.
write_kubelet_config() { # node file
  cat >"$2" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
protectKernelDefaults: true
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/node-$1.crt
tlsPrivateKeyFile: $PKI/node-$1.key
clusterDomain: cluster.local
clusterDNS: [$HUB_IP]
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
serializeImagePulls: false
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 20
syncFrequency: 10s
YAML
}

write_node_config() { # node
  local root=$NODES/$1
  mkdir -p "$root"/{etc,cni,containerd-etc}
  write_cni_config "$1" "$root/cni/10-testbed.conflist"
  write_containerd_config "$root/containerd-etc"
  write_kubelet_config "$1" "$root/kubelet.yaml"
  { grep -v registry.test /etc/hosts; echo "$HUB_IP registry.test"; echo "$(node_ip "$1") $1"; } >"$root/hosts"
  echo "nameserver $HUB_IP" >"$root/resolv.conf"
  echo -n "$BED_NAME-$1" | md5sum | cut -c1-32 >"$root/machine-id"
}
