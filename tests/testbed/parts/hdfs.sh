# Part "hdfs": a real HDFS from Hadoop's own jars, in a network namespace of its own on the hub's bridge, so that each DataNode has
# an address that the machine, the nodes and the pods reach. By default all daemons share one JVM (tests/testbed/hdfs), which takes
# faults as lines on a FIFO; --hdfs-mode daemons gives each its own process, kerberos adds a KDC and secure ports.
# shellcheck shell=bash

PARTS+=(hdfs)
HDFS_PROCESSES=(hdfs "hdfs-*")
# shellcheck source=tests/testbed/hdfs/daemons.sh
. "$BED_SOURCE/hdfs/daemons.sh"
# shellcheck source=tests/testbed/hdfs/commands.sh
. "$BED_SOURCE/hdfs/commands.sh"
SETTINGS+=(HDFS_VERSION HDFS_MODE HDFS_DATANODES HDFS_NAMENODES HDFS_PROTECTION HDFS_SET)

hdfs_option() { # option value; from "up"
  case $1 in
    --hdfs-version) [[ $2 =~ ^3\.(5\.0|4\.2)$ ]] || die "$1: 3.5.0 or 3.4.2, not '$2'"; want_hdfs[HDFS_VERSION]=$2 ;;
    --hdfs-mode) [[ $2 =~ ^(jvm|daemons|kerberos)$ ]] || die "$1: jvm, daemons or kerberos, not '$2'"; want_hdfs[HDFS_MODE]=$2 ;;
    --hdfs-datanodes) [[ $2 =~ ^([1-9]|1[0-6])$ ]] || die "$1: 1 to 16, not '$2'"; want_hdfs[HDFS_DATANODES]=$2 ;;
    --hdfs-namenodes) [[ $2 =~ ^[123]$ ]] || die "$1: 1 to 3, not '$2'"; want_hdfs[HDFS_NAMENODES]=$2 ;;
    --hdfs-protection) [[ $2 =~ ^(authentication|integrity|privacy|privacy-aes)$ ]] || die "$1: authentication, integrity, privacy or privacy-aes, not '$2'"
      want_hdfs[HDFS_PROTECTION]=$2 ;;
    --hdfs-set) [[ $2 =~ ^[a-z][A-Za-z0-9.-]*=[^\ ]*$ ]] || die "$1: KEY=VALUE without blanks, not '$2'"; want_hdfs[HDFS_SET]+=" $2" ;;
    *) die "up: unknown option $1" ;;
  esac
}

# Settings of the first "up" that names the part hold until "down".
hdfs_settle_settings() {
  local name
  if [ -n "$HDFS_VERSION" ]; then
    for name in "${!want_hdfs[@]}"; do
      [ "${want_hdfs[$name]}" = "${!name}" ] || die "instance '$BED_NAME' has $name=${!name}; bring it down first"
    done
    return
  fi
  HDFS_VERSION=3.5.0 HDFS_MODE=jvm HDFS_DATANODES=3 HDFS_NAMENODES=1 HDFS_PROTECTION=privacy-aes HDFS_SET=""
  for name in "${!want_hdfs[@]}"; do printf -v "$name" %s "${want_hdfs[$name]}"; done
  [ "$HDFS_MODE" != kerberos ] || [ "$HDFS_NAMENODES" = 1 ] || die "--hdfs-mode kerberos has one NameNode only"
}

