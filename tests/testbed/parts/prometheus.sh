# Part "prometheus": Debian's Prometheus and Alertmanager in the hub. Scrapes the API server, pods with the annotation
# prometheus.io/scrape: "true" (and prometheus.io/port, /path), and what STATE/prometheus/targets/*.yaml names; reads rules
# from STATE/prometheus/rules/*.yaml. "scripts/testbed restart prometheus" makes it read new rules.
# shellcheck shell=bash

PARTS+=(prometheus)

write_prometheus_config() {
  local folder=$STATE/prometheus
  mkdir -p "$folder"/{targets,rules,data,alertmanager}
  cat >"$folder/alertmanager.yml" <<'YAML'
route: {receiver: none, group_wait: 1s, group_interval: 5s, repeat_interval: 1h}
receivers: [{name: none}]
YAML
  cat >"$folder/prometheus.yml" <<YAML
global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: ["$folder/rules/*.yaml", "$folder/rules/*.yml"]
alerting: {alertmanagers: [{static_configs: [{targets: ["$HUB_IP:9093"]}]}]}
scrape_configs:
- job_name: prometheus
  static_configs: [{targets: ["$HUB_IP:9090", "$HUB_IP:9093"]}]
- job_name: files
  file_sd_configs: [{files: ["$folder/targets/*.yaml", "$folder/targets/*.json"], refresh_interval: 5s}]
YAML
  [ -e "$PKI/admin.kubeconfig" ] || return 0
  cat >>"$folder/prometheus.yml" <<YAML
- job_name: apiserver
  scrape_interval: 15s
  scheme: https
  tls_config: {ca_file: $PKI/ca.crt, cert_file: $PKI/admin.crt, key_file: $PKI/admin.key}
  static_configs: [{targets: ["$HUB_IP:6443"]}]
- job_name: pods
  kubernetes_sd_configs: [{role: pod, kubeconfig_file: $PKI/admin.kubeconfig}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_scrape], regex: "true", action: keep}
  - {source_labels: [__meta_kubernetes_pod_phase], regex: "Pending|Succeeded|Failed", action: drop}
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_path], regex: (.+), target_label: __metrics_path__}
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_scheme], regex: (.+), target_label: __scheme__}
  - source_labels: [__meta_kubernetes_pod_ip, __meta_kubernetes_pod_annotation_prometheus_io_port]
    regex: (.+);(.+)
    replacement: \$1:\$2
    target_label: __address__
  # One target per pod, not one per declared port.
  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
  - {source_labels: [__meta_kubernetes_pod_node_name], target_label: node}
YAML
}

prometheus_answers() { curl -sf --max-time 2 "http://$HUB_IP:$1/-/ready"; }

part_prometheus_up() {
  local folder=$STATE/prometheus
  is_running prometheus && is_running alertmanager && return
  write_prometheus_config
  is_running alertmanager || start_process alertmanager prometheus-alertmanager --config.file="$folder/alertmanager.yml" \
    --storage.path="$folder/alertmanager" --web.listen-address="$HUB_IP:9093" --cluster.listen-address=
  is_running prometheus || start_process prometheus prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" \
    --web.listen-address="$HUB_IP:9090" --web.enable-lifecycle --storage.tsdb.retention.time=1d
  wait_until 60 "Prometheus" "$LOGS/prometheus.log" prometheus_answers 9090
  wait_until 60 "Alertmanager" "$LOGS/alertmanager.log" prometheus_answers 9093
}

part_prometheus_status() { is_running prometheus && echo "prometheus  http://$HUB_IP:9090, Alertmanager http://$HUB_IP:9093"; }

part_prometheus_env() {
  is_running prometheus || return 0
  export_line PROMETHEUS_URL "http://$HUB_IP:9090"
  export_line ALERTMANAGER_URL "http://$HUB_IP:9093"
  export_line PROMETHEUS_TARGETS "$STATE/prometheus/targets"
  export_line PROMETHEUS_RULES "$STATE/prometheus/rules"
}
