// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/agent"
)

// TestLostDataFolder starts the agent again without its folder and without a join token.
func TestLostDataFolder(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	stop := startAgent(t, cp, h.url(), t.TempDir(), joinToken)
	d := h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "1")})
	h.awaitReport(t, "web", phase(healthy, d))
	awaitExists(t, cp, "/api/v1/namespaces/leat-system/secrets", "leat-agent-identity")
	stop()

	startAgent(t, cp, h.url(), t.TempDir(), "")
	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "2")})
	h.awaitReport(t, "web", phase(healthy, d))
	assertValue(t, cp, "web-a", "2")
}

// TestReplicas runs two agents for one cluster, of which one works.
func TestReplicas(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	electing := func(c *agent.Config) { c.LeaderElection = true }
	stop := startAgent(t, cp, h.url(), t.TempDir(), joinToken, electing)
	d := h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "1")})
	h.awaitReport(t, "web", phase(healthy, d))
	awaitExists(t, cp, "/api/v1/namespaces/leat-system/secrets", "leat-agent-identity")
	profiles := loopback.Addr(t)
	startAgent(t, cp, h.url(), t.TempDir(), joinToken, electing, func(c *agent.Config) { c.DebugAddr = profiles })
	stop()

	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "2")})
	h.awaitReport(t, "web", phase(healthy, d))
	assertValue(t, cp, "web-a", "2")
	h.await(t, "the new leader's view", func() bool {
		return len(h.instances) > 1 && h.overview.GetPods() != nil && slices.Contains(h.cluster.GetCapabilities(), "leader-election")
	})
	h.mu.Lock()
	if len(h.instances) != 2 {
		t.Errorf("reports: got them from %v, want one leader after the other", h.instances)
	}
	h.mu.Unlock()
	response, err := http.Get("http://" + profiles + "/debug/pprof/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("profiles: got %s, want 200", response.Status)
	}
}

// TestBootstrapTokenNamesTheCluster enrols with a bootstrap token: the agent sends the name that it was
// given, and the uid of the cluster's namespace kube-system.
func TestBootstrapTokenNamesTheCluster(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	h.joins["leatboot_x"] = true
	startAgent(t, cp, h.url(), t.TempDir(), "leatboot_x", func(c *agent.Config) { c.Cluster = "edge-1" })
	h.awaitReport(t, "web", phase(healthy, h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "1")})))
	var system struct{ Metadata struct{ UID string } }
	response, err := cp.HTTPClient().Get(cp.Host() + "/api/v1/namespaces/kube-system")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&system); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.enrolled; system.Metadata.UID == "" || got.GetKubernetesUid() != system.Metadata.UID || got.GetClusterName() != "edge-1" {
		t.Errorf("got %v, want the name edge-1 and the uid %q", got, system.Metadata.UID)
	}
}
