// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

var transports = []string{"upgrade", "websocket", "connect"}

// overTransports runs a test over each transport, with a hub and an agent of its own.
func overTransports(t *testing.T, change func(*tunnel.Config), opts agenttest.Options, run func(t *testing.T, h *hub, agent *agenttest.Agent)) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			h := startHub(t, change)
			h.access.grant("ada", "demo")
			opts.ID, opts.Transport = "c-"+transport, transport
			run(t, h, h.agentWith(opts, "demo"))
		})
	}
	t.Run("dialled", func(t *testing.T) {
		h := newHub(t)
		h.access.grant("ada", "demo")
		opts.ID = "c-dialled"
		waiting := h.receptive("demo", agenttest.Reception{Options: opts, Once: true})
		h = h.replica(local(change))
		agent := <-waiting.Tunnels
		await.True(t, "the dialled connection", func() bool { return h.sessions()[opts.ID] })
		run(t, h, agent)
	})
}

func TestTransports(t *testing.T) {
	overTransports(t, nil, agenttest.Options{Handler: http.HandlerFunc(echo)}, func(t *testing.T, h *hub, _ *agenttest.Agent) {
		body := strings.Repeat("x", 1<<20)
		req := h.request(t.Context(), http.MethodPost, "ada", "demo", "/api?a=1", strings.NewReader(body))
		if res, got := h.do(client(t, true), req); res.StatusCode != http.StatusOK || got != "POST /api?a=1 "+body {
			t.Errorf("got %d and %d bytes, want the request echoed", res.StatusCode, len(got))
		}
		res, err := h.service().ListSessions(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.GetSessions()[0]; "c-"+got.GetTransport() != got.GetId() || got.GetRemoteAddress() == "" {
			t.Errorf("got session %v, want its transport and address", got)
		}
	})
}

// TestF42NoTailIsLost sends bodies of all sizes both ways at once, and holds their digests against
// each other.
func TestF42NoTailIsLost(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, hash), r.Body); err != nil {
			t.Errorf("agent: %v", err)
		}
		_, _ = w.Write(hash.Sum(nil))
	})
	bodies := 15
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		bodies = 100
	}
	overTransports(t, nil, agenttest.Options{Handler: handler}, func(t *testing.T, h *hub, _ *agenttest.Agent) {
		c := client(t, true)
		var callers sync.WaitGroup
		for worker := range 8 {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				for range bodies {
					content := make([]byte, int(float64(1<<20)*random.ExpFloat64()/8))
					_, _ = (&pattern{at: random.IntN(len(patternBlock))}).Read(content)
					_, got := h.do(c, h.request(t.Context(), http.MethodPut, "ada", "demo", "/x", bytes.NewReader(content)))
					sum := sha256.Sum256(content)
					if body, ok := strings.CutSuffix(got, string(sum[:])); !ok || body != string(content) {
						t.Errorf("%d bytes came back as %d, want them whole and their digest", len(content), len(got))
					}
				}
			})
		}
		callers.Wait()
	})
}

// TestF41DrainWithIdleStreams shuts a replica down whose connections carry nothing.
func TestF41DrainWithIdleStreams(t *testing.T) {
	overTransports(t, func(cfg *tunnel.Config) { cfg.Serve.DrainTimeout = time.Hour }, agenttest.Options{Handler: http.HandlerFunc(echo)},
		func(t *testing.T, h *hub, agent *agenttest.Agent) {
			h.stop()
			<-agent.Done() // or the test times out, as the drain does not
			if err := <-h.done; err != nil {
				t.Error(err)
			}
			h.done <- nil
		})
}

// TestF40NoUseOfAStreamAfterItsEnd ends connections from either side while both sides write; a use
// of a stream whose handler has returned would panic.
func TestF40NoUseOfAStreamAfterItsEnd(t *testing.T) {
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) })
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			h := startHub(t, nil)
			h.access.grant("ada", "demo")
			c := client(t, false)
			for i := range 20 {
				agent := h.agentWith(agenttest.Options{ID: fmt.Sprint("c", i), Handler: endless, Transport: transport}, "demo")
				var callers sync.WaitGroup
				for range 4 {
					ctx, cancel := context.WithCancel(t.Context())
					res, err := c.Do(h.request(ctx, http.MethodPost, "ada", "demo", "/", io.LimitReader(zeros{}, 8<<20)))
					if err != nil {
						t.Fatal(err)
					}
					callers.Go(func() {
						defer cancel()
						_, _ = io.CopyN(io.Discard, res.Body, rand.Int64N(1<<20))
						_ = res.Body.Close()
					})
				}
				if i%2 == 0 {
					callers.Wait()
				}
				agent.Close()
				callers.Wait()
			}
			if strings.Contains(h.logs.String(), "panic") {
				t.Error("a handler panicked")
			}
		})
	}
}

