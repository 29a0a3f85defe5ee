# HDFS as plain daemons: a process for each NameNode and DataNode, and with Kerberos a KDC beside them. Sourced by parts/hdfs.sh.
# shellcheck shell=bash

hdfs_daemon_java() { # id address namenode heap; prints the command in front of the class
  printf '%s\n' nsenter "--net=/run/netns/$HDFS_NS" "${HDFS_JAVA[@]}" "-Xmx$4m" "-Dbed.id=$1" "-Dbed.address=$2" "-Dbed.namenode=$3"
  [ "$HDFS_MODE" != kerberos ] || echo "-Djava.security.krb5.conf=$HDFS_HOME/kerberos/krb5.conf"
  printf '%s\n' -cp "$HDFS_HOME/server:$HDFS_LIB/bed.jar:$HDFS_LIB/lib/*"
}

HDFS_NAMENODE_CLASS=org.apache.hadoop.hdfs.server.namenode.NameNode
HDFS_DATANODE_CLASS=org.apache.hadoop.hdfs.server.datanode.DataNode

hdfs_format() {
  local k java log=$LOGS/hdfs-format.log
  [ ! -e "$HDFS_HOME/data/nn1/current/VERSION" ] || return 0
  rm -rf --one-file-system "$HDFS_HOME/data"
  mkdir -p "$HDFS_HOME/data"
  mapfile -t java < <(hdfs_daemon_java nn1 "$HDFS_IP" "$HDFS_IP" 256)
  timeout 120 "${java[@]}" "$HDFS_NAMENODE_CLASS" $(! hdfs_is_ha || echo -D dfs.ha.namenode.id=nn1) -format -force -nonInteractive >"$log" 2>&1 </dev/null ||
    die "cannot format HDFS, see $log"
  for ((k = 2; k <= HDFS_NAMENODES; k++)); do cp -r "$HDFS_HOME/data/nn1" "$HDFS_HOME/data/nn$k"; done
}

hdfs_start_namenode() { # nn1 ...
  local java ports=() id=()
  is_running "hdfs-$1" && return
  mapfile -t java < <(hdfs_daemon_java "$1" "$HDFS_IP" "$HDFS_IP" 256)
  ! hdfs_is_ha || id=(-D "dfs.ha.namenode.id=$1")
  start_process "hdfs-$1" "${java[@]}" "$HDFS_NAMENODE_CLASS" "${id[@]}" "${ports[@]}"
}

hdfs_start_datanode() { # dn1 ...
  local java
  is_running "hdfs-$1" && return
  mapfile -t java < <(hdfs_daemon_java "$1" "$(hdfs_datanode_ip "$1")" "$NET.2.${1#dn}" 160)
  start_process "hdfs-$1" "${java[@]}" "$HDFS_DATANODE_CLASS"
}

hdfs_namenode_answers() { curl -sf --max-time 2 -o /dev/null "http://$HDFS_IP:$((9869 + ${1#nn}))/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus"; }

hdfs_daemons_up() {
  local k
  [ "$HDFS_MODE" != kerberos ] || hdfs_kdc_up
  hdfs_format
  for ((k = 1; k <= HDFS_NAMENODES; k++)); do hdfs_start_namenode "nn$k"; done
  for ((k = 1; k <= HDFS_DATANODES; k++)); do hdfs_start_datanode "dn$k"; done
  for ((k = 1; k <= HDFS_NAMENODES; k++)); do wait_until 120 "NameNode nn$k" "$LOGS/hdfs-nn$k.log" hdfs_namenode_answers "nn$k"; done
  ! hdfs_is_ha || hdfs_active >/dev/null || hdfs_tool org.apache.hadoop.hdfs.tools.DFSHAAdmin -transitionToActive nn1
}

hdfs_active() { # prints the active NameNode
  local k state
  for ((k = 1; k <= HDFS_NAMENODES; k++)); do
    state=$(curl -sf --max-time 2 "http://$HDFS_IP:$((9869 + k))/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus" | jq -r '.beans[0].State') || continue
    [ "$state" != active ] || { echo "nn$k"; return; }
  done
  return 1
}

