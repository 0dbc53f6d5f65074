// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func basic(user, password string) mirror.Credential {
	return mirror.Credential{
		Method: mirror.MethodBasic, Username: user, Password: mirror.Secret(password), AllowPlainHTTP: true,
	}
}

func TestBasicAuth(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithBasicAuth("leat", "right"))
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	wantReason(t, f.try(t.Context()), mirror.ReasonAuthRejected)
	f.def.Credential = basic("leat", "sesame")
	err := wantReason(t, f.try(t.Context()), mirror.ReasonAuthRejected)
	if strings.Contains(err.Error(), "sesame") {
		t.Errorf("got error %q, want no credential in it", err)
	}
	f.def.Credential = basic("leat", "right")
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})

	server.SetBasicAuth("leat", "changed") // revoked: what is mirrored stays
	wantReason(t, f.try(t.Context()), mirror.ReasonAuthRejected)
	f.files(t, first)
}

func TestBearer(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer token" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	f := newFixture(t, repo.URL())
	f.def.Credential = mirror.Credential{Method: mirror.MethodBearer, Token: "token"}
	wantReason(t, f.try(t.Context()), mirror.ReasonAuthRejected) // plain HTTP was not allowed
	f.def.Credential.AllowPlainHTTP = true
	f.fetch(t)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithTLS())
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	wantReason(t, f.try(t.Context()), mirror.ReasonUnreachable)
	f.def.CAPEM = string(server.CertificatePEM())
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
}

func sshDefinition(server *gittest.Server, repo *gittest.Repo) mirror.Definition {
	return mirror.Definition{
		Name: "demo", UID: "uid-1", URL: repo.SSHURL(),
		Credential: mirror.Credential{
			Method: mirror.MethodSSH, PrivateKey: mirror.Secret(server.SSHPrivateKey()), KnownHosts: server.SSHKnownHosts(),
		},
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "group/it's")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, "")
	f.def = sshDefinition(server, repo)
	if err := f.Check(f.def); err != nil {
		t.Fatal(err)
	}
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": second})
	f.files(t, second)
	f.fetch(t)
	fsck(t, f)
}

func TestSSHRefusals(t *testing.T) {
	t.Parallel()
	server, stranger := gittest.New(t), gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, "")

	f.def = sshDefinition(server, repo)
	f.def.URL = strings.Replace(f.def.URL, "demo", "nowhere", 1)
	wantReason(t, f.try(t.Context()), mirror.ReasonNotFound)

	f.def = sshDefinition(server, repo)
	f.def.Credential.PrivateKey = mirror.Secret(stranger.SSHPrivateKey())
	wantReason(t, f.try(t.Context()), mirror.ReasonAuthRejected)

	f.def = sshDefinition(server, repo)
	f.def.Credential.KnownHosts = stranger.SSHKnownHosts()
	wantReason(t, f.try(t.Context()), mirror.ReasonHostKey)

	_, key, _ := strings.Cut(stranger.SSHKnownHosts(), " ")
	host, _, _ := strings.Cut(server.SSHKnownHosts(), " ")
	f.def.Credential.KnownHosts = host + " " + key // the right name with another's key
	wantReason(t, f.try(t.Context()), mirror.ReasonHostKey)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, server.URL()+"/nowhere.git")
	wantReason(t, f.try(t.Context()), mirror.ReasonNotFound)

	f.def.URL = repo.URL()
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   mirror.Reason
	}{
		"html":        {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, mirror.ReasonProtocol},
		"bad gateway": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, mirror.ReasonUnreachable},
		"garbage": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("zzzz"))
		}, mirror.ReasonProtocol},
		"cut off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("001e# service=git-upload-pack\n00000"))
		}, mirror.ReasonProtocol},
		"sha256": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			line := strings.Repeat("1", 64) + " HEAD\x00object-format=sha256\n"
			_, _ = fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s0000", len(line)+4, line)
		}, mirror.ReasonProtocol},
	} {
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { test.answer(w); return true })
		t.Log(name)
		err := wantReason(t, f.try(t.Context()), test.want)
		if name == "sha256" && !strings.Contains(err.Message, "SHA-256") {
			t.Errorf("got message %q, want it to name SHA-256", err.Message)
		}
	}

	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	if err := wantReason(t, f.try(t.Context()), mirror.ReasonRateLimited); err.RetryAfter != 17*time.Second {
		t.Errorf("got retry after %s, want 17s", err.RetryAfter)
	}
	if _, ok := errors.AsType[*mirror.QuietError](f.try(t.Context())); !ok {
		t.Error("the host was asked again before its time")
	}
	f.reopen(t) // forgets what the host asked for
	server.Intercept(nil)
	server.Stop()
	wantReason(t, f.try(t.Context()), mirror.ReasonUnreachable)
	server.Start(t)
	f.fetch(t)
}

