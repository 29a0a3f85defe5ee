{{- define "paceline.snapshotter.name" -}}{{ include "paceline.fullname" . }}-snapshotter{{- end }}
{{- define "paceline.snapshotter.metricsPort" -}}{{ .Values.snapshotter.config.metrics.port }}{{- end }}
{{/* The Secret with which nodes know each other; empty: they do not share chunks. */}}
{{- define "paceline.snapshotter.peersSecret" -}}
{{- if .Values.snapshotter.enabled }}
{{- if eq .Values.snapshotter.peers.certificates "self-managed" }}{{ include "paceline.snapshotter.name" . }}-peers{{ end }}
{{- if eq .Values.snapshotter.peers.certificates "secret" }}{{ .Values.snapshotter.peers.secretName }}{{ end }}
{{- end }}
{{- end }}
{{/* The plugin's configuration: the values, and the paths that its DaemonSet mounts. */}}
{{- define "paceline.snapshotter.config" -}}
{{- $config := deepCopy .Values.snapshotter.config }}
{{- $registry := dict "hostsFolder" .Values.snapshotter.hostsFolder }}
{{- if .Values.snapshotter.registrySecret }}
{{- $_ := set $registry "credentials" "/etc/paceline-registry/.dockerconfigjson" }}
{{- end }}
{{- $fixed := dict
      "root" .Values.snapshotter.root
      "socket" (printf "%s/snapshotter.sock" .Values.snapshotter.runDir)
      "status" (dict "socket" (printf "%s/status.sock" .Values.snapshotter.runDir))
      "keeper" (dict "socket" (printf "%s/keeper.sock" .Values.snapshotter.runDir) "spawn" false)
      "registry" $registry
      "stores" (list (default "image" .Values.conversion.store)) }}
{{- if include "paceline.snapshotter.peersSecret" . }}
{{- $_ := set $fixed "peers" (dict "certificates" "/etc/paceline-peers" "port" .Values.snapshotter.peers.port "serverName" .Values.snapshotter.peers.serverName) }}
{{- end }}
{{- toYaml (mergeOverwrite $fixed $config) }}
{{- end }}
{{/* Whether the agent needs a mount of its own to see the plugin's socket. */}}
{{- define "paceline.snapshotter.ownRunDir" -}}
{{- $isBelow := and (include "paceline.holder.enabled" .) (hasPrefix (printf "%s/" .Values.holder.runDir) .Values.snapshotter.runDir) }}
{{- if and .Values.snapshotter.enabled (not $isBelow) }}true{{ end }}
{{- end }}
{{/* On the same nodes: the plugin and its keeper. */}}
{{- define "paceline.snapshotter.placement" -}}
{{- with .Values.snapshotter.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.snapshotter.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.snapshotter.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
