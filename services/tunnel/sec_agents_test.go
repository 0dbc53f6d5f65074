// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// TestSecStrangersLockNoAgentOut has many callers without a valid token connect to the agents'
// endpoint, from the agents' own address. Twenty agents that connect meanwhile must succeed at the
// first attempt.
func TestSecStrangersLockNoAgentOut(t *testing.T) {
	// If unauthenticated callers took turns, the gate would be three seconds behind: 64 of them at
	// 16 a second. The agents alone need little more than one second.
	h := startHub(t, func(cfg *tunnel.Config) { cfg.MaxConnectsPerSecond = 16 })
	_, strange, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, _, err := identity.NewIssuer(strange).Issue(identity.Identity{Kind: identity.KindCluster, Name: "c1", UID: "uid-c1"}, identity.ServiceTunnel, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{"", "x", foreign, reissued(t, h, h.cluster("c1"), "aud", "elsewhere"), h.user("ada", "leat:admins")}
	ctx, stop := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	defer strangers.Wait()
	defer stop()
	var answers, let atomic.Int32
	warm := make(chan struct{})
	c := client(t, false)
	for i := range 64 {
		strangers.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.addr+"/tunnel/v1/connect", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"leat-tunnel/1"}, "Leat-Connection-Id": {"x"}}
				if token := tokens[i%len(tokens)]; token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				res, err := c.Do(req)
				if err != nil {
					continue // the test is over
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode == http.StatusSwitchingProtocols {
					let.Add(1)
				}
				if answers.Add(1) == 500 {
					close(warm)
				}
			}
		})
	}
	<-warm
	var agents sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		agents.Go(func() {
			name := fmt.Sprint("c", i)
			agent, err := agenttest.Dial(t.Context(), agenttest.Options{
				Addr: h.addr, Token: h.cluster(name), ID: name, Transport: transports[i%len(transports)], Handler: http.HandlerFunc(echo),
			})
			if errs[i] = err; err == nil {
				t.Cleanup(agent.Close)
			}
		})
	}
	agents.Wait()
	stop()
	for i, err := range errs {
		if err != nil {
			t.Errorf("agent %d: %v", i, err)
		}
	}
	if let.Load() > 0 {
		t.Errorf("%d strangers were let in", let.Load())
	}
}
