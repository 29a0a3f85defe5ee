# Part "registry": Debian's docker-registry, twice over one store.
#   registry.test:5000  TLS and basic auth, read and write: what a private registry is to a user
#   registry.test:5001  TLS, nobody asked, read only: system images, and tests that are not about secrets
# shellcheck shell=bash

PARTS+=(registry)
REGISTRY_PROCESSES=(registry registry-open throttle)

registry_config() { # file address auth|open
  cat >"$1" <<YAML
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: $STATE/registry}
  delete: {enabled: true}
$([ "$3" = auth ] || echo "  maintenance: {readonly: {enabled: true}}")
http:
  addr: $2
  secret: $BED_NAME
  tls: {certificate: $PKI/registry.crt, key: $PKI/registry.key}
$([ "$3" != auth ] || echo "auth: {htpasswd: {realm: testbed, path: $STATE/registry.htpasswd}}")
YAML
}

registry_answers() { curl -s --max-time 2 --cacert "$PKI/ca.crt" -o /dev/null "https://$HUB_IP:$1/v2/"; }

part_registry_up() {
  mkdir -p "$STATE/registry" "$PKI/registry-ca"
  pki_cert registry /CN=registry.test "DNS:registry.test,DNS:localhost,IP:$HUB_IP,IP:127.0.0.1"
  cp "$PKI/ca.crt" "$PKI/registry-ca/ca.crt"
  # The cheapest bcrypt: the hash is checked at each request.
  [ -e "$STATE/registry.htpasswd" ] || htpasswd -bnBC 4 "$REGISTRY_USER" "$REGISTRY_PASSWORD" | grep . >"$STATE/registry.htpasswd"
  registry_config "$STATE/registry.yml" "$HUB_IP:5000" auth
  registry_config "$STATE/registry-open.yml" "$HUB_IP:5001" open
  is_running registry || start_process registry docker-registry serve "$STATE/registry.yml"
  is_running registry-open || start_process registry-open docker-registry serve "$STATE/registry-open.yml"
  wait_until 60 "the registry" "$LOGS/registry.log" registry_answers 5000
  wait_until 60 "the open registry" "$LOGS/registry-open.log" registry_answers 5001
  # No image is needed for a node to become Ready, so this goes on beside the control plane's start.
  (exec 9>&-; push_bed_images pause busybox python) >>"$LOGS/images.log" 2>&1 </dev/null &
  REGISTRY_PUSH=$!
}

part_registry_settle() {
  [ -z "${REGISTRY_PUSH:-}" ] || wait "$REGISTRY_PUSH" || die "cannot push the images, see $LOGS/images.log"
}

part_registry_clear() {
  in_hub nft delete table ip registry-limit 2>/dev/null || true
  rm -rf --one-file-system "$STATE/registry"
}

part_registry_status() {
  is_running registry && registry_answers 5000 && echo "registry    registry.test:5000 (auth), registry.test:5001 (open); from here $HUB_IP:5000"
}

part_registry_env() {
  is_running registry || return 0
  export_line REGISTRY registry.test:5000
  export_line REGISTRY_OPEN registry.test:5001
  export_line REGISTRY_ADDRESS "$HUB_IP:5000"
  export_line REGISTRY_USER "$REGISTRY_USER"
  export_line REGISTRY_PASSWORD "$REGISTRY_PASSWORD"
  export_line REGISTRY_CA "$PKI/ca.crt"
}

# registry-limit --mbit N --delay-ms N | off: new connections to port 5000 and 5001 go through throttle.py.
command_registry_limit() {
  local mbit=0 delay=0
  need_instance
  is_running registry || die "the registry is not up"
  while [ $# -gt 0 ]; do
    case $1 in
      --mbit) mbit=$2; shift ;;
      --delay-ms) delay=$2; shift ;;
      off) ;;
      *) die "registry-limit: unknown argument $1" ;;
    esac
    shift
  done
  in_hub nft delete table ip registry-limit 2>/dev/null || true
  stop_process throttle KILL 5
  rm -f "$RUN/throttle.cmd"
  [ "$mbit$delay" != 00 ] || { say "registry limit is off"; return; }
  start_process throttle /usr/bin/python3 "$BED_SOURCE/throttle.py" --mbit "$mbit" --delay-ms "$delay" \
    "$HUB_IP:5600=$HUB_IP:5000" "$HUB_IP:5601=$HUB_IP:5001"
  wait_until 30 "the throttle" "$LOGS/throttle.log" port_open "$HUB_IP" 5600
  in_hub nft -f - <<NFT
table ip registry-limit {
  chain prerouting {
    type nat hook prerouting priority -150;
    ip daddr $HUB_IP tcp dport 5000 dnat to $HUB_IP:5600
    ip daddr $HUB_IP tcp dport 5001 dnat to $HUB_IP:5601
  }
}
NFT
  say "registry limited to $mbit Mbit/s (0 = no limit), $delay ms each way, for new connections"
}
