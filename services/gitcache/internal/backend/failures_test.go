// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// advertise answers every request as if body were the list of refs.
func advertise(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, body)
	}
}

// failures lets the upstream fail in one way after the other. After each the mirror is as before,
// and at the end it continues.
func failures(t *testing.T, open opener) {
	t.Run("answers", func(t *testing.T) { failingAnswers(t, open) })
	t.Run("absent", func(t *testing.T) { absentRepository(t, open) })
	t.Run("refused", func(t *testing.T) { refusedCredential(t, open) })
	t.Run("unreachable", func(t *testing.T) { unreachableUpstream(t, open) })
	t.Run("rate limit", func(t *testing.T) { rateLimit(t, open) })
	t.Run("redirect", func(t *testing.T) { redirect(t, open) })
}

func failingAnswers(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	wideLine := strings.Repeat("1", 64) + " HEAD\x00object-format=cheese\n"
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   reason.Reason
	}{
		"web page": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title>")
		}, reason.UpstreamProtocol},
		"bad gateway":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, reason.UpstreamUnreachable},
		"forbidden":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, reason.UpstreamAuthRejected},
		"garbage":        {advertise("zzzz"), reason.UpstreamProtocol},
		"nothing":        {advertise(""), reason.UpstreamProtocol},
		"cut off":        {advertise("001e# service=git-upload-pack\n00000"), reason.UpstreamProtocol},
		"foreign hashes": {advertise(fmt.Sprintf("001e# service=git-upload-pack\n0000%04x%s0000", len(wideLine)+4, wideLine)), reason.UpstreamProtocol},
	} {
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { test.answer(w); return true })
		t.Log(name)
		wantReason(t, s.try(t.Context()), test.want)
		s.wantRefs(t, map[string]string{"heads/main": first})
	}
	server.Intercept(nil)
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": second})
}

func absentRepository(t *testing.T, open opener) {
	server := gittest.New(t)
	s := newSubject(t, open, server.URL()+"/nowhere.git")
	wantReason(t, s.try(t.Context()), reason.RepositoryNotFound)
	repo := server.Repo(t, "demo")
	s.def = ways(server, repo)["ssh"]
	s.def.URL = strings.Replace(s.def.URL, "demo", "nowhere", 1)
	wantReason(t, s.try(t.Context()), reason.RepositoryNotFound)
}

func refusedCredential(t *testing.T, open opener) {
	server, stranger := gittest.New(t, gittest.WithBasicAuth("leat", "right")), gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected)
	s.def.Credential = upstream.Credential{
		Method: upstream.MethodBasic, Username: "leat", Password: "sesame", AllowPlainHTTP: true,
	}
	if err := explained(t, s.try(t.Context()), reason.UpstreamAuthRejected); strings.Contains(err.Error(), "sesame") {
		t.Errorf("got error %q, want no credential in it", err)
	}
	s.def.Credential.Password = "right"
	s.def.Credential.AllowPlainHTTP = false
	wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected)
	s.def.Credential.AllowPlainHTTP = true
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": first})
	server.SetBasicAuth("leat", "changed") // revoked: mirrored content stays
	wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected)
	s.wantFiles(t, first, map[string]string{"a": "1"})

	ssh := newSubject(t, open, "")
	ssh.def = ways(server, repo)["ssh"]
	ssh.def.Credential.PrivateKey = secret.Text(stranger.SSHPrivateKey())
	wantReason(t, ssh.try(t.Context()), reason.UpstreamAuthRejected)
	ssh.def = ways(server, repo)["ssh"]
	ssh.def.Credential.KnownHosts = stranger.SSHKnownHosts()
	wantReason(t, ssh.try(t.Context()), reason.UpstreamHostKeyRejected)
	_, key, _ := strings.Cut(stranger.SSHKnownHosts(), " ")
	host, _, _ := strings.Cut(server.SSHKnownHosts(), " ")
	ssh.def.Credential.KnownHosts = host + " " + key // the right name with another's key
	wantReason(t, ssh.try(t.Context()), reason.UpstreamHostKeyRejected)
}

func unreachableUpstream(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	for name, def := range ways(server, repo) {
		server.Start(t)
		s := newSubject(t, open, "")
		s.def = def
		s.fetch(t)
		server.Stop()
		t.Log(name)
		wantReason(t, s.try(t.Context()), reason.UpstreamUnreachable)
		s.wantUntouched(t, first)
		server.Start(t)
		s.fetch(t)
	}
}

// rateLimit wants the time that the upstream asks for to be handed on.
func rateLimit(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	if err := explained(t, s.try(t.Context()), reason.UpstreamRateLimited); err.RetryAfter != 17*time.Second {
		t.Errorf("got retry after %s, want 17s", err.RetryAfter)
	}
	server.Intercept(nil)
	s.reopen(t) // forgets what the host asked for
	s.fetch(t)
}

// redirect sends the listing to another host, where the credential must not follow.
func redirect(t *testing.T, open opener) {
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	var leaked, asked atomic.Int64
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		return false
	})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, ok := r.BasicAuth(); !ok || user != "leat" {
			w.Header().Set("WWW-Authenticate", `Basic realm="front"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		to := server.URL() + strings.Replace(r.URL.Path, "/old", "/demo", 1) + "?" + r.URL.RawQuery
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusMovedPermanently)
	}))
	t.Cleanup(front.Close)
	s := newSubject(t, open, front.URL+"/old.git")
	s.def.Credential = upstream.Credential{
		Method: upstream.MethodBasic, Username: "leat", Password: "secret", AllowPlainHTTP: true,
	}
	s.fetch(t)
	s.wantRefs(t, map[string]string{"heads/main": first})
	if asked.Load() == 0 || leaked.Load() != 0 {
		t.Errorf("got the credential %d times at its host and %d times elsewhere, want some and none", asked.Load(), leaked.Load())
	}
}
