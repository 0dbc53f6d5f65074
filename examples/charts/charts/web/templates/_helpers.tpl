{{- define "web.name" -}}
{{ printf "%s-web" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "web.labels" -}}
app.kubernetes.io/name: web
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
