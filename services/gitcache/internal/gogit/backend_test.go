// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/backendtest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
)

func openBackend(t *testing.T, dir string) backendtest.Backend {
	t.Helper()
	g, err := gogit.New(gogit.Config{Dir: dir, Guard: dialguard.Guard{AllowLocal: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBackend(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, openBackend)
}

func TestServers(t *testing.T) {
	t.Parallel()
	backendtest.RunServers(t, openBackend)
}

func TestSlowServers(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Gitea is left to `make test-all`")
	}
	backendtest.RunSlowServers(t, openBackend)
}