// TestHeartbeats has them come, continue, and find an agent that hears nothing any more (F14).
func TestHeartbeats(t *testing.T) {
	change := func(cfg *tunnel.Config) {
		cfg.HeartbeatInterval, cfg.HeartbeatTimeout = 50*time.Millisecond, 5*time.Second
	}
	overTransports(t, change, agenttest.Options{Handler: http.HandlerFunc(echo)}, func(t *testing.T, h *hub, agent *agenttest.Agent) {
		await.True(t, "heartbeats", func() bool { return agent.Heartbeats() >= 3 })
		attached := agent.Attached()
		if attached.GetHeartbeatInterval().AsDuration() != 50*time.Millisecond || attached.GetReplica() == "" || attached.GetEpoch() == 0 || attached.GetReplicas() != 1 {
			t.Errorf("got %v, want the replica introduced", attached)
		}
		agent.Freeze()
		await.True(t, "the end of the connection", func() bool { return len(h.sessions()) == 0 })
	})
}

// TestOldAgent has an agent that does not know the control plane.
func TestOldAgent(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.HeartbeatInterval = 10 * time.Millisecond })
	h.access.grant("ada", "demo")
	h.agentWith(agenttest.Options{ID: "old", Handler: http.HandlerFunc(echo), OldAgent: true}, "demo")
	if status, _ := h.get(client(t, false), "ada", "demo", "/api"); status != http.StatusOK {
		t.Errorf("got %d, want 200", status)
	}
}

// TestStolenToken has two processes use one token. The agent, which can obtain another, gets its
// cluster back.
func TestStolenToken(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	stolen := h.cluster("demo")
	dial := func(instance, token string) (*agenttest.Agent, error) {
		return agenttest.Dial(t.Context(), agenttest.Options{
			Addr: h.addr, Token: token, ID: instance, Header: http.Header{"Leat-Agent-Instance": {instance}},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, instance) }),
		})
	}
	thief, err := dial("thief", stolen)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	await.True(t, "the thief", func() bool { return h.sessions()["thief"] })
	if _, err := dial("agent", stolen); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_TOKEN_INVALID || connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Fatalf("the agent, with the same token: got %v, want TOKEN_INVALID", err)
	}
	agent, err := dial("agent", h.cluster("demo"))
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	<-thief.Done()
	if _, body := h.get(client(t, false), "ada", "demo", "/"); body != "agent" {
		t.Errorf("got an answer of %q, want the agent's", body)
	}
}

// TestConnectionsEndWithTheirTokens lets only those agents stay that show a valid token of their
// cluster again.
func TestConnectionsEndWithTheirTokens(t *testing.T) {
	t.Parallel()
	beats := func(cfg *tunnel.Config) {
		cfg.HeartbeatInterval, cfg.TokenGrace = 20*time.Millisecond, time.Millisecond
	}
	virtually(t, beats, func(t *testing.T, h *hub) {
		issue := func(cluster, uid string, life time.Duration) string {
			token, _, err := h.issuer.Issue(identity.Identity{Kind: identity.KindCluster, Name: cluster, UID: uid}, identity.ServiceTunnel, life)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		renewals := map[string]func() string{
			"honest": func() string { return issue("honest", "u", time.Hour) }, "silent": nil,
			"revoked": func() string { return issue("revoked", "another", time.Hour) },
			"other":   func() string { return issue("honest", "u", time.Hour) },
			"forger":  func() string { return "a.b.c" },
		}
		agents := map[string]*agenttest.Agent{}
		for name, renew := range renewals {
			agent, err := agenttest.Dial(t.Context(), agenttest.Options{
				Dial: h.connect, Token: issue(name, "u", 2*time.Second), ID: name, Handler: http.HandlerFunc(echo), Renew: renew,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer agent.Close()
			agents[name] = agent
		}
		for name, agent := range agents {
			if name != "honest" {
				<-agent.Done()
			}
		}
		if !h.sessions()["honest"] {
			t.Error("the agent that renewed its token is gone")
		}
	})
}

// TestRefusalsOverTransports are the same whatever carries the connection.
func TestRefusalsOverTransports(t *testing.T) {
	h := startHub(t, nil)
	for _, transport := range transports {
		for token, want := range map[string]errorsv1.Reason{
			"a.b.c": errorsv1.Reason_REASON_TOKEN_INVALID, h.user("ada"): errorsv1.Reason_REASON_ACCESS_DENIED,
		} {
			_, err := agenttest.Dial(t.Context(), agenttest.Options{Addr: h.addr, Token: token, ID: "x", Transport: transport})
			if got := rpcerr.ReasonOf(err); got != want {
				t.Errorf("%s: got %v with %v, want %v", transport, err, got, want)
			}
		}
	}
}
