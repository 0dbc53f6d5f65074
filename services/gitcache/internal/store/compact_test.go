// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/store"
)

// TestWhatIsDeliveredIsKept has a policy hold a branch back, and compacts the mirror. Commits stay
// that the refs name, that are delivered instead, and that the refs named a week ago. A commit that
// none of them reaches is dropped.
func TestWhatIsDeliveredIsKept(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	commits, noise := map[string]string{}, make([]string, 101) // which does not compress
	for i := range noise {
		noise[i] = fmt.Sprintf("%x", sha512.Sum512([]byte{byte(i)}))
	}
	for i, name := range []string{"held", "good", "before", "lost"} {
		commits[name] = repo.Commit(t, name, map[string]string{"a": strings.Join(noise[:1+100*(i/3)], name)})
	}
	repo.Git(t, "repack", "-a", "-d", "-q", "--no-write-bitmap-index")
	dir := t.TempDir()
	s := newStore(t, dir)
	held, good := commits["held"], commits["good"]
	c := pointing(held)
	c.Refs = mirror.NewRefs([]mirror.Ref{{
		Name: "refs/heads/main", Object: held, Commit: held, Held: "is not signed", GoodObject: good, GoodCommit: good,
	}})
	acceptPacks(t, s, repo, c)
	examined := filepath.Join(dir, "uid", "examined.json")
	if err := os.WriteFile(examined, []byte(`{"at":"2001-01-01T00:00:00Z","tips":["`+commits["before"]+`"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := s.Compact(t.Context(), "uid", func(context.Context) (func(), error) { return func() {}, nil })
	if err != nil || !done.Full {
		t.Fatalf("got %+v (%v), want what nothing reaches to be gone", done, err)
	}
	r, err := s.Open(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for name, id := range commits {
		if _, err := r.File(t.Context(), id, "a"); (err == nil) != (name != "lost") {
			t.Errorf("got %v of the commit that is %s", err, name)
		}
	}
}

// TestCompactingIsNotReading has a mirror compacted: room is made by the time of the last reader.
func TestCompactingIsNotReading(t *testing.T) {
	t.Parallel()
	s := newStore(t, t.TempDir())
	accept(t, s, mirror.Content{}, false)
	if _, err := s.Compact(t.Context(), "uid", func(context.Context) (func(), error) { return func() {}, nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.Stored(); len(got) != 1 || !got[0].ReadAt.IsZero() {
		t.Errorf("got %+v after a compaction, want one mirror that was not read", got)
	}
	r, err := s.Open(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Stored(); len(got) != 1 || got[0].ReadAt.IsZero() {
		t.Errorf("got %+v after a reader, want one mirror that was read", got)
	}
}

// acceptPacks makes the packs of a repository a mirror.
func acceptPacks(t *testing.T, s *store.Store, repo *gittest.Repo, c mirror.Content) {
	t.Helper()
	d, err := s.Draft("uid", c, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	packs := filepath.Join("objects", "pack")
	if err := os.CopyFS(filepath.Join(d.Dir(), packs), os.DirFS(filepath.Join(repo.Dir(), packs))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Accept(t.Context(), params(allowed), c); err != nil {
		t.Fatal(err)
	}
}
