{{- define "paceline.converter.priorityClass" -}}
{{- if .Values.conversion.priorityClass.create }}{{ default (printf "%s-background" (include "paceline.fullname" .)) .Values.conversion.priorityClass.name }}{{ else }}{{ .Values.conversion.priorityClass.name }}{{ end }}
{{- end }}
{{/* The pod template of the Jobs that convert images, as the operator reads it from a file. */}}
{{- define "paceline.converter.template" -}}
{{- $values := .Values.conversion -}}
metadata:
  labels:
    {{- include "paceline.labels" . | nindent 4 }}
    app.kubernetes.io/component: converter
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 5
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "paceline.converter.priorityClass" . }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: converter
      image: {{ include "paceline.image" (list $ $values.image) }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        - --threads={{ $values.threads }}
        {{- if $values.registrySecret }}
        - --docker-config=/etc/paceline-registry
        {{- end }}
        {{- with $values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      {{- if or $values.registrySecret $values.extraVolumeMounts }}
      volumeMounts:
        {{- if $values.registrySecret }}
        - name: registry
          mountPath: /etc/paceline-registry
          readOnly: true
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
  {{- if or $values.registrySecret $values.extraVolumes }}
  volumes:
    {{- with $values.registrySecret }}
    - name: registry
      secret:
        secretName: {{ . }}
        items:
          - key: .dockerconfigjson
            path: config.json
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
