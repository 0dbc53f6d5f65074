// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisregistry_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/redisregistry"
)

// replica is a registry with what it told last.
type replica struct {
	*redisregistry.Registry
	path string

	mu   sync.Mutex
	defs []mirror.Definition
}

func newReplica(t *testing.T, server *redistest.Server, path string) *replica {
	t.Helper()
	return newReplicaWith(t, server, path, "s")
}

// newReplicaWith returns a replica with the secrets that the letters stand for: the first is used,
// the others are accepted.
func newReplicaWith(t *testing.T, server *redistest.Server, path string, letters ...string) *replica {
	t.Helper()
	var keys []seal.Key
	for _, letter := range letters {
		key, err := seal.NewKey([]byte(strings.Repeat(letter, seal.MinSecret)))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	sealer, err := seal.NewKeyring(keys[0], keys[1:]...).Sealer("test")
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{path: path}
	r.Registry = redisregistry.New(redisregistry.Params{
		Client: server.Client(t), Prefix: "leat:{gitcache}:test:", Sealer: sealer, Path: path,
		Logger: slog.New(slog.DiscardHandler),
	})
	apply := func(defs []mirror.Definition) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.defs = defs
	}
	if err := r.Start(t.Context(), apply); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replica) want(t *testing.T, defs ...mirror.Definition) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(defs) == 0 && len(r.defs) == 0 {
		return
	}
	same := cmp.Comparer(func(a, b mirror.Definition) bool { return a == b })
	if diff := cmp.Diff(defs, r.defs, same); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func definition(version int64) mirror.Definition {
	return mirror.Definition{
		Name: "demo", UID: "uid-1", Version: version, Parent: "other", ParentUID: "uid-other",
		Definition: upstream.Definition{
			URL: "https://git.invalid/demo", ProxyURL: "socks5://u:open sesame@proxy.invalid", PartialClone: true, Credential: upstream.Credential{
				Method: upstream.MethodBasic, Username: "leat", Password: "open sesame", AppID: 1, InstallationID: 2,
				APIURL: "https://api.invalid", ClientCertPEM: "certificate", ClientKeyPEM: "open sesame",
			}, WebhookSecret: "open sesame for webhooks, too",
		},
	}
}

func TestDefinitionsAreShared(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a := newReplica(t, server, filepath.Join(t.TempDir(), "a.json"))
	b := newReplica(t, server, filepath.Join(t.TempDir(), "b.json"))
	second := definition(2)
	for _, def := range []mirror.Definition{second, definition(1)} { // the older one changes nothing
		if err := a.Put(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	a.want(t, second)
	if err := b.Missed(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(t, second)

	renewed := definition(1)
	renewed.UID = "uid-2"
	if err := b.Put(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	b.want(t, renewed)
	if _, deleted, err := b.Delete(t.Context(), "unknown", 0); deleted || err != nil {
		t.Errorf("got %t (%v) for an unknown name, want nothing deleted", deleted, err)
	}
	renewed.Version = 5
	if err := b.Put(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if _, deleted, err := a.Delete(t.Context(), "demo", 4); deleted || err != nil {
		t.Errorf("got %t (%v) for an older version, want nothing deleted", deleted, err)
	}
	got, deleted, err := a.Delete(t.Context(), "demo", 5)
	if got != renewed || !deleted || err != nil {
		t.Errorf("got %v, %t (%v), want the deleted definition", got, deleted, err)
	}
	a.want(t)
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(t)
}

func TestNothingGivesCredentialsAway(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	r := newReplica(t, server, filepath.Join(t.TempDir(), "a.json"))
	if err := r.Put(t.Context(), definition(1)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	values, err := server.Client(t).HGetAll(t.Context(), "leat:{gitcache}:test:repositories").Result()
	if err != nil || len(values) != 1 {
		t.Fatalf("got %v (%v), want one definition", values, err)
	}
	if all := string(data) + values["demo"]; strings.Contains(all, "sesame") || strings.Contains(all, "git.invalid") {
		t.Error("got a definition in the clear")
	}
}

func TestServesWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a := newReplica(t, server, filepath.Join(t.TempDir(), "a.json"))
	if err := a.Put(t.Context(), definition(1)); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	again := newReplica(t, server, a.path)
	again.want(t, definition(1))
	if err := again.Loaded(t.Context()); err != nil {
		t.Errorf("got %v with a copy on disk, want ready", err)
	}
	if err := again.Put(t.Context(), definition(2)); !errors.Is(err, mirror.ErrDependency) {
		t.Errorf("got %v without redis, want ErrDependency", err)
	}
	fresh := newReplica(t, server, filepath.Join(t.TempDir(), "fresh.json"))
	if err := fresh.Loaded(t.Context()); err == nil {
		t.Error("got ready without redis and without a copy, want not ready")
	}
}

// TestRedisLosesItsMemory makes sure that an empty Redis is not taken for the deletion of
// everything.
func TestRedisLosesItsMemory(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	a := newReplica(t, server, filepath.Join(t.TempDir(), "a.json"))
	if err := a.Put(t.Context(), definition(1)); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	other := definition(7)
	other.Name, other.UID = "other", "uid-7"
	b := newReplica(t, server, filepath.Join(t.TempDir(), "b.json"))
	if err := b.Put(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.want(t, definition(1), other)
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(t, definition(1), other)
}

// TestSecretIsReplaced carries a secret over in three steps, with a replica of the step before and
// one of the step after at each. Every replica knows every definition all the time.
func TestSecretIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	path := func(name string) string { return filepath.Join(t.TempDir(), name+".json") }
	first := newReplica(t, server, path("first"))
	if err := first.Put(t.Context(), definition(1)); err != nil {
		t.Fatal(err)
	}
	kept := path("kept")
	for i, step := range [][2][]string{
		{{"s"}, {"s", "n"}},
		{{"s", "n"}, {"n", "s"}},
		{{"n", "s"}, {"n"}},
	} {
		before, after := newReplicaWith(t, server, path("before"), step[0]...), newReplicaWith(t, server, kept, step[1]...)
		for round := range 2 {
			for _, r := range []*replica{before, after} {
				if err := r.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.want(t, definition(1))
			}
			if t.Failed() {
				t.Fatalf("step %d, round %d", i, round)
			}
		}
	}
	// The former secret opens nothing any more, neither in Redis nor in the copy on disk.
	late := newReplica(t, server, kept)
	late.want(t)
}
