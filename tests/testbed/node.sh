# Nodes: boot, power cut, limits, commands inside. A node is a process tree in its own network, mount, PID, UTS,
# IPC and cgroup namespaces; killing its PID 1 ends all of it at once and the kernel undoes the mounts.
# shellcheck shell=bash

MAX_NODES=8
PAUSE_IMAGE=registry.test:5001/pause:1

node_is_up() { is_running "node-$1"; }
known_nodes() { local d; for d in "$NODES"/n*; do [ ! -d "$d" ] || basename "$d"; done | sort -V; }
need_node() { # node [up]
  [ -n "${1:-}" ] || die "which node? (known: $(known_nodes | tr '\n' ' '))"
  [ -d "$NODES/$1" ] || die "no node '$1' (known: $(known_nodes | tr '\n' ' '))"
  [ "${2:-}" != up ] || node_is_up "$1" || die "node $1 is off (scripts/testbed node boot $1)"
}

node_boot() { # node; returns when containerd and kubelet are being started
  local node=$1
  node_is_up "$node" && return
  # What a node left that ended by itself.
  node_cgroups_down "$node"
  node_network_down "$node"
  mkdir -p "$NODES/$node"
  pki_node "$node"
  write_node_config "$node"
  node_network_up "$node"
  node_cgroups_up "$node"
  rm -f "$RUN/node-$node.pid"
  (
    exec 9>&-
    join_node_cgroups "$node"
    exec nsenter --net="/run/netns/$(node_netns "$node")" \
      setsid unshare --mount --pid --uts --ipc --cgroup --fork --kill-child=SIGKILL --propagation private \
      "$BED_SOURCE/node-init" "$node"
  ) >>"$LOGS/$node-init.log" 2>&1 </dev/null &
  record_pid "outer-$node" $!
  wait_until 120 "node $node to start" "$LOGS/$node-init.log" node_is_up "$node"
}

node_power_cut() { # node; like pulling the plug: the disk stays
  stop_process "node-$1" KILL 10
  stop_process "outer-$1" KILL 10
  node_network_down "$1"
  node_cgroups_down "$1"
}

# Right after a boot the API server still holds what it knew before the power cut: the boot id tells the two apart.
node_ready() { # node
  api_get "/api/v1/nodes/$1" | jq -e --arg boot "$(cat "$NODES/$1/boot_id")" \
    '.status | .nodeInfo.bootID == $boot and any(.conditions[]; .type == "Ready" and .status == "True")'
}

wait_node_ready() { wait_until "${2:-180}" "node $1 to be Ready" "$LOGS/$1-kubelet.log" node_ready "$1"; }

node_exec() { # node command...
  local node=$1 pid
  shift
  pid=$(live_pid "node-$node") || die "node $node is off"
  join_node_cgroups "$node"
  exec 9>&-
  PATH=$TOOL_PATH:$PATH CONTAINER_RUNTIME_ENDPOINT=unix:///run/containerd/containerd.sock \
    exec nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --wdns="$PWD" -- "$@"
}

# Signals one supervised program of a node. With "hold" it stays down until node_resume.
node_kill() { # node program [hold]
  local pid
  pid=$(node_exec_quiet "$1" cat "/run/testbed/$2.pid") || die "node $1 runs no $2"
  [ "${3:-}" != hold ] || node_exec_quiet "$1" touch "/run/testbed/hold-$2"
  node_exec_quiet "$1" kill -KILL "$pid"
}
node_resume() { node_exec_quiet "$1" rm -f "/run/testbed/hold-$2"; }
node_exec_quiet() ( cd / && node_exec "$@" )

node_remove() { # node
  kubectl delete node "$1" --ignore-not-found --wait=false >/dev/null 2>&1 || true
  node_power_cut "$1"
  rm -rf --one-file-system "${NODES:?}/$1" "$PKI/node-$1".*
}

next_node() { local i; for ((i = 1; i <= MAX_NODES; i++)); do [ -d "$NODES/n$i" ] || { echo "n$i"; return; }; done; die "at most $MAX_NODES nodes"; }
