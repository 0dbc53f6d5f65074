// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/agent"
)

// TestTakeover has an agent of another version stand by. While it would not do what the one that works does, it is not
// ready, says why, and does not lead. One that would follows.
func TestTakeover(t *testing.T) {
	t.Parallel()
	cp, h := kubetest.Borrow(t), newHub(t)
	of := func(version, address string) func(*agent.Config) {
		return func(c *agent.Config) {
			c.LeaderElection, c.Version, c.Serve.ListenAddr, c.PodUID = true, version, address, "uid-of-"+version
		}
	}
	stopFirst := startAgent(t, cp, h.url(), t.TempDir(), joinToken, of("1.0.0", loopback.Addr(t)))
	d := h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "1")})
	h.awaitReport(t, "web", phase(healthy, d))
	awaitExists(t, cp, "/api/v1/namespaces/leat-system/secrets", "leat-agent-identity")

	// This one would refuse a service that the first one applies.
	locked := loopback.Addr(t)
	stopLocked := startAgent(t, cp, h.url(), t.TempDir(), "", of("2.0.0", locked), func(c *agent.Config) { c.LockDown = true })
	await.Poll(t, "the event that says why", 100*time.Millisecond, func() (bool, string) {
		got := get(t, cp.HTTPClient(), cp.Host()+"/api/v1/namespaces/leat-system/events?fieldSelector=involvedObject.uid=uid-of-2.0.0")
		const want = "this version does not do what version 1.0.0 does: it would fail in service web (TENANT_FORBIDDEN)"
		return strings.Contains(got, want), got
	})
	if got := get(t, http.DefaultClient, "http://"+locked+"/readyz"); !strings.Contains(got, "takeover") {
		t.Errorf("its readiness: got %q, want that the check takeover fails", got)
	}
	stopLocked()

	second := loopback.Addr(t)
	startAgent(t, cp, h.url(), t.TempDir(), "", of("2.0.1", second))
	await.Poll(t, "the second version to be ready", 100*time.Millisecond, func() (bool, string) {
		got := get(t, http.DefaultClient, "http://"+second+"/readyz")
		return got == "takeover: ok\n", got
	})
	h.mu.Lock()
	if got := h.cluster.GetAgentVersion(); got != "1.0.0" || len(h.instances) != 1 {
		t.Errorf("while the first one works: got version %q and reports of %v, want the first one's alone", got, h.instances)
	}
	h.mu.Unlock()
	stopFirst()
	h.await(t, "the second version's report", func() bool { return h.cluster.GetAgentVersion() == "2.0.1" })
	d = h.deploy(t, "web", map[string]string{"a.yaml": configMap("web-a", "2")})
	h.awaitReport(t, "web", phase(healthy, d))
	assertValue(t, cp, "web-a", "2")
}

// get returns the body of an answer, and nothing while nobody answers.
func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
