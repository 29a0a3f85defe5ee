# Network of an instance. The hub is a network namespace with a bridge; each node is a namespace of its own
# on that bridge. One veth pair joins the machine itself to the hub: the only thing seen in its own namespace.
#   10.O.0.1 hub   10.O.0.(10+X) node nX   10.O.(10+X).0/24 pods of nX   10.O.240.0/20 Services   10.O.1.2 machine
# The machine has its own small subnet, so that packets take the same way both directions and connection
# tracking in the hub sees whole connections.
# shellcheck shell=bash

netns_exists() { [ -e "/run/netns/$1" ]; }

add_netns() {
  # "ip netns add" turns /run/netns into a mount of its own; remember that so the last instance can undo it.
  mountpoint -q /run/netns || : >"$BED_ROOT/.netns-mounted"
  ip netns add "$1"
}

hub_network_up() {
  [ -e "/sys/class/net/$HOST_LINK" ] && netns_exists "$HUB_NS" && return
  netns_exists "$HUB_NS" || with_global_lock add_netns "$HUB_NS"
  in_hub ip link set lo up
  in_hub ip link show br0 >/dev/null 2>&1 || in_hub ip link add br0 type bridge
  in_hub ip addr replace "$HUB_IP/24" dev br0
  in_hub ip link set br0 up
  in_hub sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.br0.send_redirects=0
  ip link add "$HOST_LINK" type veth peer name machine netns "$HUB_NS"
  in_hub ip addr add "$NET.1.1/30" dev machine
  in_hub ip link set machine up
  ip addr add "$HOST_IP/30" dev "$HOST_LINK"
  ip link set "$HOST_LINK" up
  ip route add "$NET.0.0/16" via "$NET.1.1" dev "$HOST_LINK"
}

hub_network_down() {
  ip link del "$HOST_LINK" 2>/dev/null || true
  ! netns_exists "$HUB_NS" || ip netns del "$HUB_NS"
  with_global_lock unmount_netns_folder
}

unmount_netns_folder() {
  [ -e "$BED_ROOT/.netns-mounted" ] || return 0
  [ -z "$(ls -A /run/netns 2>/dev/null)" ] || return 0
  umount /run/netns 2>/dev/null || true
  rmdir /run/netns 2>/dev/null || true
  rm -f "$BED_ROOT/.netns-mounted"
}

node_netns() { echo "paceline-$BED_NAME-$1"; }
node_index() { echo "${1#n}"; }
node_ip() { echo "$NET.0.$((10 + $(node_index "$1")))"; }
node_pod_net() { echo "$NET.$((10 + $(node_index "$1")))"; }
in_node_net() { local ns; ns=$(node_netns "$1"); shift; nsenter --net="/run/netns/$ns" "$@"; }

node_network_up() { # node
  local ns ip
  ns=$(node_netns "$1") ip=$(node_ip "$1")
  with_global_lock add_netns "$ns"
  ip link add "to-$1" netns "$HUB_NS" type veth peer name eth0 netns "$ns"
  in_hub ip link set "to-$1" master br0 up
  in_node_net "$1" ip link set lo up
  in_node_net "$1" ip addr add "$ip/24" dev eth0
  in_node_net "$1" ip link set eth0 up
  in_node_net "$1" ip route add default via "$HUB_IP"
  in_node_net "$1" sysctl -qw net.ipv4.ip_forward=1
  in_hub ip route replace "$(node_pod_net "$1").0/24" via "$ip"
}

node_network_down() { # node
  local ns
  ns=$(node_netns "$1")
  if netns_exists "$HUB_NS"; then
    in_hub ip link del "to-$1" 2>/dev/null || true
    in_hub ip route del "$(node_pod_net "$1").0/24" 2>/dev/null || true
  fi
  ! netns_exists "$ns" || ip netns del "$ns"
}

# A token bucket on both ends of the node's link. The kernel here has no netem, so there is no delay.
node_net_limit() { # node megabits|off
  in_hub tc qdisc del dev "to-$1" root 2>/dev/null || true
  in_node_net "$1" tc qdisc del dev eth0 root 2>/dev/null || true
  [ "$2" != off ] || return 0
  # The burst must hold one tick's worth of data, or the rate is not reached.
  local burst=$(($2 * 1000000 / 8 / 100))
  [ "$burst" -ge 65536 ] || burst=65536
  in_hub tc qdisc add dev "to-$1" root tbf rate "${2}mbit" burst "$burst" latency 400ms
  in_node_net "$1" tc qdisc add dev eth0 root tbf rate "${2}mbit" burst "$burst" latency 400ms
}
