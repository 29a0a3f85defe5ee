# scripts/testbed hdfs COMMAND: Hadoop's own tools, and trouble on purpose. Sourced by parts/hdfs.sh.
# shellcheck shell=bash

hdfs_usage() {
  cat <<'TEXT'
usage: scripts/testbed hdfs COMMAND [ARGUMENT...]

Hadoop's own tools, run on the machine against this instance (user: HADOOP_USER_NAME, else yours):
  dfs ARGUMENT...              for example: dfs -put FILE /folder; dfs -ls /
  fsck|dfsadmin|haadmin|oiv ARGUMENT...
  java CLASS ARGUMENT...       any class of Hadoop

daemons: nn1, nn2 ..., dn1, dn2 ...
  status                       which run, and which NameNode is active
  stop|kill|start NAME         one JVM: kill is stop; daemons: SIGTERM, SIGKILL
  pause|resume NAME            SIGSTOP, SIGCONT (daemons only): connects, never answers
  cut|heal NAME                drop all packets of that DataNode, or of that NameNode's port
  rate MBIT|off                limit each DataNode's reads and its writes to that many Mbit/s
  failover NAME                that NameNode becomes the active one

of the one JVM only (--hdfs-mode jvm):
  do blocks PATH                        offset+length@addresses of each block
  do corrupt|halve|remove-replica PATH BLOCK DATANODE
  do silence|unsilence|expire DATANODE  no heartbeats; expire waits until it is taken for dead
  do delay-acks MS                      all DataNodes; 0 ends it
  do lease SOFT-MS HARD-MS              lease limits; Hadoop has 60000 1200000
  do report                             block reports of all DataNodes, now
  do safemode enter|leave|get; do chmod PATH MODE; do chown PATH USER [GROUP]; do quota PATH NAMES BYTES
  do snapshot PATH NAME; do erasure-code POLICY FOLDER; do encrypt KEY FOLDER; do observe NAMENODE
TEXT
}

hdfs_tool() { # class argument...
  local kerberos=()
  [ "$HDFS_MODE" != kerberos ] || { hdfs_ticket alice; kerberos=("-Djava.security.krb5.conf=$HDFS_HOME/kerberos/krb5.conf"); }
  KRB5CCNAME=${KRB5CCNAME:-$HDFS_HOME/kerberos/alice.ccache} "${HDFS_JAVA[@]}" -Xmx256m "${kerberos[@]}" \
    -cp "$HDFS_HOME/conf:$HDFS_LIB/lib/*" "$@"
}

need_daemons() { [ "$HDFS_MODE" != jvm ] || die "hdfs $1: needs --hdfs-mode daemons (in one JVM: \"hdfs cut NAME\")"; }

hdfs_name_is_known() {
  [[ $1 =~ ^(nn|dn)([1-9][0-9]*)$ ]] || return 1
  if [ "${BASH_REMATCH[1]}" = nn ]; then [ "${BASH_REMATCH[2]}" -le "$HDFS_NAMENODES" ]; else [ "${BASH_REMATCH[2]}" -le "$HDFS_DATANODES" ]; fi
}

hdfs_signal() { # signal name
  local pid
  pid=$(live_pid "hdfs-$2") || die "hdfs: $2 does not run"
  kill "-$1" "$pid"
}

hdfs_start_one() { # name
  if [ "$HDFS_MODE" = jvm ]; then hdfs_do start "$1"; return; fi
  case $1 in
    nn*) hdfs_start_namenode "$1"; wait_until 60 "$1" "$LOGS/hdfs-$1.log" hdfs_namenode_answers "$1" ;;
    dn*) hdfs_start_datanode "$1"; wait_until 60 "$1" "$LOGS/hdfs-$1.log" port_open "$(hdfs_datanode_ip "$1")" 9866 ;;
  esac
}

hdfs_stop_one() { # name TERM|KILL
  if [ "$HDFS_MODE" = jvm ]; then hdfs_do stop "$1"; else stop_process "hdfs-$1" "$2" 20; fi
}

hdfs_failover() { # name
  [ "$HDFS_MODE" != jvm ] || { hdfs_do failover "$1"; return; }
  local from
  if from=$(hdfs_active); then
    [ "$from" = "$1" ] || hdfs_tool org.apache.hadoop.hdfs.tools.DFSHAAdmin -failover "$from" "$1" || die "hdfs: cannot fail over to $1"
  else
    hdfs_tool org.apache.hadoop.hdfs.tools.DFSHAAdmin -transitionToActive --forceactive "$1" || die "hdfs: cannot make $1 active"
  fi
}

hdfs_status() {
  if [ "$HDFS_MODE" = jvm ]; then hdfs_do status; return; fi
  local name
  for name in $(hdfs_processes); do echo "${name#hdfs-}"; done
  echo "active: $(hdfs_active || echo none)"
}

