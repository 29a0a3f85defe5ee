# Ground layer of the test bed: messages, waits with deadlines, the instance's folder and settings, and
# processes that are started, recorded and ended by pid. Sourced by tests/testbed/main.
# shellcheck shell=bash disable=SC2034 # other files use what is set here

BED_SOURCE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
BED_NAME=${PACELINE_TESTBED:-default}
BED_ROOT=/var/tmp/paceline-testbed
STATE=$BED_ROOT/$BED_NAME
RUN=$STATE/run
LOGS=$STATE/logs
PKI=$STATE/pki
NODES=$STATE/nodes
CACHE=${PACELINE_CACHE:-${HOME:-/root}/.cache/paceline}
BOOT_ID=$(cat /proc/sys/kernel/random/boot_id)

say() { [ -n "${QUIET:-}" ] || echo "testbed: $*" >&2; }
die() { echo "testbed: $*" >&2; exit 1; }

now_ms() { local t=${EPOCHREALTIME/./}; echo $((t / 1000)); }
seconds_since() { printf '%d.%d' $((($(now_ms) - $1) / 1000)) $((($(now_ms) - $1) % 1000 / 100)); }

# wait_until SECONDS WHAT LOG COMMAND...   LOG is the file to read when the deadline passes ("" for none).
wait_until() {
  local limit=$1 what=$2 log=$3 end=$((SECONDS + $1))
  shift 3
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $end ]; then
      [ -z "$log" ] || { echo "testbed: last lines of $log:" >&2; tail -n 8 "$log" >&2 || true; }
      die "gave up after $limit s waiting for $what${log:+; see $log}"
    fi
    sleep 0.1
  done
}

port_open() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

[[ $BED_NAME =~ ^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$ ]] || die "PACELINE_TESTBED: '$BED_NAME' is not a name (a-z, 0-9 and -, at most 20)"

# One command at a time changes an instance. Daemons must not inherit descriptor 9, or the lock would
# outlive the command: see start_process and node_boot.
lock_instance() {
  mkdir -p "$BED_ROOT"
  exec 9>"$BED_ROOT/.$BED_NAME.lock"
  flock -w 300 9 || die "another command has held instance '$BED_NAME' for 300 s"
}

with_global_lock() (
  exec 7>"$BED_ROOT/.global.lock"
  flock -w 30 7 || die "cannot get $BED_ROOT/.global.lock"
  "$@" 7>&-
)

# Each instance has 10.OCTET.0.0/16. The default one always gets 99; others the first free of 100-119.
allot_octet() {
  local octet candidates=({100..119})
  [ "$BED_NAME" != default ] || candidates=(99)
  for octet in "${candidates[@]}"; do
    if [ ! -e "$BED_ROOT/.octet.$octet" ] || [ "$(cat "$BED_ROOT/.octet.$octet")" = "$BED_NAME" ]; then
      # Not ours although the name is free: some other network of this machine has the range.
      [ -z "$(ip -4 route show "10.$octet.0.0/16")" ] || [ -e "$STATE/settings" ] || continue
      echo "$BED_NAME" >"$BED_ROOT/.octet.$octet"
      echo "$octet"
      return
    fi
  done
  die "no free address range: $(cat "$BED_ROOT"/.octet.* | tr '\n' ' ')have them all (10.99/16, 10.100/16 to 10.119/16)"
}

free_octet() { [ "$(cat "$BED_ROOT/.octet.$1" 2>/dev/null)" != "$BED_NAME" ] || rm -f "$BED_ROOT/.octet.$1"; }

set_addresses() {
  NET=10.$OCTET
  HUB_IP=$NET.0.1                 # control plane, registry, DNS, Prometheus
  HOST_IP=$NET.1.2              # the machine itself, as pods and nodes see it
  SERVICE_CIDR=$NET.240.0/20
  SERVICE_IP=$NET.240.1           # the kubernetes Service
  HUB_NS=paceline-$BED_NAME-hub
  HOST_LINK=pacebed$OCTET
}

# Settings chosen at the first "up" hold until "down".
SETTINGS=(OCTET KUBERNETES CONTAINERD_KIND SNAPSHOTTER LAZY_SNAPSHOTTER CONTAINERD_EXTRA NODE_HOOK APISERVER_FLAGS CONTROLLER_FLAGS SCHEDULER_FLAGS
  KUBELET_FLAGS ETCD_FLAGS REGISTRY_USER REGISTRY_PASSWORD)
