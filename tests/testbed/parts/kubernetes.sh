# Part "kubernetes": etcd, API server, controller-manager, scheduler, CoreDNS and kube-proxy in the hub, and the nodes.
# shellcheck shell=bash

PARTS+=(kubernetes)
KUBERNETES_NEEDS=(registry)
KUBERNETES_PROCESSES=(etcd "kube-*" coredns)

write_audit_policy() {
  cat >"$STATE/audit-policy.yaml" <<'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
YAML
}

start_etcd() {
  # shellcheck disable=SC2086 # flags are split on purpose
  start_process etcd "$KUBE_BIN/etcd" --name=testbed --data-dir="$STATE/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
    --listen-peer-urls=http://127.0.0.1:2380 --initial-advertise-peer-urls=http://127.0.0.1:2380 \
    --initial-cluster=testbed=http://127.0.0.1:2380 --quota-backend-bytes=8589934592 $ETCD_FLAGS
}

# --enable-aggregator-routing: webhooks and aggregated APIs that name a Service are called at the address of a ready
# pod, so they work from the first moment and do not hang on the hub's kube-proxy.
start_apiserver() {
  write_audit_policy
  # shellcheck disable=SC2086
  start_process kube-apiserver "$KUBE_BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
    --bind-address=0.0.0.0 --advertise-address="$HUB_IP" --secure-port=6443 \
    --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" --client-ca-file="$PKI/ca.crt" \
    --kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt" --kubelet-client-key="$PKI/apiserver-kubelet-client.key" \
    --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --service-account-issuer=https://kubernetes.default.svc --service-account-signing-key-file="$PKI/sa.key" \
    --service-account-key-file="$PKI/sa.pub" --service-cluster-ip-range="$SERVICE_CIDR" \
    --requestheader-client-ca-file="$PKI/ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$PKI/front-proxy-client.crt" --proxy-client-key-file="$PKI/front-proxy-client.key" \
    --authorization-mode=Node,RBAC --allow-privileged=true --enable-aggregator-routing=true --profiling=false \
    --audit-policy-file="$STATE/audit-policy.yaml" --audit-log-path="$LOGS/audit.log" --audit-log-maxsize=200 --audit-log-maxbackup=2 \
    $APISERVER_FLAGS
}

start_controllers() {
  local name flags
  for name in controller-manager scheduler; do
    flags=(--kubeconfig="$PKI/$name.kubeconfig" --authentication-kubeconfig="$PKI/$name.kubeconfig"
      --authorization-kubeconfig="$PKI/$name.kubeconfig" --leader-elect=false --bind-address=127.0.0.1 --profiling=false)
    if [ "$name" = controller-manager ]; then
      # Without a higher client limit it takes 5 s to make the first service accounts.
      # shellcheck disable=SC2206
      flags+=(--service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt" --use-service-account-credentials
        --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key" --kube-api-qps=500 --kube-api-burst=1000
        --node-monitor-grace-period=20s $CONTROLLER_FLAGS)
    else
      # shellcheck disable=SC2206
      flags+=($SCHEDULER_FLAGS)
    fi
    is_running "kube-$name" || start_process "kube-$name" "$KUBE_BIN/kube-$name" "${flags[@]}"
  done
}

start_dns() {
  cat >"$STATE/Corefile" <<CONF
.:53 {
  bind $HUB_IP
  errors
  cache 2
  hosts {
    $HUB_IP registry.test prometheus.test hub.test
    $HOST_IP machine.test
    fallthrough
  }
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $PKI/admin.kubeconfig
    pods insecure
  }
}
CONF
  start_process coredns "$(tool coredns)" -conf "$STATE/Corefile"
}

# Gives the machine itself, and what runs in the hub, the Services' addresses. There is no Node of that name, so it
# waits half a minute before it acts; nothing of the test bed needs it earlier.
start_hub_proxy() {
  start_process kube-proxy "$KUBE_BIN/kube-proxy" --kubeconfig="$PKI/kube-proxy.kubeconfig" --proxy-mode=nftables --hostname-override=hub \
    --cluster-cidr="$NET.0.0/16" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 \
    --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249 --nodeport-addresses="$HUB_IP/32"
}

