{{- define "paceline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The release's name is part of the names only where it says more than the chart's. */}}
{{- define "paceline.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "paceline.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "paceline.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "paceline.operator.name" -}}{{ include "paceline.fullname" . }}-operator{{- end }}
{{- define "paceline.agent.name" -}}{{ include "paceline.fullname" . }}-agent{{- end }}
{{- define "paceline.holder.name" -}}{{ include "paceline.fullname" . }}-holder{{- end }}
{{/* Nobody would ask a holder without an agent. */}}
{{- define "paceline.holder.enabled" -}}{{ if and .Values.agent.enabled .Values.holder.enabled }}true{{ end }}{{- end }}
{{- define "paceline.webhook.name" -}}{{ include "paceline.fullname" . }}-webhook{{- end }}
{{- define "paceline.webhook.secret" -}}{{ include "paceline.fullname" . }}-webhook-certificate{{- end }}
{{/* Webhook configurations are not namespaced: two releases must not share one. */}}
{{- define "paceline.webhook.configuration" -}}{{ include "paceline.fullname" . }}{{- end }}

{{- define "paceline.operator.serviceAccount" -}}
{{- default (include "paceline.operator.name" .) .Values.operator.serviceAccount.name }}
{{- end }}
{{- define "paceline.agent.serviceAccount" -}}
{{- default (include "paceline.agent.name" .) .Values.agent.serviceAccount.name }}
{{- end }}

{{- define "paceline.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: {{ include "paceline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: paceline
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Never change these: a Deployment's selector is immutable. Called with (list $ "operator"). */}}
{{- define "paceline.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "paceline.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* metadata of an object; called with (list $ NAME COMPONENT). */}}
{{- define "paceline.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
labels:
  {{- include "paceline.labels" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 2 }}
{{- with $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "paceline.namespacedMetadata" -}}
{{ include "paceline.metadata" . }}
namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{/* Called with (list $ IMAGE). */}}
{{- define "paceline.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.registry }}{{ $image.registry }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default $root.Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{/* The operator's configuration: the values, and what the chart itself decides. */}}
{{- define "paceline.operator.config" -}}
{{- $config := deepCopy .Values.operator.config }}
{{- $webhook := dict
      "secret" (include "paceline.webhook.secret" .)
      "configurations" (list (include "paceline.webhook.configuration" .))
      "dnsNames" (list
        (printf "%s.%s.svc" (include "paceline.webhook.name" .) .Release.Namespace)
        (printf "%s.%s.svc.cluster.local" (include "paceline.webhook.name" .) .Release.Namespace)) }}
{{- if eq .Values.webhook.certificates "cert-manager" }}
{{- $webhook = dict "certificates" "files" "certificateFile" "/etc/paceline-webhook/tls.crt" "keyFile" "/etc/paceline-webhook/tls.key" }}
{{- end }}
{{- $_ := set $config "webhook" (mergeOverwrite $webhook (default dict $config.webhook)) }}
{{- if not .Values.agent.enabled }}
{{- $_ := set $config.webhook "stageVolume" false }}
{{- end }}
{{- with .Values.conversion }}
{{- if .store }}
{{- $_ := set $config "conversion" (dict "store" .store "podTemplate" "/etc/paceline/converter.json" "images" .images "atOnce" .atOnce "timeLimit" .timeLimit) }}
{{- end }}
{{- end }}
{{- if and .Values.snapshotter.enabled (eq .Values.snapshotter.peers.certificates "self-managed") }}
{{- $peers := dict "secret" (include "paceline.snapshotter.peersSecret" .) "serverName" .Values.snapshotter.peers.serverName }}
{{- $_ := set $config "peers" (mergeOverwrite $peers (default dict $config.peers)) }}
{{- end }}
{{- if .Values.dependencies.registrySecret }}
{{- $_ := set $config "registry" (mergeOverwrite (include "paceline.registry" . | fromYaml) (default dict $config.registry)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* How registries are reached for dependency snapshots, and the Secret for it in a pod. */}}
{{- define "paceline.registry" -}}
{{- with .Values.dependencies.registrySecret -}}
credentials: /etc/paceline-registry/.dockerconfigjson
{{- end }}
{{- end }}
{{- define "paceline.registry.volumeMounts" -}}
{{- if .Values.dependencies.registrySecret }}
- name: registry
  mountPath: /etc/paceline-registry
  readOnly: true
{{- end }}
{{- end }}
{{- define "paceline.registry.volumes" -}}
{{- with .Values.dependencies.registrySecret }}
- name: registry
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}
{{/* The same, and the folder of a store: where snapshots are recorded and served. */}}
{{- define "paceline.dependencies.volumeMounts" -}}
{{- include "paceline.registry.volumeMounts" . }}
{{- with .Values.dependencies.hostPath }}
- name: dependencies
  mountPath: {{ . }}
  mountPropagation: HostToContainer
{{- end }}
{{- end }}
{{- define "paceline.dependencies.volumes" -}}
{{- include "paceline.registry.volumes" . }}
{{- with .Values.dependencies.hostPath }}
- name: dependencies
  hostPath:
    path: {{ . }}
    type: Directory
{{- end }}
{{- end }}

{{/* The agent's configuration: the values, and the paths that the DaemonSet mounts. */}}
{{- define "paceline.agent.config" -}}
{{- $config := deepCopy .Values.agent.config }}
{{- $facts := dict "hostRoot" "/host" "containerdSocket" "" }}
{{- with .Values.agent.containerdSocket }}
{{- $_ := set $facts "containerdSocket" (printf "/host%s" .) }}
{{- end }}
{{- $holder := dict "socket" (printf "%s/holder/holder.sock" .Values.holder.runDir) }}
{{- $fixed := dict "kubeletDir" .Values.agent.kubeletDir "stateDir" .Values.agent.stateDir "facts" $facts "holder" $holder
      "snapshotter" (dict "socket" (printf "%s/status.sock" .Values.snapshotter.runDir)) }}
{{- with .Values.dependencies.store }}
{{- $dependencies := dict "store" . }}
{{- with $.Values.dependencies.signing }}
{{- if .secret }}
{{- $_ := set $dependencies "signingKey" "/etc/paceline-signing/signing.pem" }}
{{- if .trustedKeys }}
{{- $_ := set $dependencies "trustedKeys" "/etc/paceline-signing/trusted.pem" }}
{{- end }}
{{- $_ := set $dependencies "requireSignatures" .required }}
{{- end }}
{{- end }}
{{- $_ := set $fixed "dependencies" $dependencies }}
{{- end }}
{{- if .Values.dependencies.registrySecret }}
{{- $_ := set $fixed "registry" (include "paceline.registry" . | fromYaml) }}
{{- end }}
{{- toYaml (mergeOverwrite $fixed $config) }}
{{- end }}

{{/* The holder's: the values, and the paths that both DaemonSets mount. */}}
{{- define "paceline.holder.config" -}}
{{- $config := deepCopy .Values.holder.config }}
{{- $fixed := dict
      "stateDir" (printf "%s/holder" .Values.holder.runDir)
      "mountRoot" (printf "%s/plugins/csi.paceline.dev/mounts" .Values.agent.kubeletDir) }}
{{- toYaml (mergeOverwrite $fixed $config) }}
{{- end }}

{{- define "paceline.operator.metricsPort" -}}{{ .Values.operator.config.metrics.port }}{{- end }}
{{- define "paceline.agent.metricsPort" -}}{{ .Values.agent.config.metricsPort }}{{- end }}

{{/* Annotations of a pod; called with (list $ CONFIG-TEXT PORT POD-ANNOTATIONS). */}}
{{- define "paceline.podAnnotations" -}}
{{- $root := index . 0 -}}
checksum/config: {{ index . 1 | sha256sum }}
{{- if $root.Values.monitoring.podAnnotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ index . 2 | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- with index . 3 }}
{{ toYaml . }}
{{- end }}
{{- end }}
