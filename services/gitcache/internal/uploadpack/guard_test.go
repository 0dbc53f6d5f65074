// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// internalService starts a server on this machine that an attacker must not reach and that is not a
// Git server. It returns the server's URL and the number of its requests.
func internalService(t *testing.T) (address string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// TestSecWhatNobodyWroteIsGuarded fetches from URLs of committers and upstreams that lead to this
// machine. None of them reaches it, under any name. The URL that an administrator wrote does.
func TestSecWhatNobodyWroteIsGuarded(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "group/demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	secret, asked := internalService(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(secret, "http://"), ":")
	proxy, proxied := internalService(t)
	throughProxy := func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }
	submodule := func(address string) mirror.Definition {
		return mirror.Definition{Name: "demo.1", UID: "submodule-1", Parent: "demo", ParentUID: "uid-1", Definition: upstream.Definition{URL: address}}
	}
	wantRefused := func(name string, f *fixture, def mirror.Definition) {
		t.Helper()
		f.guarded = true
		f.root = func(uid string) (string, bool) { return repo.URL(), uid == "uid-1" }
		f.reopen(t)
		f.def = def
		upstream, ok := errors.AsType[*mirror.UpstreamError](f.try(t.Context()))
		if !ok || upstream.Reason != reason.UpstreamUnreachable || !strings.Contains(upstream.Message, "administrator") {
			t.Errorf("%s: got %v, want it refused with that reason", name, upstream)
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("%s: got %d requests at an internal service, want none", name, n)
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.1.2.3"} {
		wantRefused("submodule at "+host, newFixture(t, ""), submodule("http://"+host+":"+port+"/latest/meta-data"))
	}
	wantRefused("submodule with TLS", newFixture(t, ""), submodule("https://127.0.0.1:"+port+"/latest/meta-data"))
	wantRefused("submodule of an unknown root", newFixture(t, ""), mirror.Definition{UID: "submodule-1", ParentUID: "gone", Definition: upstream.Definition{URL: repo.URL()}})
	ssh := sshDefinition(server, repo)
	ssh.Parent, ssh.ParentUID = "demo", "uid-1"
	wantRefused("submodule over SSH", newFixture(t, ""), ssh)
	redirecting := httptest.NewServer(http.RedirectHandler(secret+"/x/info/refs?service=git-upload-pack", http.StatusFound))
	t.Cleanup(redirecting.Close)
	wantRefused("redirect", newFixture(t, ""), mirror.Definition{Name: "demo", UID: "uid-2", Definition: upstream.Definition{URL: redirecting.URL + "/demo"}})
	for _, target := range []string{"http://localhost:1/x", "https://127.0.0.1:1/x", "http://169.254.169.254/x", "https://metadata.google.internal/x"} {
		f := newFixture(t, "")
		f.proxy = throughProxy
		wantRefused("through a proxy to "+target, f, submodule(target))
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("got %d requests at the proxy, want none", n)
	}

	for name, def := range map[string]mirror.Definition{
		"what an administrator wrote": {Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL()}}, "a submodule beside its root": submodule(repo.URL()),
	} {
		f := newFixture(t, "")
		f.guarded, f.root = true, func(string) (string, bool) { return repo.URL(), true }
		f.reopen(t)
		f.def = def
		if err := f.try(t.Context()); err != nil {
			t.Errorf("%s: got %v, want it fetched", name, err)
		}
	}
}
