// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  value: \"" + value + "\"\n"
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: registry.example/web:1}]
`

// notes returns a text that makes a folder large enough for deltas: it does not compress well, and
// is not a manifest.
func notes() string {
	var text strings.Builder
	for n := range 200 {
		fmt.Fprintf(&text, "%x\n", sha256.Sum256([]byte{byte(n)}))
	}
	return text.String()
}

// TestSpine follows one repository through its life: pushed, changed, shrunk, its upstream gone,
// every part restarted.
func TestSpine(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	first := repo.Commit(t, "main", map[string]string{
		"web/deployment.yaml": deployment,
		"web/settings.yaml":   configMap("settings", "one"),
		"web/extra.yaml":      configMap("extra", "x"),
		"web/notes.txt":       notes(),
		"other/kept.yaml":     configMap("kept", "y"),
	})
	h.apply(t, repository("shop", repo.URL()), service("web", "shop", "web"))

	t.Run("a push is applied and becomes healthy", func(t *testing.T) {
		status := h.waitService(t, "web", "healthy at the first commit", healthyAt(first))
		if got, want := status.GetReport().GetCounts().GetTotal(), int32(3); got != want {
			t.Errorf("objects: got %d, want %d", got, want)
		}
		if code, body := h.kubeGet(t, "/api/v1/namespaces/web/configmaps/settings"); code != http.StatusOK || !strings.Contains(body, `"one"`) {
			t.Errorf("the settings in the cluster: got %d %s, want the value of the first commit", code, body)
		}
	})

	t.Run("a change is applied", func(t *testing.T) {
		second := repo.Commit(t, "main", map[string]string{"web/settings.yaml": configMap("settings", "two")})
		h.sync(t, "web")
		h.waitService(t, "web", "healthy at the second commit", healthyAt(second))
		if code, body := h.kubeGet(t, "/api/v1/namespaces/web/configmaps/settings"); code != http.StatusOK || !strings.Contains(body, `"two"`) {
			t.Errorf("the settings in the cluster: got %d %s, want the value of the second commit", code, body)
		}
	})

	t.Run("a commit elsewhere changes no digest", func(t *testing.T) {
		before := h.waitService(t, "web", "synced", func(s *fleetv1.ServiceStatus) bool { return s.GetSynced() })
		elsewhere := repo.Commit(t, "main", map[string]string{"other/kept.yaml": configMap("kept", "z")})
		h.sync(t, "web")
		after := h.waitService(t, "web", "resolved at the new commit", func(s *fleetv1.ServiceStatus) bool {
			return s.GetSources()[0].GetSnapshot().GetCommit() == elsewhere
		})
		if got, want := after.GetSources()[0].GetSnapshot().GetDigest(), before.GetSources()[0].GetSnapshot().GetDigest(); got != want {
			t.Errorf("digest after a commit elsewhere: got %s, want %s as before", got, want)
		}
	})

	t.Run("a deleted file is pruned", func(t *testing.T) {
		third := repo.CommitFiles(t, "main", map[string]gittest.File{"web/extra.yaml": gittest.Deleted()})
		h.sync(t, "web")
		h.waitService(t, "web", "healthy at the third commit", healthyAt(third))
		if code, _ := h.kubeGet(t, "/api/v1/namespaces/web/configmaps/extra"); code != http.StatusNotFound {
			t.Errorf("the object of the deleted file: got %d, want 404", code)
		}
		for m, want := range map[*member]string{h.distributor: `leat_delta_result="served"`, h.agent: `leat_download_result="delta"`} {
			if code, body := get(t, http.DefaultClient, metricsOf(m), ""); code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("metrics of %s: got %d without %s, want a change to have come as a delta", m.name, code, want)
			}
		}
	})

	t.Run("the tunnel shows the cluster to those who may", func(t *testing.T) { testTunnel(t, h) })

	t.Run("a wrong token is refused", func(t *testing.T) {
		_, err := fleetcalls.List[*fleetv1.Service](t.Context(), h.fleetClient(t, "leat_wrong"), &fleetv1.ListRequest{})
		if connect.CodeOf(err) != connect.CodeUnauthenticated || rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_TOKEN_INVALID {
			t.Errorf("list services with a wrong token: got %s, want unauthenticated, TOKEN_INVALID", codeOf(err))
		}
		digest := h.waitService(t, "web", "resolved", func(s *fleetv1.ServiceStatus) bool { return s.GetSynced() }).GetSources()[0].GetSnapshot().GetDigest()
		for _, token := range []string{"", "leat_wrong", adminToken} {
			if code, body := get(t, http.DefaultClient, h.distributor.url()+"/v1/bundles/"+digest, token); code/100 != 4 || strings.Contains(body, "web") {
				t.Errorf("a bundle with the token %q: got %d %s, want a refusal", token, code, body)
			}
		}
	})

	t.Run("with the upstream gone, what is mirrored is delivered", func(t *testing.T) {
		h.upstream.Stop()
		defer h.upstream.Start(t)
		h.apply(t, service("kept", "shop", "other"))
		h.waitService(t, "kept", "delivered from the mirror", func(s *fleetv1.ServiceStatus) bool {
			return s.GetSynced() && s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY
		})
		if _, err := h.fleet.SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "web"}); err == nil {
			h.waitService(t, "web", "still healthy", func(s *fleetv1.ServiceStatus) bool {
				return s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY
			})
		}
	})

	whole := t
	t.Run("every part may be restarted", func(t *testing.T) {
		for _, m := range []*member{h.agent, h.tunnel, h.distributor, h.gitcache} {
			m.stop()
			m.start(whole) // it outlives this part of the test
			h.waitReady(t, h.gitcache, h.distributor, h.tunnel)
			commit := repo.Commit(t, "main", map[string]string{"web/settings.yaml": configMap("settings", "after "+m.name)})
			h.sync(t, "web")
			h.waitService(t, "web", "healthy after a restart of "+m.name, healthyAt(commit))
		}
	})

	t.Run("a service that is deleted takes its objects along", func(t *testing.T) {
		if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), h.fleet, "kept"); err != nil {
			t.Fatal(err)
		}
		await.Poll(t, "the deleted service's object to be gone", pause, func() (bool, string) {
			code, body := h.kubeGet(t, "/api/v1/namespaces/kept/configmaps/kept")
			return code == http.StatusNotFound, body
		})
	})
}

// testTunnel reads and watches the cluster through the tunnel.
func testTunnel(t *testing.T, h *hub) {
	t.Helper()
	token := h.tunnelToken(t)
	base := h.tunnel.url() + "/clusters/demo"
	settings := base + "/api/v1/namespaces/web/configmaps/settings"
	// The impersonated group needs rights in the cluster, as deploy/kubernetes/agent.yaml grants
	// them.
	h.grantAdmins(t)
	await.Poll(t, "an answer of the tunnel", pause, func() (bool, string) {
		code, body := get(t, http.DefaultClient, settings, token)
		return code == http.StatusOK && strings.Contains(body, `"two"`), body
	})
	if code, body := get(t, http.DefaultClient, base+"/apis/authentication.k8s.io/v1/selfsubjectreviews", token); code == http.StatusOK {
		t.Errorf("a GET of a create-only resource: got %d %s", code, body)
	}
	for _, wrong := range []string{"", "nonsense"} {
		if code, body := get(t, http.DefaultClient, settings, wrong); code != http.StatusUnauthorized {
			t.Errorf("the tunnel with the token %q: got %d %s, want 401", wrong, code, body)
		}
	}
	if code, body := get(t, http.DefaultClient, h.tunnel.url()+"/clusters/unknown/version", token); code != http.StatusForbidden {
		t.Errorf("an unknown cluster: got %d %s, want 403", code, body)
	}
	watch := open(t, http.DefaultClient, base+"/api/v1/namespaces/web/configmaps?watch=true&fieldSelector=metadata.name%3Dwatched", token)
	defer watch.Body.Close()
	h.kubePost(t, "/api/v1/namespaces/web/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"watched"}}`)
	line, err := bufio.NewReader(watch.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, `"ADDED"`) || !strings.Contains(line, `"watched"`) {
		t.Errorf("the watch through the tunnel: got %q, %v; want the object that was added", line, err)
	}
}