// TestPackCutOff breaks the connection in the middle of a pack: the mirror keeps what it had.
func TestPackCutOff(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	f.fetch(t)
	second := repo.Commit(t, "main", map[string]string{"b": strings.Repeat("some text ", 10_000)})
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = w.Write([]byte("0008NAK\n0010\x01PACK\x00\x00\x00\x02\x00\x00\x00"))
		return true
	})
	wantReason(t, f.try(t.Context()), mirror.ReasonProtocol)
	f.wantRefs(t, map[string]string{"heads/main": first})
	server.Intercept(nil)
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": second})
	f.files(t, second)
	fsck(t, f)
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	var leaked atomic.Int64
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		return false
	})
	var asked atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user == "leat" {
			asked.Add(1)
		}
		http.Redirect(w, r, server.URL()+strings.Replace(r.URL.Path, "/old", "/demo", 1)+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
	}))
	t.Cleanup(front.Close)
	f := newFixture(t, front.URL+strings.Replace(strings.TrimPrefix(repo.URL(), server.URL()), "/demo", "/old", 1))
	f.def.Credential = basic("leat", "secret")
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	if asked.Load() == 0 || leaked.Load() != 0 {
		t.Errorf("got the credential %d times at its host and %d times elsewhere, want some and none", asked.Load(), leaked.Load())
	}
}

// TestGuard makes sure that nothing reaches the upstream once the right to fetch is gone.
func TestGuard(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	errGone := errors.New("gone")
	for _, def := range []mirror.Definition{{Name: "demo", UID: "uid-1", URL: repo.URL()}, sshDefinition(server, repo)} {
		f := newFixture(t, "")
		repo.ResetStats()
		_, err := f.Fetch(t.Context(), mirror.FetchParams{Definition: def, Epoch: 1, Guard: func() error { return errGone }})
		if !errors.Is(err, errGone) || repo.Stats() != (gittest.Stats{}) {
			t.Errorf("got %v and %+v, want the guard's error and no request", err, repo.Stats())
		}
		// The right goes between the listing and the fetch.
		var asked atomic.Int64
		_, err = f.Fetch(t.Context(), mirror.FetchParams{Definition: def, Epoch: 1, Guard: func() error {
			if asked.Add(1) > 3 && repo.Stats().Refs > 0 {
				return errGone
			}
			return nil
		}})
		if def.Credential.Method != mirror.MethodSSH && (!errors.Is(err, errGone) || repo.Stats().Fetches != 0) {
			t.Errorf("got %v and %+v, want the guard's error and no fetch", err, repo.Stats())
		}
	}
}

func TestContextEndsFetch(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	server := gittest.New(t)
	for _, def := range []mirror.Definition{
		{Name: "demo", UID: "uid-1", URL: "http://" + silent.Addr().String() + "/demo"},
		{Name: "demo", UID: "uid-1", URL: "ssh://git@" + silent.Addr().String() + "/demo", Credential: mirror.Credential{
			Method: mirror.MethodSSH, PrivateKey: mirror.Secret(server.SSHPrivateKey()),
			KnownHosts: strings.Replace(server.SSHKnownHosts(), portOf(server.SSHAddr()), portOf(silent.Addr().String()), 1),
		}},
	} {
		f := newFixture(t, "")
		f.def = def
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := f.try(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want the context's error", def.URL, err)
		}
		cancel()
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