# The table holds what is cut now: DataNodes by address, NameNodes by port.
hdfs_cut_rules() { # cut|heal name
  local match
  in_hdfs_net nft -f - <<'NFT'
table ip cut {
  set nodes { type ipv4_addr; }
  set ports { type inet_service; }
  chain input { type filter hook input priority 0; ip saddr @nodes drop; ip daddr @nodes drop; tcp dport @ports drop; tcp sport @ports drop; }
  chain output { type filter hook output priority 0; ip saddr @nodes drop; ip daddr @nodes drop; tcp sport @ports drop; tcp dport @ports drop; }
}
NFT
  case $2 in
    dn*) match="nodes { $(hdfs_datanode_ip "$2") }" ;;
    nn*) match="ports { $((8019 + ${2#nn})), $((9869 + ${2#nn})) }" ;;
  esac
  if [ "$1" = cut ]; then in_hdfs_net nft add element ip cut "$match"; else in_hdfs_net nft delete element ip cut "$match" 2>/dev/null || true; fi
}

hdfs_limit_device() { # src|dst mbit; reads tc commands' prefix from the rest
  local match=$1 mbit=$2 k device=$3 minor
  shift 3
  "$@" tc qdisc del dev "$device" root 2>/dev/null || true
  [ "$mbit" != off ] || return 0
  "$@" tc qdisc add dev "$device" root handle 1: htb default 1
  "$@" tc class add dev "$device" parent 1: classid 1:1 htb rate 40gbit burst 2m cburst 2m quantum 60000
  for ((k = 1; k <= HDFS_DATANODES; k++)); do
    minor=$((k + 16))
    # A burst below 256 KiB does not reach the rate: segments are 64 KiB.
    "$@" tc class add dev "$device" parent 1: classid "1:$minor" htb rate "${mbit}mbit" ceil "${mbit}mbit" burst 256k cburst 256k quantum 60000
    "$@" tc qdisc add dev "$device" parent "1:$minor" bfifo limit 4mb
    "$@" tc filter add dev "$device" parent 1: protocol ip prio 1 u32 match ip "$match" "$(hdfs_datanode_ip "$k")/32" flowid "1:$minor"
  done
}

# Reads leave by eth0 with the DataNode's address as source; writes come in over the hub's end of the link; what one DataNode of a
# pipeline hands to the next crosses the loopback and is charged to the receiver.
hdfs_rate() { # mbit|off
  [[ $1 =~ ^([1-9][0-9]*|off)$ ]] || die "hdfs rate: Mbit/s or off"
  hdfs_limit_device src "$1" eth0 in_hdfs_net
  hdfs_limit_device dst "$1" lo in_hdfs_net
  hdfs_limit_device dst "$1" to-hdfs in_hub
}

command_hdfs() {
  local command=${1:-}
  [ $# -eq 0 ] || shift
  case $command in
    -h | --help | help) hdfs_usage; return ;;
    "") hdfs_usage >&2; exit 2 ;;
  esac
  need_instance
  hdfs_is_up || die "the part hdfs is not up (scripts/testbed up hdfs)"
  case $command in
    stop | kill | start | pause | resume | cut | heal | failover) hdfs_name_is_known "${1:-}" || die "hdfs $command: '${1:-}' is not a daemon (nn1, dn1 ...)" ;;
  esac
  case $command in
    dfs) hdfs_tool org.apache.hadoop.fs.FsShell "$@" || exit $? ;;
    fsck) hdfs_tool org.apache.hadoop.hdfs.tools.DFSck "$@" || exit $? ;;
    dfsadmin) hdfs_tool org.apache.hadoop.hdfs.tools.DFSAdmin "$@" || exit $? ;;
    haadmin) hdfs_tool org.apache.hadoop.hdfs.tools.DFSHAAdmin "$@" || exit $? ;;
    oiv) hdfs_tool org.apache.hadoop.hdfs.tools.offlineImageViewer.OfflineImageViewerPB "$@" || exit $? ;;
    java) hdfs_tool "$@" || exit $? ;;
    status) hdfs_status ;;
    stop) hdfs_stop_one "$1" TERM ;;
    kill) hdfs_stop_one "$1" KILL ;;
    start) hdfs_start_one "$1" ;;
    pause) need_daemons pause; hdfs_signal STOP "$1" ;;
    resume) need_daemons resume; hdfs_signal CONT "$1" ;;
    cut | heal) hdfs_cut_rules "$command" "$1" ;;
    rate) hdfs_rate "${1:-}" ;;
    failover) hdfs_failover "$1" ;;
    do) [ $# -gt 0 ] || die "hdfs do: what? (see hdfs --help)"; hdfs_do "$@" ;;
    *) die "hdfs: unknown command '$command' (see scripts/testbed hdfs --help)" ;;
  esac
}
