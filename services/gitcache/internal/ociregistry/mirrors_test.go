// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/credfile"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// share has the subject use an operator's file of credentials and mirrors. A mirror may take as long
// as patience to begin an answer.
func (s *subject) share(t *testing.T, patience time.Duration, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := credfile.New(path, slog.New(slog.DiscardHandler))
	if err := file.Load(func(mirror.Definition) error { return nil }); err != nil {
		t.Fatal(err)
	}
	client := uploadpack.New(uploadpack.Config{
		Dir: t.TempDir(), Guard: dialguard.Guard{}, Hosts: hostgate.New(hostgate.Config{Requests: 100_000, Burst: 100_000}), Credentials: file,
	})
	var err error
	s.Upstream, err = ociregistry.New(ociregistry.Params{
		Carriers: client, Mirrors: s.store, Limits: bundle.Limits{Bytes: 1 << 20, Files: 100, FileBytes: 1 << 19},
		MirrorPatience: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMirrorsOfARegistry asks a mirror, which takes another credential than the registry, before
// the registry. Content that the mirror lacks, and everything while it is down, comes from the
// registry.
func TestMirrorsOfARegistry(t *testing.T) {
	t.Parallel()
	origin, cache := registrytest.Start(t, registrytest.Config{}), registrytest.Start(t, registrytest.Config{Username: "leat", Password: "open sesame"})
	first := origin.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	if got := cache.Push(t, "hub/team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0")); got != first {
		t.Fatalf("the mirror has %s, want %s", got, first)
	}
	atOrigin, atCache := newFront(t, origin.Addr, false), newFront(t, cache.Addr, false)
	s := newSubject(t, upstream.Definition{URL: atOrigin.url("team/web")})
	s.share(t, await.Patience, `
- urlPrefix: `+strings.TrimSuffix(atOrigin.url(""), "/")+`
  mirrors: [`+atCache.url("hub")+`]
- urlPrefix: `+strings.TrimSuffix(atCache.url(""), "/")+`
  credential: {basic: {username: leat, password: open sesame}, allowPlainHttp: true}
`)
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))
	if got := s.files(t, artifact.ID{Digest: first}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if asked := atOrigin.take(); len(asked) != 0 {
		t.Errorf("the registry was asked %v, want only its mirror to be asked", asked)
	}

	second := origin.Push(t, "team/web", "2.0.0", registrytest.ChartType, chart(t, "2.0.0"))
	if got := s.files(t, artifact.ID{Digest: second}); len(got) != 2 {
		t.Errorf("what the mirror lacks: got %v", got)
	}
	for _, header := range atOrigin.headers {
		if header.Get("Authorization") != "" {
			t.Error("the registry got the mirror's credential")
		}
	}

	atCache.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	s.fetch(t)
	if got := s.resolve(t, tag("2.0.0")); got != second {
		t.Errorf("while the mirror is down: got %s, want %s", got, second)
	}
	atOrigin.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected) // the registry's own failure
}

// TestSecFrozenMirrors has a mirror that takes requests and never answers: the registry serves, and the
// mirror is not asked again for a while.
func TestSecFrozenMirrors(t *testing.T) {
	t.Parallel()
	origin := registrytest.Start(t, registrytest.Config{})
	first := origin.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	atOrigin, frozen := newFront(t, origin.Addr, false), newFront(t, origin.Addr, false)
	frozen.fail(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	s := newSubject(t, upstream.Definition{URL: atOrigin.url("team/web")})
	s.share(t, 200*time.Millisecond, "- {urlPrefix: '"+strings.TrimSuffix(atOrigin.url(""), "/")+"', mirrors: ['"+frozen.url("hub")+"']}\n")
	s.fetch(t)
	if got := s.resolve(t, tag("1.0.0")); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	if got := s.files(t, artifact.ID{Digest: first}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if asked := frozen.take(); len(asked) != 1 {
		t.Errorf("the frozen mirror was asked %v, want one request", asked)
	}
}
