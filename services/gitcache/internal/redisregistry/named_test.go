// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisregistry_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/redisregistry"
)

func wantNamed(t *testing.T, r mirror.Named, wantSure bool, want ...string) {
	t.Helper()
	got, sure := r.Named()
	if sure != wantSure || len(got) != len(want) {
		t.Errorf("got %v, %t, want %v, %t", got, sure, want, wantSure)
	}
	for _, uid := range want {
		if !got[uid] {
			t.Errorf("got %v, want %s among them", got, uid)
		}
	}
}

func TestNamedIsSureOnlyOfWhatRedisHolds(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a := newReplica(t, server, filepath.Join(t.TempDir(), "a.json"))
	wantNamed(t, a, false) // an empty hash tells nothing
	if err := a.Put(t.Context(), definition(1)); err != nil {
		t.Fatal(err)
	}
	wantNamed(t, a, true, "uid-1")

	// A value sealed with another secret cannot be used, but is defined anyway.
	sealer, err := seal.NewSealer([]byte(strings.Repeat("o", seal.MinSecret)), "test")
	if err != nil {
		t.Fatal(err)
	}
	other := redisregistry.New(redisregistry.Params{
		Client: server.Client(t), Prefix: "leat:{gitcache}:test:", Sealer: sealer, Path: filepath.Join(t.TempDir(), "o.json"),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err := other.Start(t.Context(), func([]mirror.Definition) {}); err != nil {
		t.Fatal(err)
	}
	wantNamed(t, other, true, "uid-1")

	server.Stop(t)
	wantNamed(t, newReplica(t, server, a.path), false, "uid-1") // its copy may be old
}
