// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

// The benchmarks run the agent as the program that people run, in a process of its own, beside a
// hub in memory, and its peers in processes of theirs, all against the same API server. They
// measure one run of everything, so use -benchtime 1x.

// rounds is how often each engine does the same; medians are reported.
const rounds = 3

// BenchmarkFirstApply applies 1,000 new objects.
func BenchmarkFirstApply(b *testing.B) {
	const objects = 1000
	cp, engines := startEngines(b)
	for b.Loop() {
		took := map[string][]time.Duration{}
		for round := range rounds {
			for i := range engines {
				engine := engines[(i+round)%len(engines)] // none is always the first
				namespace := fmt.Sprintf("first-%s-%d", engine.name(), round)
				createNamespace(b, cp, namespace)
				took[engine.name()] = append(took[engine.name()], engine.apply(b, namespace, manifests(namespace, objects)))
			}
		}
		report(b, took, "ms")
	}
}

// BenchmarkUnchanged looks again and again at 56 objects to which nothing has happened.
func BenchmarkUnchanged(b *testing.B) {
	const objects, looks = 56, 20
	cp, engines := startEngines(b)
	for b.Loop() {
		took, asked := map[string][]time.Duration{}, map[string]float64{}
		for _, engine := range engines {
			namespace := "unchanged-" + engine.name()
			createNamespace(b, cp, namespace)
			engine.apply(b, namespace, manifests(namespace, objects))
			before := requests(b, cp)
			took[engine.name()] = engine.again(b, namespace, looks)
			asked[engine.name()] = (requests(b, cp) - before) / float64(len(took[engine.name()]))
		}
		report(b, took, "ms")
		for name, n := range asked {
			b.ReportMetric(n, name+"-requests/op")
		}
	}
}

// report gives the median of each engine, and what Leat's is of each other.
func report(b *testing.B, took map[string][]time.Duration, unit string) {
	b.Helper()
	medians := map[string]float64{}
	for name, all := range took {
		slices.Sort(all)
		medians[name] = all[len(all)/2].Seconds() * 1e3
		b.ReportMetric(medians[name], name+"-"+unit)
		b.Logf("%s: %v", name, all)
	}
	for name, median := range medians {
		if name != "leat" {
			b.ReportMetric(medians["leat"]/median, "leat/"+name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func startEngines(b *testing.B) (*localkube.ControlPlane, []engine) {
	b.Helper()
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	return cp, []engine{startLeat(b, cp), newPeer(b, cp, "flux"), newPeer(b, cp, "gitopsengine")}
}

// manifests makes objects of the kinds that services have most of, one file each.
func manifests(namespace string, n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("object-%05d", i)
		files[name+".yaml"] = kinds[i%len(kinds)](namespace, name)
	}
	return files
}

var kinds = []func(namespace, name string) string{
	configMapOf, secretOf, configMapOf, serviceAccountOf, configMapOf, secretOf, serviceOf, configMapOf, deploymentOf, roleOf,
}

func head(apiVersion, kind, namespace, name string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {app: %s, team: bench}\n",
		apiVersion, kind, name, namespace, name)
}

func configMapOf(namespace, name string) string {
	return head("v1", "ConfigMap", namespace, name) +
		"data:\n  app.properties: |\n" + strings.Repeat("    key=value of some length, as in real life\n", 10)
}

func secretOf(namespace, name string) string {
	return head("v1", "Secret", namespace, name) + "stringData: {user: app, password: not-so-secret}\n"
}

func serviceAccountOf(namespace, name string) string {
	return head("v1", "ServiceAccount", namespace, name)
}

func serviceOf(namespace, name string) string {
	return head("v1", "Service", namespace, name) + "spec:\n  selector: {app: x}\n  ports: [{name: http, port: 80, targetPort: 8080}]\n"
}

func roleOf(namespace, name string) string {
	return head("rbac.authorization.k8s.io/v1", "Role", namespace, name) +
		"rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get, list, watch]}]\n"
}

func deploymentOf(namespace, name string) string {
	return head("apps/v1", "Deployment", namespace, name) + `spec:
  replicas: 2
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - name: app
        image: registry.example/app:1.2.3
        args: [serve, --port=8080]
        ports: [{name: http, containerPort: 8080}]
        env: [{name: LEVEL, value: info}]
        resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
        readinessProbe: {httpGet: {path: /readyz, port: http}}
        volumeMounts: [{name: config, mountPath: /etc/app}]
      volumes: [{name: config, configMap: {name: app}}]
`
}

func createNamespace(b *testing.B, cp *localkube.ControlPlane, name string) {
	b.Helper()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	if status, answer := ask(b, cp, http.MethodPost, "/api/v1/namespaces", "application/json", body); status != http.StatusCreated {
		b.Fatalf("create namespace: got %d %s", status, answer)
	}
}

// requests counts what the API server has answered about the kinds of manifests, watches left out.
func requests(b *testing.B, cp *localkube.ControlPlane) (total float64) {
	b.Helper()
	_, metrics := ask(b, cp, http.MethodGet, "/metrics", "", "")
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || strings.Contains(line, `verb="WATCH"`) || !strings.Contains(line, `version="v1"`) {
			continue
		}
		for _, resource := range []string{"configmaps", "secrets", "serviceaccounts", "services", "deployments", "roles", "namespaces"} {
			if strings.Contains(line, fmt.Sprintf("resource=%q", resource)) {
				var n float64
				_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n)
				total += n
			}
		}
	}
	return total
}

// applied waits until a service's content is in the cluster.
func (h *hub) applied(b *testing.B, service, digest string) *distributorv1.ServiceReport {
	b.Helper()
	return h.awaitReport(b, service, func(got *distributorv1.ServiceReport) bool {
		return slices.Equal(got.GetAppliedDigests(), []string{digest})
	})
}