api_ready() { api_get /readyz; }
api_ready_or_ended() { ! is_running kube-apiserver || api_ready; }
await_api_server() {
  local log=$LOGS/kube-apiserver.log
  wait_until 240 "the API server" "$log" api_ready_or_ended
  is_running kube-apiserver || { tail -n 5 "$log" >&2; die "kube-apiserver ended at once, see $log"; }
}

control_plane_up() {
  pki_control_plane
  is_running etcd || start_etcd
  is_running kube-apiserver || start_apiserver
  await_api_server
  # Both exit when they start before the API server has made its own RBAC objects, which /readyz includes.
  start_controllers
  is_running coredns || start_dns
  is_running kube-proxy || start_hub_proxy
}

part_kubernetes_up() {
  local count=${NODE_COUNT:-2} began have node boot started=() boots=()
  began=$(now_ms)
  control_plane_up
  say "API server ready after $(seconds_since "$began") s"
  have=$(known_nodes | wc -l)
  while [ "$have" -lt "$count" ]; do mkdir -p "$NODES/$(next_node)"; have=$((have + 1)); done
  for node in $(known_nodes); do node_is_up "$node" || started+=("$node"); done
  for node in "${started[@]}"; do node_boot "$node" & boots+=($!); done
  for boot in "${boots[@]}"; do wait "$boot" || die "a node did not start, see $LOGS/*-init.log"; done
  for node in $(known_nodes); do wait_node_ready "$node" 240; done
  wait_until 60 "the default service account" "$LOGS/kube-controller-manager.log" api_get /api/v1/namespaces/default/serviceaccounts/default
  pull_secret default registry >/dev/null
  say "$(known_nodes | wc -l) node(s) Ready after $(seconds_since "$began") s"
}

part_kubernetes_clear() {
  local node
  for node in $(known_nodes); do node_power_cut "$node" & done
  wait
  for node in $(known_nodes); do rm -rf --one-file-system "${NODES:?}/$node" "$PKI/node-$node".*; done
  # A store of its own for the next one: nobody may write to this one any more.
  stop_process kube-apiserver KILL 10
  stop_process etcd KILL 10
  rm -rf --one-file-system "$STATE/etcd"
}

part_kubernetes_status() {
  is_running kube-apiserver || { echo "kubernetes  API server is down"; return 1; }
  echo "kubernetes  https://$HUB_IP:6443 ($(kubectl version -o json 2>/dev/null | jq -r .serverVersion.gitVersion), containerd $CONTAINERD_KIND)"
  kubectl get nodes -l paceline.dev/testbed-node -o wide 2>/dev/null | sed 's/^/            /'
}

part_kubernetes_env() {
  is_running kube-apiserver || return 0
  export_line KUBECONFIG "$PKI/admin.kubeconfig"
  export_line PACELINE_TESTBED_HUB_IP "$HUB_IP"
  export_line PACELINE_TESTBED_MACHINE_IP "$HOST_IP"
  export_line PACELINE_TESTBED_AUDIT_LOG "$LOGS/audit.log"
}

# Makes the pull secret of the private registry in a namespace. With a third argument also adds it to that service account.
pull_secret() { # namespace name [service-account]
  kubectl create secret docker-registry "$2" --namespace "$1" --docker-server=registry.test:5000 --docker-username="$REGISTRY_USER" \
    --docker-password="$REGISTRY_PASSWORD" --dry-run=client -o yaml | kubectl apply -f -
  [ -z "${3:-}" ] || kubectl patch serviceaccount "$3" --namespace "$1" -p "{\"imagePullSecrets\": [{\"name\": \"$2\"}]}"
}

# pull-secret NAMESPACE [--name NAME] [--service-account NAME]
command_pull_secret() {
  local namespace="" name=registry account=""
  need_instance
  while [ $# -gt 0 ]; do
    case $1 in
      --name) name=$2; shift ;;
      --service-account) account=$2; shift ;;
      -*) die "pull-secret: unknown option $1" ;;
      *) namespace=$1 ;;
    esac
    shift
  done
  [ -n "$namespace" ] || die "pull-secret: which namespace?"
  kubectl get namespace "$namespace" >/dev/null 2>&1 || kubectl create namespace "$namespace"
  pull_secret "$namespace" "$name" "$account"
}
