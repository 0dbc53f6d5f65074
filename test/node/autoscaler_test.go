// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// checkAutoscaler enables the autoscaler of the tunnel, and has it read a use of processors that the
// test chooses. The controller that reads and scales is the real one.
func (h *trial) checkAutoscaler(t *testing.T) {
	use := h.serveMetrics(t)
	upgrade := func(before string) {
		h.run(t, "helm", "upgrade", "leat", "deploy/helm/leat", "--namespace", "leat", "--reuse-values",
			"--set", "tunnel.autoscaling.enabled=true", "--set", "tunnel.autoscaling.minReplicas=2", "--set", "tunnel.autoscaling.maxReplicas=3")
		// The autoscaler looks every 15 seconds, and would hide it soon.
		if got := h.kubectl(t, "--namespace", "leat", "get", "deployment", "tunnel", "--output", "jsonpath={.spec.replicas}"); got != before {
			t.Errorf("an upgrade made the replicas %s, want the %s that there were", got, before)
		}
	}
	upgrade("2")
	replicas := func(want, what string) {
		await.Success(t, what, func(context.Context) error {
			if got := h.kubectl(t, "--namespace", "leat", "get", "deployment", "tunnel", "--output", "jsonpath={.spec.replicas} {.status.readyReplicas}"); got != want {
				return fmt.Errorf("got the replicas %s, want %s; the autoscaler has\n%s", got, want, h.kubectl(t, "--namespace", "leat", "describe", "hpa", "tunnel"))
			}
			return nil
		})
	}
	replicas("2 2", "the least replicas while there is little use")
	use.Store(200)
	replicas("3 3", "the most replicas while there is much use")
	upgrade("3")
	h.kubectl(t, "--namespace", "leat", "scale", "deployment/tunnel", "--replicas=1")
	replicas("3 3", "the autoscaler to undo a scale by hand")
}

// serveMetrics serves the metrics of the tunnel's pods to the cluster, as a metrics server would. Each
// uses the returned share, in percent, of the processor time that it requests.
func (h *trial) serveMetrics(t *testing.T) *atomic.Int64 {
	t.Helper()
	use := new(atomic.Int64)
	use.Store(10)
	ctx := context.WithoutCancel(t.Context())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", h.address+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []any{
			map[string]any{"name": "pods", "kind": "PodMetrics", "namespaced": true, "verbs": []string{"get", "list"}},
		}}
		if strings.HasSuffix(r.URL.Path, "/namespaces/leat/pods") {
			names, err := h.try(t, nil, "kubectl", "--namespace", "leat", "get", "pods", "--selector", r.URL.Query().Get("labelSelector"), "--output", "name")
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer = podMetrics(strings.Fields(names), use.Load())
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	certificate := selfsigned.New(t)
	_ = server.Listener.Close()
	server.Listener, server.TLS = listener, &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	manifest := strings.NewReplacer("ADDRESS", h.address, "PORT", port).Replace(metricsAPI)
	h.apply(t, manifest)
	// Before the server ends: the cluster deletes no namespace while it cannot list the content of
	// one.
	t.Cleanup(func() { h.kubectl(t, "delete", "apiservice/v1beta1.metrics.k8s.io", "--wait=false") })
	h.kubectl(t, "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", patience)
	return use
}

// podMetrics returns the metrics of pods that each use a share of the 100m that the chart requests.
func podMetrics(names []string, percent int64) map[string]any {
	var items []any
	for _, name := range names {
		items = append(items, map[string]any{
			"metadata":  map[string]any{"name": strings.TrimPrefix(name, "pod/"), "namespace": "leat"},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "1s",
			"containers": []any{map[string]any{"name": "tunnel", "usage": map[string]any{"cpu": fmt.Sprintf("%dm", percent), "memory": "64Mi"}}},
		})
	}
	return map[string]any{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": map[string]any{}, "items": items}
}

const metricsAPI = `apiVersion: v1
kind: Service
metadata: { name: metrics, namespace: kube-system }
spec: { ports: [{ port: 443, targetPort: PORT }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: metrics, namespace: kube-system, labels: { kubernetes.io/service-name: metrics } }
addressType: IPv4
endpoints: [{ addresses: [ADDRESS] }]
ports: [{ port: PORT }]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: { name: v1beta1.metrics.k8s.io }
spec:
  service: { name: metrics, namespace: kube-system }
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`
