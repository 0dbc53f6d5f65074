// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

var errGone = errors.New("the right to fetch is gone")

// ways are definitions of one repository, by HTTP and by SSH.
func ways(server *gittest.Server, repo *gittest.Repo) map[string]mirror.Definition {
	return map[string]mirror.Definition{
		"http": {Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL()}},
		"ssh": {
			Name: "demo", UID: "uid-1", Definition: upstream.Definition{
				URL: repo.SSHURL(),
				Credential: upstream.Credential{
					Method: upstream.MethodSSH, PrivateKey: secret.Text(server.SSHPrivateKey()), KnownHosts: server.SSHKnownHosts(),
				},
			},
		},
	}
}

// noBytesWithoutRight wants that nothing reaches the upstream once the right to fetch is gone.
func noBytesWithoutRight(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	for name, def := range ways(server, repo) {
		s := newSubject(t, open, "")
		s.def = def
		repo.ResetStats()
		err := s.tryGuarded(t.Context(), func() error { return errGone })
		if !errors.Is(err, errGone) || repo.Stats() != (gittest.Stats{}) {
			t.Errorf("%s: got %v and %+v, want the guard's error and no request", name, err, repo.Stats())
		}
	}
	// The right goes between the listing and the request for objects, which are one over SSH.
	s := newSubject(t, open, repo.URL())
	err := s.tryGuarded(t.Context(), func() error {
		if repo.Stats().Refs > 0 {
			return errGone
		}
		return nil
	})
	if !errors.Is(err, errGone) || repo.Stats().Fetches != 0 {
		t.Errorf("got %v and %+v, want the guard's error and no request for objects", err, repo.Stats())
	}
	if _, err := s.Load(t.Context(), s.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want no mirror", err)
	}
}

// rightLostWhileFetching wants that objects which arrive after the right was lost do not become the
// mirror's.
func rightLostWhileFetching(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	for name, def := range ways(server, repo) {
		s := newSubject(t, open, "")
		s.def = def
		lost := func() error {
			if repo.Stats().Fetches > 0 {
				return errGone
			}
			return nil
		}
		first := repo.Commit(t, "main", map[string]string{"a": name})
		repo.ResetStats()
		if err := s.tryGuarded(t.Context(), lost); !errors.Is(err, errGone) {
			t.Fatalf("%s: got %v from a clone, want the guard's error", name, err)
		}
		if _, err := s.Open(t.Context(), s.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
			t.Errorf("%s: got %v, want no mirror", name, err)
		}
		s.fetch(t)
		second := repo.Commit(t, "main", map[string]string{"a": name + " again"})
		repo.ResetStats()
		if err := s.tryGuarded(t.Context(), lost); !errors.Is(err, errGone) {
			t.Fatalf("%s: got %v from a fetch, want the guard's error", name, err)
		}
		s.wantUntouched(t, first)
		s.fetch(t)
		s.wantRefs(t, map[string]string{"heads/main": second})
		s.fsck(t)
	}
}

// wantUntouched wants the mirror to be, and to stay over a restart, as it was when main was at that
// commit.
func (s *subject) wantUntouched(t *testing.T, main string) {
	t.Helper()
	s.wantRefs(t, map[string]string{"heads/main": main})
	if _, err := s.reader(t).Tree(t.Context(), main, ""); err != nil {
		t.Errorf("got %v from reading what was mirrored", err)
	}
	s.reload(t)
}

// cancelledFetch ends a fetch while the upstream is silent: while it should list, and while it
// should send objects.
func cancelledFetch(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	for _, service := range []string{"/info/refs", "/git-upload-pack"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		errWhy := errors.New("no more")
		server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, service) {
				return false
			}
			cancel(errWhy)
			<-r.Context().Done()
			return true
		})
		err := s.try(ctx)
		if !errors.Is(err, errWhy) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", service, err)
		}
		if _, ok := errors.AsType[*mirror.UpstreamError](err); ok {
			t.Errorf("%s: got %v, want nobody to blame the upstream", service, err)
		}
		s.wantUntouched(t, first)
	}
	server.Intercept(nil)
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": second})
	s.fsck(t)
}

// cutPack breaks connections in the middle of a pack: the mirror keeps what it had, and the next
// fetch succeeds.
func cutPack(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	noise := make([]byte, 1<<20) // does not compress
	_, _ = rand.Read(noise)
	body := base64.StdEncoding.EncodeToString(noise)
	clone := newSubject(t, open, repo.URL())
	server.CutFetches(300 << 10)
	first := repo.Commit(t, "main", map[string]string{"a": body})
	wantReason(t, clone.try(t.Context()), reason.UpstreamProtocol, reason.UpstreamUnreachable)
	if _, err := clone.Open(t.Context(), clone.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v after a clone that broke off, want ErrNoMirror", err)
	}
	server.CutFetches(0)
	clone.fetch(t)
	server.CutFetches(300 << 10)
	second := repo.Commit(t, "main", map[string]string{"b": body[1:]})
	wantReason(t, clone.try(t.Context()), reason.UpstreamProtocol, reason.UpstreamUnreachable)
	clone.wantUntouched(t, first)
	server.CutFetches(0)
	clone.fetch(t)
	clone.wantRefs(t, map[string]string{"heads/main": second})
	clone.fsck(t)
}

// readersAreCounted waits with one more reader than there may be until another is closed, or the
// context ends. The back end sets the bound; 1 000 is above every bound.
func readersAreCounted(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	var readers sync.WaitGroup
	for range 50 { // more than may be open at once: each gets its turn
		readers.Go(func() {
			r, err := s.Open(t.Context(), s.def.UID)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := r.Tree(t.Context(), first, ""); err != nil {
				t.Error(err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 1000 {
		r, err := s.Open(ctx, s.def.UID)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		cancel() // who has to wait now, gives up
	}
	t.Error("got 1000 readers at once, want a bound")
}
