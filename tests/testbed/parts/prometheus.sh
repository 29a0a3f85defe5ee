# Part "prometheus": Debian's Prometheus and Alertmanager in the hub. Scrapes the API server, pods with the annotation
# prometheus.io/scrape: "true" (and prometheus.io/port, /path, /scheme), and what STATE/prometheus/targets/*.yaml names; reads
# rules from STATE/prometheus/rules/*.yaml. "scripts/testbed restart prometheus" makes it read new rules.
# Debian builds Prometheus without service discovery of Kubernetes: discover-pods writes a target file in its place.
# shellcheck shell=bash

PARTS+=(prometheus)
PROMETHEUS_PROCESSES=(prometheus alertmanager discover-pods)

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
  honor_labels: true
  file_sd_configs: [{files: ["$folder/targets/*.yaml", "$folder/targets/*.json"], refresh_interval: 5s}]
YAML
  [ -e "$PKI/admin.kubeconfig" ] || return 0
  cat >>"$folder/prometheus.yml" <<YAML
- job_name: apiserver
  scrape_interval: 15s
  scheme: https
  tls_config: {ca_file: $PKI/ca.crt, cert_file: $PKI/admin.crt, key_file: $PKI/admin.key}
  static_configs: [{targets: ["$HUB_IP:6443"]}]
YAML
}

prometheus_answers() { curl -sf --max-time 2 "http://$HUB_IP:$1/-/ready"; }

part_prometheus_up() {
  local folder=$STATE/prometheus
  write_prometheus_config
  is_running alertmanager || start_process alertmanager prometheus-alertmanager --config.file="$folder/alertmanager.yml" \
    --storage.path="$folder/alertmanager" --web.listen-address="$HUB_IP:9093" --cluster.listen-address=
  is_running prometheus || start_process prometheus prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" \
    --web.listen-address="$HUB_IP:9090" --web.enable-lifecycle --storage.tsdb.retention.time=1d
  if is_running kube-apiserver && ! is_running discover-pods; then
    start_process discover-pods /usr/bin/python3 "$BED_SOURCE/discover-pods.py" "https://$HUB_IP:6443" "$PKI" "$folder/targets/pods.json"
  fi
  wait_until 60 "Prometheus" "$LOGS/prometheus.log" prometheus_answers 9090
  wait_until 60 "Alertmanager" "$LOGS/alertmanager.log" prometheus_answers 9093
}

part_prometheus_clear() { rm -rf --one-file-system "$STATE/prometheus"; }

part_prometheus_status() { is_running prometheus && echo "prometheus  http://$HUB_IP:9090, Alertmanager http://$HUB_IP:9093"; }

part_prometheus_env() {
  is_running prometheus || return 0
  export_line PROMETHEUS_URL "http://$HUB_IP:9090"
  export_line ALERTMANAGER_URL "http://$HUB_IP:9093"
  export_line PROMETHEUS_TARGETS "$STATE/prometheus/targets"
  export_line PROMETHEUS_RULES "$STATE/prometheus/rules"
}
