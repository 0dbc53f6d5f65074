// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hubtest runs the hub that commands call: the real distributor, in this process, with an
// empty database. It has neither gitcache nor agents, so nothing is fetched and nothing runs; what
// people may do, and what the catalog accepts, is decided as everywhere.
package hubtest

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/auditout"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
)

// Token is the API token of the user admin.
const Token = "leat_the-admin-token-of-these-tests"

// nowhere is an address at which nothing is: no program may use the port without root's rights.
const nowhere = "127.0.0.1:1"

// Start runs a hub until the end of the test, and returns its base URL.
func Start(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cfg := distributor.Config{
		DataDir:     filepath.Join(folder, "data"),
		DatabaseURL: "sqlite://" + filepath.Join(folder, "leat.db"),
		GitCacheURL: "http://" + nowhere,
		Service:     hubkeys.Config(identity.ServiceDistributor),
		AdminToken:  secret.Text(Token),
		TunnelURL:   "https://" + nowhere,
		Audit:       distributor.AuditConfig{Config: auditout.Config{Outputs: []string{"none"}}},
		Telemetry:   telemetry.Config{LogOutput: t.Output()},
	}
	cfg.Serve.Listener, cfg.Serve.DrainTimeout = listener, 5*time.Second
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- distributor.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) { // a script may be faster than the hub
			t.Errorf("the hub ended with %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}
