// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hubtest runs the hub that commands call: the real distributor, in this process, with an
// empty database. It decides as everywhere what people may do and what the catalog accepts.
//
// The hub of [Start] has no gitcache, so that nothing is fetched. That of [StartWithGit] has one, with
// upstreams on this machine. Agents are doubles, which apply nothing: see [Hub.Agent].
package hubtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/gitcache"
)

// Token is the API token of the user admin.
const Token = "leat_the-admin-token-of-these-tests"

// nowhere is an address at which nothing is: no program may use the port without root's rights.
const nowhere = "127.0.0.1:1"

// Hub is a running hub.
type Hub struct {
	// URL is its base URL.
	URL string
	// Git serves upstreams. It is nil in a hub without a gitcache.
	Git *gittest.Server

	agents map[string]*Agent
}

// Start runs a hub without a gitcache until the end of the test.
func Start(t testing.TB) *Hub {
	t.Helper()
	return start(t, "http://"+nowhere)
}

// StartWithGit runs a hub with a gitcache until the end of the test.
func StartWithGit(t testing.TB) *Hub {
	t.Helper()
	listener := listen(t)
	cfg := gitcache.Config{
		RedisURL: redistest.Start(t).URL(),
		DataDir:  filepath.Join(t.TempDir(), "gitcache"),
		Service:  hubkeys.Config(identity.ServiceGitCache),
		// The first owner of a repository waits for as long.
		LeaseTTL:  2 * time.Second,
		Telemetry: telemetry.Config{LogOutput: t.Output()},
	}
	cfg.Serve.Listener, cfg.Serve.DrainTimeout = listener, drainTimeout
	runService(t, "gitcache", func(ctx context.Context) error { return gitcache.Run(ctx, cfg) })
	h := start(t, "http://"+listener.Addr().String())
	h.Git = gittest.New(t)
	return h
}

func start(t testing.TB, gitcacheURL string) *Hub {
	t.Helper()
	listener, folder := listen(t), t.TempDir()
	cfg := distributor.Config{
		DataDir:     filepath.Join(folder, "data"),
		DatabaseURL: "sqlite://" + filepath.Join(folder, "leat.db"),
		GitCacheURL: gitcacheURL,
		Service:     hubkeys.Config(identity.ServiceDistributor),
		AdminToken:  secret.Text(Token),
		Addresses:   distributor.Addresses{TunnelURL: "https://" + nowhere},
		// Back ends that scripts name are on this machine.
		AllowLocalAgents: true,
		Audit:            distributor.AuditConfig{Config: auditout.Config{Outputs: []string{"none"}}},
		Telemetry:        telemetry.Config{LogOutput: t.Output()},
	}
	cfg.Serve.Listener, cfg.Serve.DrainTimeout = listener, drainTimeout
	runService(t, "distributor", func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
	url := "http://" + listener.Addr().String()
	awaitAnswer(t, url)
	return &Hub{URL: url, agents: map[string]*Agent{}}
}

// awaitAnswer returns once the service answers, whatever that is. Where many hubs start at once, one may begin to answer
// later than a command waits for it.
func awaitAnswer(t testing.TB, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// drainTimeout bounds how long a service ends.
const drainTimeout = 5 * time.Second

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// runService runs a service until the end of the test.
func runService(t testing.TB, name string, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) { // a script may be faster than the hub
			t.Errorf("the %s ended with %v", name, err)
		}
	})
}