# Everything of the KDC lies in one folder and is named by environment, so the machine's own Kerberos is not touched. Java reads
# the realm only from lines of their own: "REALM = { ... }" on one line is an error to it and silently ignored by the KDC.
hdfs_kdc_config() {
  local folder=$HDFS_HOME/kerberos
  mkdir -p "$folder"
  cat >"$folder/krb5.conf" <<CONF
[libdefaults]
 default_realm = TEST.BED
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 dns_canonicalize_hostname = false
 udp_preference_limit = 1
[realms]
 TEST.BED = {
  kdc = $HDFS_IP:10088
 }
[domain_realm]
 .test = TEST.BED
CONF
  cat >"$folder/kdc.conf" <<CONF
[kdcdefaults]
 kdc_listen = $HDFS_IP:10088
 kdc_tcp_listen = $HDFS_IP:10088
[realms]
 TEST.BED = {
  database_name = $folder/principal
  key_stash_file = $folder/stash
  max_life = 10h
  supported_enctypes = aes256-cts:normal aes128-cts:normal
 }
CONF
}

hdfs_with_kdc() { KRB5_CONFIG=$HDFS_HOME/kerberos/krb5.conf KRB5_KDC_PROFILE=$HDFS_HOME/kerberos/kdc.conf "$@"; }

# DataNodes bind their calls to the host of their principal, so that each has one with its own address.
hdfs_make_principals() {
  local folder=$HDFS_HOME/kerberos name k log=$LOGS/hdfs-kadmin.log
  local services=(nn/hdfs.test HTTP/hdfs.test)
  for ((k = 1; k <= HDFS_DATANODES; k++)); do services+=("dn/$(hdfs_datanode_ip "$k")"); done
  hdfs_with_kdc kdb5_util create -r TEST.BED -s -P testbed >"$log" 2>&1 || die "cannot make the Kerberos database, see $log"
  for name in "${services[@]}" alice bob; do echo "addprinc -randkey $name"; done | hdfs_with_kdc kadmin.local -r TEST.BED >>"$log" 2>&1
  hdfs_with_kdc kadmin.local -r TEST.BED -q "ktadd -norandkey -k $folder/services.keytab ${services[*]}" >>"$log" 2>&1
  for name in alice bob; do hdfs_with_kdc kadmin.local -r TEST.BED -q "ktadd -norandkey -k $folder/$name.keytab $name" >>"$log" 2>&1; done
  [ -s "$folder/services.keytab" ] && [ -s "$folder/alice.keytab" ] || die "cannot make the Kerberos keys, see $log"
}

hdfs_kdc_up() {
  local program folder=$HDFS_HOME/kerberos
  is_running hdfs-kdc && return
  for program in krb5kdc kdb5_util kadmin.local kinit; do command -v "$program" >/dev/null || die "no $program: run scripts/setup hdfs"; done
  [ -e "$folder/krb5.conf" ] || hdfs_kdc_config
  [ -e "$folder/principal" ] || hdfs_make_principals
  start_process hdfs-kdc nsenter "--net=/run/netns/$HDFS_NS" env "KRB5_CONFIG=$folder/krb5.conf" "KRB5_KDC_PROFILE=$folder/kdc.conf" krb5kdc -n
  wait_until 30 "the KDC" "$LOGS/hdfs-kdc.log" hdfs_ticket alice
}

hdfs_ticket() { hdfs_with_kdc timeout 5 kinit -c "FILE:$HDFS_HOME/kerberos/$1.ccache" -kt "$HDFS_HOME/kerberos/$1.keytab" "$1"; }

# The HTTP servers keep their simple authentication: status pages and WebHDFS by user.name.
hdfs_kerberos_keys() {
  local keytab=$HDFS_HOME/kerberos/services.keytab
  cat <<KEYS
hadoop.security.auth_to_local=RULE:[2:\$1](nn|dn|HTTP)s/.*/root/ DEFAULT
dfs.namenode.keytab.file=$keytab
dfs.datanode.keytab.file=$keytab
dfs.datanode.kerberos.principal=dn/\${bed.address}@TEST.BED
dfs.web.authentication.kerberos.principal=HTTP/hdfs.test@TEST.BED
dfs.web.authentication.kerberos.keytab=$keytab
dfs.namenode.kerberos.internal.spnego.principal=HTTP/hdfs.test@TEST.BED
dfs.cluster.administrators=alice
hadoop.user.group.static.mapping.overrides=alice=testbed
dfs.permissions.superusergroup=testbed
ignore.secure.ports.for.testing=true
KEYS
}

hdfs_kerberos_env() {
  hdfs_ticket alice
  export_line KRB5_CONFIG "$HDFS_HOME/kerberos/krb5.conf"
  export_line KRB5CCNAME "FILE:$HDFS_HOME/kerberos/alice.ccache"
  export_line HDFS_PRINCIPAL alice@TEST.BED
  export_line HDFS_KEYTAB "$HDFS_HOME/kerberos/alice.keytab"
}
