{{/* Labels of every object: call with a dict of top and name. */}}
{{- define "leat.labels" -}}
{ app.kubernetes.io/name: {{ .name }}, app.kubernetes.io/part-of: leat, app.kubernetes.io/instance: {{ .top.Release.Name }} }
{{- end }}

{{/* metadata of an object: call with a dict of top, name, and component where the label has another name. */}}
{{- define "leat.metadata" -}}
{ name: {{ .name }}, namespace: {{ .top.Release.Namespace }}, labels: {{ include "leat.labels" (dict "top" .top "name" (.component | default .name)) }} }
{{- end }}

{{- define "leat.image" -}}
{{- $i := .top.Values.image -}}
{{- with $i.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ with $i.repository }}{{ . }}/{{ end }}{{ .name }}:{{ $i.tag | default .top.Chart.AppVersion }}{{ with get $i.digests .name }}@{{ . }}{{ end }}
{{- end }}

{{- define "leat.scheme" -}}{{ if eq .Values.tls.mode "none" }}http{{ else }}https{{ end }}{{- end }}

{{/* Where people and agents reach the distributor and the tunnel. */}}
{{- define "leat.url" -}}
{{ .Values.hub.url | default (printf "%s://distributor.%s.svc:8700" (include "leat.scheme" .) .Release.Namespace) | trimSuffix "/" }}
{{- end }}
{{- define "leat.tunnelURL" -}}
{{ .Values.hub.tunnelURL | default .Values.hub.url | default (printf "%s://tunnel.%s.svc:8701" (include "leat.scheme" .) .Release.Namespace) | trimSuffix "/" }}
{{- end }}

{{/*
Resources by size, from bench/RESULTS.md. small is what the attacks of test/attack run against. goMemory is about 88 % of the limit, so that the garbage
collector works before the kernel ends the container. With resources of their own, services take nine tenths of the limit that they find.
*/}}
{{- define "leat.size" -}}
{{- $sizes := dict
  "small" (dict
    "gitcache" (dict "cpu" "100m" "memory" "256Mi" "limit" "1Gi" "goMemory" "900MiB")
    "distributor" (dict "cpu" "100m" "memory" "128Mi" "limit" "512Mi" "goMemory" "450MiB")
    "tunnel" (dict "cpu" "100m" "memory" "128Mi" "limit" "512Mi" "goMemory" "450MiB"))
  "medium" (dict
    "gitcache" (dict "cpu" "250m" "memory" "512Mi" "limit" "2Gi" "goMemory" "1800MiB")
    "distributor" (dict "cpu" "500m" "memory" "768Mi" "limit" "2Gi" "goMemory" "1800MiB")
    "tunnel" (dict "cpu" "250m" "memory" "256Mi" "limit" "1Gi" "goMemory" "900MiB"))
  "large" (dict
    "gitcache" (dict "cpu" "500m" "memory" "1Gi" "limit" "4Gi" "goMemory" "3600MiB")
    "distributor" (dict "cpu" "1" "memory" "1536Mi" "limit" "4Gi" "goMemory" "3600MiB")
    "tunnel" (dict "cpu" "500m" "memory" "512Mi" "limit" "2Gi" "goMemory" "1800MiB")) -}}
{{- get (get $sizes .top.Values.size) .name | toJson -}}
{{- end }}

{{/* Resources of a service's container. */}}
{{- define "leat.resources" -}}
{{- $own := (get .top.Values .name).resources -}}
{{- $size := include "leat.size" . | fromJson -}}
{{- if $own }}{{ toJson $own }}{{ else -}}
{ requests: { cpu: {{ $size.cpu }}, memory: {{ $size.memory }} }, limits: { memory: {{ $size.limit }} } }
{{- end }}
{{- end }}