hdfs_paths() {
  HDFS_HOME=$STATE/hdfs HDFS_NS=paceline-$BED_NAME-hdfs HDFS_IP=$NET.0.40
  HDFS_JAVA=(java -Xss512k -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.net.preferIPv4Stack=true
    "-Djdk.net.hosts.file=$HDFS_HOME/hosts" "-Dhadoop.home.dir=$HDFS_HOME")
  HDFS_LIB=$("$BED_SOURCE/build" --path "hadoop-$HDFS_VERSION")
}
hdfs_datanode_ip() { echo "$NET.0.$((40 + ${1#dn}))"; }
in_hdfs_net() { nsenter --net="/run/netns/$HDFS_NS" "$@"; }
hdfs_is_ha() { [ "$HDFS_NAMENODES" -gt 1 ]; }
hdfs_uri() { if hdfs_is_ha; then echo hdfs://testbed; else echo "hdfs://$HDFS_IP:8020"; fi; }

# A NameNode records the source address of a DataNode's registration. All daemons share one namespace, where that would be the same
# address for all; so DataNode k dials an alias of the NameNode, NET.2.k, whose route names the source.
hdfs_network_up() {
  local k
  netns_exists "$HDFS_NS" && return
  with_global_lock add_netns "$HDFS_NS"
  ip link add to-hdfs netns "$HUB_NS" type veth peer name eth0 netns "$HDFS_NS"
  in_hub ip link set to-hdfs master br0 up
  in_hdfs_net ip link set lo up
  in_hdfs_net ip addr add "$HDFS_IP/24" dev eth0
  for ((k = 1; k <= HDFS_DATANODES; k++)); do
    in_hdfs_net ip addr add "$(hdfs_datanode_ip "$k")/24" dev eth0
    in_hdfs_net ip route add local "$NET.2.$k" dev lo table local src "$(hdfs_datanode_ip "$k")"
  done
  in_hdfs_net ip link set eth0 up
  in_hdfs_net ip route add default via "$HUB_IP"
}

hdfs_property() { printf '  <property><name>%s</name><value>%s</value></property>\n' "$1" "$2"; }

hdfs_file() { # file; properties come from standard input as KEY=VALUE lines
  local line
  {
    echo '<?xml version="1.0"?>'
    echo '<configuration>'
    while read -r line; do [ -z "$line" ] || hdfs_property "${line%%=*}" "${line#*=}"; done
    echo '</configuration>'
  } >"$1.part"
  mv "$1.part" "$1"
}

hdfs_protection_keys() {
  [ "$HDFS_MODE" = kerberos ] || return 0
  local rpc=$HDFS_PROTECTION
  [ "$rpc" != privacy-aes ] || { rpc=privacy; echo "dfs.encrypt.data.transfer.cipher.suites=AES/CTR/NoPadding"; }
  cat <<KEYS
dfs.namenode.kerberos.principal=nn/hdfs.test@TEST.BED
dfs.data.transfer.protection=$rpc
dfs.block.access.token.enable=true
KEYS
}

hdfs_core_keys() { # address of the NameNode as the reader dials it
  if hdfs_is_ha; then echo fs.defaultFS=hdfs://testbed; else echo "fs.defaultFS=hdfs://$1:8020"; fi
  echo ipc.client.connect.max.retries=3
  [ "$HDFS_MODE" = kerberos ] || return 0
  echo hadoop.security.authentication=kerberos
  echo "hadoop.rpc.protection=${HDFS_PROTECTION%-aes}"
}

# What clients and servers both read.
hdfs_common_keys() { # address of the NameNode as the reader dials it
  local k names=nn1
  echo "dfs.replication=$((HDFS_DATANODES < 3 ? HDFS_DATANODES : 3))"
  echo dfs.blocksize=16777216
  echo dfs.client.block.write.replace-datanode-on-failure.policy=NEVER
  hdfs_protection_keys
  hdfs_is_ha || return 0
  for ((k = 2; k <= HDFS_NAMENODES; k++)); do names+=,nn$k; done
  echo dfs.nameservices=testbed
  # haadmin refuses to fail over without one.
  echo 'dfs.ha.fencing.methods=shell(/bin/true)'
  echo "dfs.ha.namenodes.testbed=$names"
  for ((k = 1; k <= HDFS_NAMENODES; k++)); do
    echo "dfs.namenode.rpc-address.testbed.nn$k=$1:$((8019 + k))"
    echo "dfs.namenode.http-address.testbed.nn$k=$HDFS_IP:$((9869 + k))"
  done
  echo dfs.client.failover.proxy.provider.testbed=org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider
}

# ${bed.id}, ${bed.address} and ${bed.namenode} are set for each daemon. Hadoop 3.4.2 also reads the files by themselves in the
# middle of a DataNode's start, for a local file only: hence a value for that in the file.
hdfs_server_keys() {
  cat <<KEYS
dfs.namenode.name.dir=file://$HDFS_HOME/data/\${bed.id}
dfs.datanode.data.dir=file://$HDFS_HOME/data/\${bed.id}
dfs.namenode.rpc-bind-host=0.0.0.0
dfs.namenode.datanode.registration.ip-hostname-check=false
dfs.namenode.safemode.extension=0
dfs.namenode.handler.count=8
dfs.namenode.fs-limits.min-block-size=4096
dfs.namenode.heartbeat.recheck-interval=2000
dfs.heartbeat.interval=1
dfs.namenode.redundancy.interval.seconds=1s
dfs.namenode.edits.noeditlogchannelflush=true
dfs.datanode.address=\${bed.address}:9866
dfs.datanode.ipc.address=\${bed.address}:9867
dfs.datanode.http.address=\${bed.address}:9864
dfs.datanode.hostname=\${bed.address}
dfs.datanode.handler.count=3
dfs.datanode.du.reserved=0
dfs.datanode.directoryscan.interval=-1
dfs.block.scanner.volume.bytes.per.second=0
hadoop.security.key.provider.path=jceks://file$HDFS_HOME/keys.jceks
KEYS
  hdfs_is_ha || echo "dfs.namenode.http-address=$HDFS_IP:9870"
  ! hdfs_is_ha || cat <<KEYS
dfs.namenode.shared.edits.dir=file://$HDFS_HOME/data/edits
dfs.ha.tail-edits.period=1s
dfs.ha.log-roll.period=2s
KEYS
  [ "$HDFS_MODE" != kerberos ] || hdfs_kerberos_keys
}

hdfs_write_config() {
  mkdir -p "$HDFS_HOME"/{conf,server,data}
  hdfs_core_keys "$HDFS_IP" | hdfs_file "$HDFS_HOME/conf/core-site.xml"
  { hdfs_common_keys "$HDFS_IP"; tr ' ' '\n' <<<"$HDFS_SET"; } | hdfs_file "$HDFS_HOME/conf/hdfs-site.xml"
  # shellcheck disable=SC2016 # Hadoop expands it
  { hdfs_core_keys '${bed.namenode}'; echo "bed.namenode=$HDFS_IP"; echo "hadoop.tmp.dir=$HDFS_HOME/data/tmp-\${bed.id}"; } | hdfs_file "$HDFS_HOME/server/core-site.xml"
  # shellcheck disable=SC2016
  { hdfs_common_keys '${bed.namenode}'; hdfs_server_keys; tr ' ' '\n' <<<"$HDFS_SET"; } | hdfs_file "$HDFS_HOME/server/hdfs-site.xml"
  hdfs_write_hosts
  local folder level
  for folder in conf:ERROR server:INFO; do
    level=${folder#*:}
    cat >"$HDFS_HOME/${folder%:*}/log4j.properties" <<CONF
log4j.rootLogger=$level,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
CONF
  done
}

# Hadoop looks every address up by name. No DNS is reachable from the namespace, and each attempt would cost 5 s: so Java gets a hosts
# file of its own, which also ends the search for what is not in it.
hdfs_write_hosts() {
  local k
  {
    echo "127.0.0.1 localhost $(hostname)"
    echo "$HDFS_IP hdfs.test"
    for ((k = 1; k <= HDFS_DATANODES; k++)); do echo "$(hdfs_datanode_ip "$k") dn$k.hdfs.test"; done
  } >"$HDFS_HOME/hosts"
}

hdfs_jvm_up() {
  is_running hdfs && return
  # A new JVM formats anew; what an ended one left would not fit.
  rm -rf --one-file-system "$HDFS_HOME"/{data,answers}
  mkdir -p "$HDFS_HOME/data"
  [ -p "$HDFS_HOME/commands" ] || mkfifo "$HDFS_HOME/commands"
  # shellcheck disable=SC2016 # for the inner shell
  start_process hdfs nsenter --net="/run/netns/$HDFS_NS" bash -c 'fifo=$1; shift; exec "$@" 0<>"$fifo"' - "$HDFS_HOME/commands" \
    "${HDFS_JAVA[@]}" "-Xmx$((320 + 48 * HDFS_DATANODES))m" -cp "$HDFS_HOME/server:$HDFS_LIB/bed.jar:$HDFS_LIB/lib/*" \
    dev.paceline.testbed.HdfsBed "$HDFS_HOME/data" "$HDFS_HOME/answers" "$HDFS_IP" "$NET.0." 41 "$NET.2." "$HDFS_NAMENODES" "$HDFS_DATANODES"
  wait_until 120 "HDFS" "$LOGS/hdfs.log" hdfs_jvm_ready
  is_running hdfs || die "HDFS ended at once, see $LOGS/hdfs.log"
  sed -n 's/^0 ok /testbed: HDFS: /p' "$HDFS_HOME/answers" >&2
}
hdfs_jvm_ready() { ! is_running hdfs || grep -q '^0 ok' "$HDFS_HOME/answers"; }

# One line to the JVM and its answer.
hdfs_do() { # command argument...
  local id=$$-$RANDOM end=$((SECONDS + 120)) line
  is_running hdfs || die "needs --hdfs-mode jvm and a running part hdfs"
  printf '%s %s\n' "$id" "$*" >"$HDFS_HOME/commands"
  until line=$(grep -m1 "^$id " "$HDFS_HOME/answers"); do
    [ $SECONDS -lt $end ] || die "no answer to '$*' within 120 s, see $LOGS/hdfs.log"
    sleep 0.02
  done
  line=${line#"$id "}
  case $line in
    ok*) line=${line#ok}; [ -z "${line# }" ] || echo "${line# }" ;;
    *) die "hdfs: ${line#error }" ;;
  esac
}

part_hdfs_up() {
  command -v java >/dev/null || die "no Java: run scripts/setup hdfs"
  hdfs_paths
  hdfs_network_up
  [ -e "$HDFS_HOME/conf/hdfs-site.xml" ] || hdfs_write_config
  if [ "$HDFS_MODE" = jvm ]; then hdfs_jvm_up; else hdfs_daemons_up; fi
  wait_until 120 "$HDFS_DATANODES DataNodes" "$LOGS/hdfs.log" hdfs_has_datanodes "$HDFS_DATANODES"
}

hdfs_has_datanodes() { # count; asks the first NameNode that answers
  local k live
  for ((k = 1; k <= HDFS_NAMENODES; k++)); do
    live=$(curl -sf --max-time 5 "http://$HDFS_IP:$((9869 + k))/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" | jq '.beans[0].NumLiveDataNodes') || continue
    [ "${live:-0}" -ge "$1" ] && return
  done
  return 1
}

# Another "up" may ask for another HDFS.
part_hdfs_clear() {
  local name
  hdfs_paths
  for name in $(part_processes hdfs); do stop_process "$name" KILL 10; done
  part_hdfs_down
  rm -rf --one-file-system "$HDFS_HOME"
  for name in HDFS_VERSION HDFS_MODE HDFS_DATANODES HDFS_NAMENODES HDFS_PROTECTION HDFS_SET; do printf -v "$name" %s ""; done
}

part_hdfs_down() {
  [ -n "${HDFS_VERSION:-}" ] || return 0
  hdfs_paths
  ! netns_exists "$HDFS_NS" || ip netns del "$HDFS_NS"
}

hdfs_is_up() { [ -n "${HDFS_VERSION:-}" ] && hdfs_paths && [ -n "$(hdfs_processes)" ]; }
hdfs_processes() { local name; for name in $(process_names); do [[ $name != hdfs && $name != hdfs-* ]] || ! is_running "$name" || echo "$name"; done; }

part_hdfs_status() {
  hdfs_is_up && echo "hdfs        $(hdfs_uri) (Hadoop $HDFS_VERSION, $HDFS_MODE, $HDFS_NAMENODES NameNode(s), $HDFS_DATANODES DataNodes), http://$HDFS_IP:9870"
}

part_hdfs_env() {
  hdfs_is_up || return 0
  export_line HDFS_URI "$(hdfs_uri)"
  export_line HADOOP_CONF_DIR "$HDFS_HOME/conf"
  export_line HDFS_WEB_URL "http://$HDFS_IP:9870"
  export_line HDFS_MODE "$HDFS_MODE"
  [ "$HDFS_MODE" != kerberos ] || hdfs_kerberos_env
}
