{{/* Labels of every object. */}}
{{- define "agent.labels" -}}
{ app.kubernetes.io/name: {{ .Values.name }}, app.kubernetes.io/part-of: leat, app.kubernetes.io/instance: {{ .Release.Name }} }
{{- end }}

{{/* Its subjects, of bindings. */}}
{{- define "agent.subjects" -}}
- { kind: ServiceAccount, name: {{ .Values.name }}, namespace: {{ .Release.Namespace }} }
{{- end }}

{{- define "agent.image" -}}
{{- $i := .Values.image -}}
{{- with $i.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $i.repository }}:{{ $i.tag | default .Chart.AppVersion }}{{ with $i.digest }}@{{ . }}{{ end }}
{{- end }}

{{/*
Resources by size. The agent's own part of the memory is GOMEMLIMIT; processes that render may together use half of the limit while they run
(LEAT_AGENT_RENDER_MEMORY): two, of 256 MiB each. With less than 1Gi there is one, and a service that renders for long holds up the others.
*/}}
{{- define "agent.size" -}}
{{- get (dict
  "small" (dict "cpu" "50m" "memory" "64Mi" "limit" "1Gi" "goMemory" "180MiB")
  "medium" (dict "cpu" "100m" "memory" "192Mi" "limit" "1536Mi" "goMemory" "450MiB")
  "large" (dict "cpu" "250m" "memory" "512Mi" "limit" "3Gi" "goMemory" "1200MiB")
) .Values.size | toJson -}}
{{- end }}

{{/* Groups that the agent may impersonate, as a list in quotes. */}}
{{- define "agent.groups" -}}
{{- $groups := list "leat:admins" "leat:operators" "leat:viewers" -}}
{{- range .Values.rights.clusterGroups }}{{ $groups = append $groups (printf "leat:group:%s" .) }}{{ end -}}
{{- toJson $groups -}}
{{- end }}

{{/* Account patterns of a locked agent. */}}
{{- define "agent.allowedAccounts" -}}
{{- $accounts := .Values.lockDown.allowedAccounts -}}
{{- if not $accounts }}{{ range .Values.tenants }}{{ $accounts = append $accounts (printf "%s/%s" .namespace (.account | default "deployer")) }}{{ end }}{{ end -}}
{{- join "," $accounts -}}
{{- end }}
