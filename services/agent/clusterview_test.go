// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/services/agent"
)

// write changes an object of the API server's, or creates one in a collection.
func write(t *testing.T, cp *localkube.ControlPlane, method, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, cp.Host()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := cp.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		t.Fatalf("%s %s: got %s", method, path, response.Status)
	}
}

// TestClusterView has the hub told of a node and pods, by one agent and then by the next, which
// finds less.
func TestClusterView(t *testing.T) {
	t.Parallel()
	cp, h, dir := kubetest.Borrow(t), newHub(t), t.TempDir()
	const pods = "/api/v1/namespaces/default/pods"
	write(t, cp, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`)
	write(t, cp, http.MethodPost, "/api/v1/nodes", `{"metadata":{"name":"node-0"},"spec":{"unschedulable":true}}`)
	stop := startAgent(t, cp, h.url(), dir, joinToken)
	h.await(t, "a node", func() bool {
		return h.cluster.GetNodes() == 1 && h.overview.GetNodes().GetCordoned() == 1 && h.cluster.GetKubernetesVersion() == "v1.36.3"
	})
	for i := range 3 {
		write(t, cp, http.MethodPost, pods, fmt.Sprintf(`{"metadata":{"name":"pod-%d"},"spec":{"containers":[{"name":"c","image":"example.test/x"}]}}`, i))
	}
	write(t, cp, http.MethodPatch, pods+"/pod-0/status", `{"status":{"phase":"Running"}}`)
	write(t, cp, http.MethodPost, "/api/v1/namespaces/default/events",
		`{"metadata":{"name":"e"},"type":"Warning","reason":"FailedScheduling","involvedObject":{"kind":"Pod","namespace":"default","name":"pod-1"}}`)
	// An API server that starts slowly warns about its own service, too.
	h.await(t, "pods and a warning", func() bool {
		isOfPod := func(w *distributorv1.ClusterWarning) bool { return w.GetKind() == "Pod" && w.GetName() == "pod-1" }
		return h.overview.GetPods().GetPending() == 2 && h.overview.GetPods().GetRunning() == 1 &&
			slices.ContainsFunc(h.overview.GetWarnings().GetLatest(), isOfPod)
	})
	h.mu.Lock()
	if words := h.cluster.GetCapabilities(); !slices.Contains(words, "overview") || slices.Contains(words, "leader-election") || !slices.IsSorted(words) {
		t.Errorf("capabilities: got %v", words)
	}
	h.mu.Unlock()
	stop()

	startAgent(t, cp, h.url(), dir, "", func(c *agent.Config) { c.ClusterView = false })
	h.await(t, "an agent that is told not to look", func() bool {
		return h.overview.GetNodes() == nil && h.overview.GetPods() == nil && h.overview.GetWarnings() == nil &&
			!slices.Contains(h.cluster.GetCapabilities(), "overview") && h.cluster.GetKubernetesVersion() == "v1.36.3"
	})
}

// TestClusterViewOff has an agent without the cluster view ask for no pod, node or event.
func TestClusterViewOff(t *testing.T) {
	t.Parallel()
	cp := kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly, p.Audit = true, true })
	h := newHub(t)
	stop := startAgent(t, cp, h.url(), t.TempDir(), joinToken, func(c *agent.Config) { c.ClusterView = false })
	d := h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "1")})
	h.awaitReport(t, "web", phase(healthy, d))
	h.await(t, "the API server's version", func() bool { return h.cluster.GetKubernetesVersion() == "v1.36.3" })
	stop()
	log, err := os.ReadFile(cp.AuditLogPath())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `"userAgent":"leat-agent/`) {
			continue
		}
		asked++
		for _, resource := range []string{"pods", "nodes", "events"} {
			if strings.Contains(line, `"resource":"`+resource+`"`) {
				t.Errorf("the agent asked for %s: %s", resource, line)
			}
		}
	}
	if asked == 0 {
		t.Error("the agent asked for nothing at all")
	}
}
