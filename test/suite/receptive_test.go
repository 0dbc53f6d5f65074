// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/agent"
)

// TestAgentThatIsDialled runs an agent that opens no connection to the hub, and does not know its
// address: it enrols, follows its plan and serves people anyway, also after either side was
// restarted.
func TestAgentThatIsDialled(t *testing.T) {
	h := startServices(t, map[string]string{"LEAT_ALLOW_LOCAL_AGENTS": "true"})
	h.grantAdmins(t)
	address := loopback.Addr(t)
	h.apply(t, &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{
		Metadata: &typev1.Metadata{Name: "demo"}, Spec: &fleetv1.ClusterSpec{AgentEndpoint: address},
	}}})
	joined, err := h.fleet.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "demo"})
	if err != nil {
		t.Fatalf("create a join token: %v", err)
	}
	h.agent = &member{name: "agent", run: func(ctx context.Context, listener net.Listener) error {
		cfg := agent.Config{}
		if err := configure("agent", &cfg, map[string]string{
			"LEAT_AGENT_LISTEN_TUNNEL_ADDR": address, "LEAT_AGENT_HUB_KEYS": strings.Join(joined.GetHubKeys(), ","),
			"LEAT_AGENT_JOIN_TOKEN": joined.GetJoinToken(),
			"LEAT_AGENT_DATA_DIR":   filepath.Join(h.dir, "agent"), "LEAT_AGENT_KUBECONFIG": h.cluster.KubeconfigPath(),
		}); err != nil {
			return err
		}
		cfg.Serve.Listener = listener
		return agent.Run(ctx, cfg)
	}}
	h.agent.start(t)

	repo := h.upstream.Repo(t, "shop")
	first := repo.Commit(t, "main", map[string]string{"web/settings.yaml": configMap("settings", "one"), "web/notes.txt": notes()})
	h.apply(t, repository("shop", repo.URL()), service("web", "shop", "web"))
	h.waitService(t, "web", "healthy at the first commit", healthyAt(first))
	second := repo.Commit(t, "main", map[string]string{"web/settings.yaml": configMap("settings", "two")})
	h.sync(t, "web")
	h.waitService(t, "web", "healthy at the second commit", healthyAt(second))

	token := h.tunnelToken(t)
	reachable := func(when string) {
		t.Helper()
		await.Poll(t, "people to reach the cluster "+when, pause, func() (bool, string) {
			code, body := get(t, http.DefaultClient, h.tunnel.url()+"/clusters/demo/api/v1/namespaces/web/configmaps/settings", token)
			return code == http.StatusOK && strings.Contains(body, `"two"`), body
		})
	}
	reachable("")
	h.agent.stop()
	h.agent.start(t)
	reachable("after the agent's restart")
	h.tunnel.stop()
	h.tunnel.start(t)
	reachable("after the tunnel's restart")
	third := repo.Commit(t, "main", map[string]string{"web/settings.yaml": configMap("settings", "three")})
	h.sync(t, "web")
	h.waitService(t, "web", "healthy at the third commit", healthyAt(third))
}
