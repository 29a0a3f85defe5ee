# Part "kwok": fake nodes beside the real ones, for scale. They are tainted (kwok.x-k8s.io/node=fake:NoSchedule), so only pods
# that tolerate it land there; such pods are reported Running (or Succeeded, see images/kwok-stages.yaml) at once.
# shellcheck shell=bash

PARTS+=(kwok)
KWOK_NEEDS=(kubernetes)
KWOK_PROCESSES=(kwok)

kwok_nodes_yaml() { # from to
  local i
  for ((i = $1; i <= $2; i++)); do
    cat <<YAML
---
apiVersion: v1
kind: Node
metadata:
  name: fake-$i
  labels: {type: kwok, kubernetes.io/hostname: fake-$i, kubernetes.io/os: linux, kubernetes.io/arch: amd64}
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
spec: {taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]}
status:
  allocatable: {cpu: "64", memory: 512Gi, pods: "110", nvidia.com/gpu: "8"}
  capacity: {cpu: "64", memory: 512Gi, pods: "110", nvidia.com/gpu: "8"}
YAML
  done
}

kwok_ready_count() {
  api_get "/api/v1/nodes?labelSelector=type%3Dkwok" | jq '[.items[].status.conditions[]? | select(.type == "Ready" and .status == "True")] | length'
}
kwok_all_ready() { [ "$(kwok_ready_count)" -ge "$1" ]; }

part_kwok_up() {
  local want=${KWOK_COUNT:-10} have
  is_running kwok || start_process kwok "$(tool kwok)" --kubeconfig="$PKI/admin.kubeconfig" --config="$BED_SOURCE/kwok-stages.yaml" \
    --manage-all-nodes=false --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-lease-duration-seconds=40 \
    --cidr="10.0.0.1/24" --node-ip="$HUB_IP" --server-address=127.0.0.1:10247 --v=WARN
  have=$(kubectl get nodes -l type=kwok --no-headers 2>/dev/null | wc -l)
  [ "$have" -ge "$want" ] || kwok_nodes_yaml $((have + 1)) "$want" | KUBECTL_TIMEOUT=60s kubectl create -f - >/dev/null
  wait_until 120 "$want fake nodes to be Ready" "$LOGS/kwok.log" kwok_all_ready "$want"
}

part_kwok_clear() { KUBECTL_TIMEOUT=60s kubectl delete nodes -l type=kwok --wait=false >/dev/null || true; }

part_kwok_status() { is_running kwok && echo "kwok        $(kwok_ready_count) fake nodes Ready"; }
part_kwok_env() { :; }
