// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin_test

import (
	"log/slog"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/backendtest"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
)

func open(t *testing.T, dir string) backendtest.Backend {
	t.Helper()
	g, err := gitbin.New(gitbin.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBackend(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, open)
}