save_settings() {
  local name
  for name in "${SETTINGS[@]}"; do printf '%s=%q\n' "$name" "${!name:-}"; done >"$STATE/settings.part"
  mv "$STATE/settings.part" "$STATE/settings"
}
load_settings() {
  [ -e "$STATE/settings" ] || return 1
  # shellcheck disable=SC1091
  . "$STATE/settings"
  set_addresses
  set_tool_paths
}
need_instance() { load_settings || die "instance '$BED_NAME' is not up (scripts/testbed up)"; }

set_tool_paths() {
  KUBE_BIN=$("$BED_SOURCE/build" --path "kubernetes-$KUBERNETES")
  CONTAINERD_BIN=/usr/bin
  [ "$CONTAINERD_KIND" = debian ] || CONTAINERD_BIN=$("$BED_SOURCE/build" --path containerd)
  local tool
  TOOL_PATH=$KUBE_BIN:$CONTAINERD_BIN
  for tool in helm crictl coredns kwok; do TOOL_PATH+=:$("$BED_SOURCE/build" --path "$tool"); done
}

tool() { local dir; dir=$("$BED_SOURCE/build" --path "$1"); echo "$dir/${2:-$1}"; }

in_hub() { nsenter --net="/run/netns/$HUB_NS" "$@"; }
# For polling: a tenth of what starting kubectl costs.
api_get() { curl -sf --max-time 5 --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" "https://$HUB_IP:6443$1"; }
kubectl() { "$KUBE_BIN/kubectl" --kubeconfig="$PKI/admin.kubeconfig" --request-timeout="${KUBECTL_TIMEOUT:-10s}" "$@"; }

# RUN/NAME.pid holds "pid start-time boot-id", so that a reused pid is never taken for ours.
# RUN/NAME.cmd holds the command, so that one process can be started again alone.

start_time() { # pid; nothing for a process that is gone or a zombie
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # shellcheck disable=SC2086 # the fields after the name, which may hold blanks itself
  set -- ${stat##*) }
  # The first thread is a zombie as soon as it has ended; while others are still ending, the process holds its ports.
  [ "$1" = Z ] && [ "${18}" -le 1 ] || echo "${20}"
}

record_pid() { echo "$2 $(start_time "$2") $BOOT_ID" >"$RUN/$1.pid"; }

live_pid() { # name; prints the pid when that very process is alive
  local pid began boot
  read -r pid began boot 2>/dev/null <"$RUN/$1.pid" || return 1
  [ "$boot" = "$BOOT_ID" ] && [ -n "$began" ] && [ "$(start_time "$pid")" = "$began" ] && echo "$pid"
}
is_running() { live_pid "$1" >/dev/null; }
is_stopped() { ! is_running "$1"; }

start_process() { # name command...   runs in the hub's network; output goes to LOGS/NAME.log
  local name=$1
  shift
  printf '%q ' "$@" >"$RUN/$name.cmd"
  launch_process "$name"
}

launch_process() { # name [extra argument...]
  local name=$1 command
  shift
  eval "command=($(cat "$RUN/$name.cmd"))"
  echo "--- $(date -Is) starting: ${command[*]} $*" >>"$LOGS/$name.log"
  ( exec 9>&- nsenter --net="/run/netns/$HUB_NS" setsid "${command[@]}" "$@" ) >>"$LOGS/$name.log" 2>&1 </dev/null &
  record_pid "$name" $!
}

stop_process() { # name [signal] [seconds]; a process that does not end in time is killed
  local pid
  pid=$(live_pid "$1") || { rm -f "$RUN/$1.pid"; return 0; }
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  local end=$((SECONDS + ${3:-15}))
  while is_running "$1"; do
    [ $SECONDS -lt $end ] || { say "$1 did not end within ${3:-15} s of SIG${2:-TERM}, killing it"; kill -KILL "$pid" 2>/dev/null || true; end=$((SECONDS + 10)); }
    sleep 0.05
  done
  rm -f "$RUN/$1.pid"
}

process_names() { local f; for f in "$RUN"/*.cmd; do [ ! -e "$f" ] || basename "$f" .cmd; done; }