{{/* Metadata of a service's pods. */}}
{{- define "leat.podMetadata" -}}
{{- $pod := (get .top.Values .name).pod -}}
labels:
  app.kubernetes.io/name: {{ .name }}
  app.kubernetes.io/part-of: leat
  {{- with $pod.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $pod.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the spec of every service's pods begins with. Replicas prefer other nodes and other zones than their siblings. */}}
{{- define "leat.podSpec" -}}
{{- $pod := (get .top.Values .name).pod -}}
serviceAccountName: {{ .name }}
automountServiceAccountToken: false
enableServiceLinks: false
# 12 s of the pause before the stop, 25 s for running calls (LEAT_DRAIN_TIMEOUT), and some to spare.
terminationGracePeriodSeconds: 45
securityContext: { runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: { type: RuntimeDefault } }
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: { matchLabels: { app.kubernetes.io/name: {{ $.name }} } }
  {{- end }}
{{- with .top.Values.image.pullSecrets }}
imagePullSecrets: [{{ range $i, $name := . }}{{ if $i }}, {{ end }}{ name: {{ $name }} }{{ end }}]
{{- end }}
{{- with $pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $pod.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $pod.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $pod.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Variables that every service has first. */}}
{{- define "leat.env" -}}
- { name: LEAT_INTERNAL_LISTEN_ADDR, value: ":8790" }
- { name: LEAT_SERVICE_SECRET_FILE, value: /run/leat/service-secret }
- { name: LEAT_SERVICE_OTHER_SECRETS, valueFrom: { secretKeyRef: { name: leat-{{ .name }}, key: service-other-secrets, optional: true } } }
- { name: LEAT_SERVICE_KEYS, valueFrom: { configMapKeyRef: { name: leat-service-keys, key: service-keys } } }
{{- if eq .top.Values.tls.mode "none" }}
# These pods send service tokens in plain text; the NetworkPolicies keep other pods out. If your network does not enforce them, or others can listen to it,
# give every service a certificate (tls.mode of the chart).
- { name: LEAT_ALLOW_PLAINTEXT_SERVICES, value: "true" }
{{- else }}
- { name: LEAT_TLS_CERT_FILE, value: /etc/leat-tls/tls.crt }
- { name: LEAT_TLS_KEY_FILE, value: /etc/leat-tls/tls.key }
{{- end }}
{{- end }}

{{/* Variables that lead to Redis. */}}
{{- define "leat.redisEnv" -}}
- { name: LEAT_REDIS_URL, valueFrom: { secretKeyRef: { name: {{ .top.Values.redis.secretName }}, key: {{ .name }}-url } } }
- { name: LEAT_REDIS_CA_FILE, valueFrom: { secretKeyRef: { name: {{ .top.Values.redis.secretName }}, key: ca-file, optional: true } } }
{{- end }}

{{/* Variables that every service has last. */}}
{{- define "leat.moreEnv" -}}
{{- $own := get .top.Values .name -}}
{{- $size := include "leat.size" . | fromJson -}}
{{- if not $own.resources -}}
- { name: GOMEMLIMIT, value: {{ $size.goMemory }} }
{{- end }}
{{- range $name, $value := $own.settings }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- with $own.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Probes, resources and the security context of a service's container. */}}
{{- define "leat.container" -}}
readinessProbe: { httpGet: { path: /readyz, port: internal } }
livenessProbe: { httpGet: { path: /healthz, port: internal }, failureThreshold: 6 }
# New connections go elsewhere before this replica begins to stop.
lifecycle: { preStop: { sleep: { seconds: 12 } } }
resources: {{ include "leat.resources" . }}
securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
{{- end }}

{{/* Mounts and volumes that every service has. */}}
{{- define "leat.mounts" -}}
- { name: secret, mountPath: /run/leat, readOnly: true }
{{- if ne .top.Values.tls.mode "none" }}
- { name: tls, mountPath: /etc/leat-tls, readOnly: true }
{{- end }}
{{- with (get .top.Values .name).volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "leat.volumes" -}}
- { name: secret, secret: { secretName: leat-{{ .name }}, items: [{ key: service-secret, path: service-secret }] } }
{{- if ne .top.Values.tls.mode "none" }}
- { name: tls, secret: { secretName: leat-{{ .name }}-tls } }
{{- end }}
{{- with (get .top.Values .name).volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "leat.redisCAVolume" -}}
- { name: redis-ca, secret: { secretName: leat-redis-tls, optional: true, items: [{ key: ca.crt, path: ca.crt }] } }
{{- end }}

{{/* The claim of a service's volume. It does not follow the size: Kubernetes refuses to change the claims of a StatefulSet. */}}
{{- define "leat.claim" -}}
{{- $own := get .top.Values .name -}}
- metadata: { name: data }
  spec: { accessModes: [ReadWriteOnce], {{ with $own.storageClass }}storageClassName: {{ . }}, {{ end }}resources: { requests: { storage: {{ $own.storage }} } } }
{{- end }}

{{/* A service's account, and its disruption budget where there are several replicas. */}}
{{- define "leat.companions" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .top.Release.Namespace }}
  labels: {{ include "leat.labels" . }}
  {{- with (get .top.Values .name).serviceAccountAnnotations }}
  annotations: {{ toJson . }}
  {{- end }}
automountServiceAccountToken: false
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{ include "leat.metadata" . }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector: { matchLabels: { app.kubernetes.io/name: {{ .name }} } }
{{- end }}
{{- end }}

{{/* A service's Service: call with a dict of top, name, port, and protocol (appProtocol without TLS). */}}
{{- define "leat.service" -}}
{{- $own := (get .top.Values .name).service -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .top.Release.Namespace }}
  labels: {{ include "leat.labels" . }}
  {{- with $own.annotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  {{- if ne $own.type "ClusterIP" }}
  type: {{ $own.type }}
  {{- end }}
  selector: { app.kubernetes.io/name: {{ .name }} }
  {{- $protocol := ternary .protocol "https" (eq .top.Values.tls.mode "none") }}
  ports: [{ name: http, port: {{ .port }}, targetPort: http{{ with $protocol }}, appProtocol: {{ . }}{{ end }} }]
{{- end }}
