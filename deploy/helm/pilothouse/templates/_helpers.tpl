{{/* The name of all objects: the release's, with the chart's in it. */}}
{{- define "pilothouse.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the hosts' pods. */}}
{{- define "pilothouse.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of pods. */}}
{{- define "pilothouse.podLabels" -}}
{{ include "pilothouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end -}}

{{- define "pilothouse.labels" -}}
{{ include "pilothouse.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The volume with the plugins. */}}
{{- define "pilothouse.plugins" -}}
name: plugins
{{- if eq .from "configMaps" }}
projected:
  sources:
    {{- range .configMaps }}
    - configMap:
        name: {{ . }}
        optional: true
    {{- end }}
{{- else if eq .from "volume" }}
persistentVolumeClaim:
  claimName: {{ .volume.claimName }}
  readOnly: true
{{- else }}
image:
  {{- toYaml .image | nindent 2 }}
{{- end }}
{{- end -}}
