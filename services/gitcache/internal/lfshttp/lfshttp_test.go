// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfshttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/lfshttp"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// newClient speaks over everything that carries requests in production.
func newClient(t *testing.T) *lfshttp.Client {
	t.Helper()
	git, err := gogit.New(gogit.Config{
		Guard: dialguard.Guard{AllowLocal: true}, // in this test another host is another port of this machine
		Dir:   t.TempDir(), Logger: slog.New(slog.DiscardHandler), Hosts: hostgate.New(hostgate.Config{Requests: 10_000, Burst: 10_000}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return lfshttp.New(git)
}

// answers are the results of Fetch, by path; tests take contents for paths.
type answers struct {
	got    map[string]string
	failed map[string]error
	err    error
}

func fetch(t *testing.T, c *lfshttp.Client, r lfs.Request, contents ...string) answers {
	t.Helper()
	if r.Guard == nil {
		r.Guard = func() error { return nil }
	}
	for _, content := range contents {
		p := lfs.Pointer{OID: gittest.LFSOID(content), Size: int64(len(content))}
		r.Wants = append(r.Wants, lfs.Want{Pointer: p, Path: content})
	}
	var mu sync.Mutex
	a := answers{got: map[string]string{}, failed: map[string]error{}}
	a.err = c.Fetch(t.Context(), r, func(w lfs.Want, body io.Reader, err error) {
		var data []byte
		if err == nil {
			data, err = io.ReadAll(body)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			a.failed[w.Path] = err
			return
		}
		a.got[w.Path] = string(data)
	})
	return a
}

func request(repo *gittest.Repo) lfs.Request {
	return lfs.Request{OwnerTask: mirror.OwnerTask{Definition: mirror.Definition{Name: "demo", UID: "uid", Definition: upstream.Definition{URL: repo.URL()}}}}
}

func wantReason(t *testing.T, err error, want reason.Reason) {
	t.Helper()
	if upstream, ok := errors.AsType[*mirror.UpstreamError](err); !ok || upstream.Reason != want {
		t.Errorf("got %v, want reason %s", err, want)
	}
}

func TestObjectsComeInBatches(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "group/demo")
	want := map[string]string{}
	var contents []string
	for i := range 250 {
		content := fmt.Sprintf("content %d", i)
		repo.LFS().Put(content)
		contents, want[content] = append(contents, content), content
	}
	r := request(repo)
	r.Definition.URL = strings.TrimSuffix(repo.URL(), ".git") + "/" // .git is added, as git-lfs does
	a := fetch(t, newClient(t), r, append(contents, "unknown")...)
	if a.err != nil {
		t.Fatal(a.err)
	}
	if diff := cmp.Diff(want, a.got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	missing, ok := errors.AsType[*lfs.MissingError](a.failed["unknown"])
	if !ok || missing.Path != "unknown" || !strings.Contains(missing.Said, "does not exist") || len(a.failed) != 1 {
		t.Errorf("got failures %v, want the unknown one missing in the server's words", a.failed)
	}
	if stats := repo.LFS().Stats(); stats.Batches != 3 || stats.Downloads != 250 {
		t.Errorf("got %+v, want 3 batches and 250 downloads", stats)
	}
}

func TestNoLFS(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	a := fetch(t, newClient(t), request(repo), "x")
	if _, ok := errors.AsType[*lfs.MissingError](a.failed["x"]); !ok || a.err != nil {
		t.Errorf("got %v, %v from a host without LFS, want the object missing", a.failed, a.err)
	}
}

func TestFailuresHaveReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   reason.Reason
	}{
		"unauthorized": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, reason.UpstreamAuthRejected},
		"broken":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, reason.UpstreamUnreachable},
		"a web page":   {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") }, reason.UpstreamProtocol},
		"another transfer": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"transfer":"tus","objects":[]}`)
		}, reason.UpstreamProtocol},
		"limited": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}, reason.UpstreamRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gittest.New(t)
			repo := server.Repo(t, "demo")
			repo.LFS().Put("x")
			server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { c.answer(w); return true })
			client := newClient(t)
			a := fetch(t, client, request(repo), "x")
			wantReason(t, a.err, c.want)
			if c.want != reason.UpstreamRateLimited {
				return
			}
			if upstream, ok := errors.AsType[*mirror.UpstreamError](a.err); !ok || upstream.RetryAfter != 2*time.Minute {
				t.Errorf("got %+v, want to come back after two minutes", upstream)
			}
			server.Intercept(nil)
			a = fetch(t, client, request(repo), "x")
			if _, ok := errors.AsType[*mirror.QuietError](a.err); !ok {
				t.Errorf("got %v, want the host left alone", a.err)
			}
		})
	}
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	server.Stop()
	wantReason(t, fetch(t, newClient(t), request(repo), "x").err, reason.UpstreamUnreachable)
}

// heard is another host, which keeps what it is sent.
type heard struct {
	*httptest.Server
	mu      sync.Mutex
	headers []http.Header
}

func listen(t *testing.T, answer string) *heard {
	t.Helper()
	h := &heard{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.headers = append(h.headers, r.Header.Clone())
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *heard) all() []http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.headers
}

// TestCredentialStaysAtItsHost downloads from a store at another host, directly and by a redirect.
func TestCredentialStaysAtItsHost(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithBasicAuth("leat", "canary"))
	repo := server.Repo(t, "demo")
	repo.LFS().Put("x")
	store := listen(t, "x")
	r := request(repo)
	wantReason(t, fetch(t, newClient(t), r, "x").err, reason.UpstreamAuthRejected)
	r.Definition.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: "leat", Password: "canary", AllowPlainHTTP: true}
	name, ticket := repo.LFS().Ticket()

	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil {
		t.Errorf("got %v from the host itself, want the object", a)
	}
	repo.LFS().SetStore(store.URL + "/")
	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil {
		t.Errorf("got %v from another host, want the object", a)
	}
	if sent := store.all(); len(sent) != 1 || sent[0].Get("Authorization") != "" || sent[0].Get(name) != ticket {
		t.Errorf("got %v at the store, want the ticket and no credential", sent)
	}
	repo.LFS().SetStore("")
	server.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method == http.MethodGet {
			http.Redirect(w, req, store.URL+"/moved", http.StatusFound)
		}
		return req.Method == http.MethodGet
	})
	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil {
		t.Errorf("got %v over a redirect, want the object", a)
	}
	if sent := store.all(); len(sent) != 2 || sent[1].Get("Authorization") != "" || sent[1].Get(name) != "" {
		t.Errorf("got %v at the store, want neither ticket nor credential", sent[1:])
	}
	server.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		http.Redirect(w, req, store.URL+"/batch", http.StatusTemporaryRedirect)
		return true
	})
	wantReason(t, fetch(t, newClient(t), r, "x").err, reason.UpstreamProtocol)
	if sent := store.all(); len(sent) != 2 {
		t.Errorf("got %v at the store, want no batch request there", sent[2:])
	}
}

// TestConfiguredServer follows .lfsconfig at the repository's own host only.
func TestConfiguredServer(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo, other := server.Repo(t, "demo"), server.Repo(t, "other")
	other.LFS().Put("x")
	r := request(repo)
	r.URL = other.URL() + "/info/lfs"
	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil {
		t.Errorf("got %v from the configured server, want the object", a)
	}
	elsewhere := listen(t, "{}")
	r.URL = elsewhere.URL
	a := fetch(t, newClient(t), r, "x")
	if missing, ok := errors.AsType[*lfs.MissingError](a.failed["x"]); !ok || !strings.Contains(missing.Said, ".lfsconfig") {
		t.Errorf("got %v, want .lfsconfig blamed", a)
	}
	if sent := elsewhere.all(); len(sent) != 0 {
		t.Errorf("got %v at the other host, want nothing sent there", sent)
	}
}

func TestTLSIsNotLeft(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithTLS())
	repo := server.Repo(t, "demo")
	repo.LFS().Put("x")
	r := request(repo)
	wantReason(t, fetch(t, newClient(t), r, "x").err, reason.UpstreamUnreachable) // not trusted
	r.Definition.CAPEM = string(server.CertificatePEM())
	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil {
		t.Errorf("got %v over TLS, want the object", a)
	}
	plain := listen(t, "x")
	repo.LFS().SetStore(plain.URL + "/")
	wantReason(t, fetch(t, newClient(t), r, "x").err, reason.UpstreamProtocol)
	if sent := plain.all(); len(sent) != 0 {
		t.Errorf("got %v over plain HTTP, want nothing", sent)
	}
}

func TestSSHGrants(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithBasicAuth("somebody", "else"))
	repo := server.Repo(t, "demo")
	r := request(repo)
	r.Definition.URL = repo.SSHURL()
	r.Definition.Credential = upstream.Credential{
		Method: upstream.MethodSSH, PrivateKey: secret.Text(server.SSHPrivateKey()), KnownHosts: server.SSHKnownHosts(),
	}
	if a := fetch(t, newClient(t), r, "x"); a.err == nil {
		t.Errorf("got %v from a host without git-lfs-authenticate, want an error", a)
	}
	repo.LFS().Put("x")
	wantReason(t, fetch(t, newClient(t), r, "x").err, reason.UpstreamProtocol) // the grant is for plain HTTP
	r.Definition.Credential.AllowPlainHTTP = true
	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil {
		t.Errorf("got %v with a grant, want the object", a)
	}
}

var errFrozen = errors.New("not the owner any more")

// TestGuardComesFirst loses the right before the first byte, and between batch and download.
func TestGuardComesFirst(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.LFS().Put("x")
	r := request(repo)
	r.Guard = func() error { return errFrozen }
	if a := fetch(t, newClient(t), r, "x"); !errors.Is(a.err, errFrozen) || repo.LFS().Stats().Batches != 0 {
		t.Errorf("got %v and %+v, want nothing sent", a.err, repo.LFS().Stats())
	}
	r.Guard = func() error {
		if repo.LFS().Stats().Batches > 0 {
			return errFrozen
		}
		return nil
	}
	if a := fetch(t, newClient(t), r, "x"); !errors.Is(a.err, errFrozen) || repo.LFS().Stats().Downloads != 0 {
		t.Errorf("got %v and %+v, want no download", a.err, repo.LFS().Stats())
	}
}

// TestCutDownload ends in the middle of an object.
func TestCutDownload(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.LFS().Put("a long object")
	server.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Content-Length", "13")
		_, _ = io.WriteString(w, "a lo")
		return true
	})
	a := fetch(t, newClient(t), request(repo), "a long object")
	wantReason(t, a.failed["a long object"], reason.UpstreamProtocol)
}

// TestOldAddresses asks again for addresses that expired while other objects came, and uses a new
// address regardless of its date.
func TestOldAddresses(t *testing.T) {
	t.Parallel()
	batches := 0
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			_, _ = io.WriteString(w, "x")
			return
		}
		batches++
		_ = json.NewEncoder(w).Encode(map[string]any{"objects": []any{map[string]any{
			"oid": gittest.LFSOID("x"), "size": 1, "actions": map[string]any{"download": map[string]any{
				"href": server.URL + "/x", "expires_at": time.Now().Add(-time.Hour),
			}},
		}}})
	}))
	t.Cleanup(server.Close)
	r := lfs.Request{OwnerTask: mirror.OwnerTask{Definition: mirror.Definition{UID: "uid", Definition: upstream.Definition{URL: server.URL + "/demo"}}}}
	if a := fetch(t, newClient(t), r, "x"); a.got["x"] != "x" || a.err != nil || batches != 1 {
		t.Errorf("got %v after %d batches, want the object after one", a, batches)
	}
}

func TestGivesUpWithItsCaller(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.LFS().Put("x")
	ctx, cancel := context.WithCancel(t.Context())
	server.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
		cancel()
		<-req.Context().Done()
		return true
	})
	r := request(repo)
	r.Guard = func() error { return nil }
	r.Wants = []lfs.Want{{Pointer: lfs.Pointer{OID: gittest.LFSOID("x"), Size: 1}}}
	if err := newClient(t).Fetch(ctx, r, func(lfs.Want, io.Reader, error) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's cancellation", err)
	}
}
