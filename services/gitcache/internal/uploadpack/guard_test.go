// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/gittest"
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
		f.root = func(uid string) (mirror.Root, bool) { return mirror.Root{URL: repo.URL()}, uid == "uid-1" }
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
		f.guarded, f.root = true, func(string) (mirror.Root, bool) { return mirror.Root{URL: repo.URL()}, true }
		f.reopen(t)
		f.def = def
		if err := f.try(t.Context()); err != nil {
			t.Errorf("%s: got %v, want it fetched", name, err)
		}
	}
}

// TestSecPublicOnly fetches for definitions whose authors may not choose where gitcache calls. No
// URL of theirs reaches a private network or this machine: not the repository's own, nor the URL of
// its proxy, of its submodules or of an app's API. A network that the operator lists may be
// reached.
func TestSecPublicOnly(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "group/demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	service, asked := internalService(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(service, "http://"), ":")
	confined := func(d upstream.Definition) mirror.Definition {
		d.PublicOnly = true
		return mirror.Definition{Name: "demo", UID: "uid-1", Definition: d}
	}
	submodule := confined(upstream.Definition{URL: service})
	submodule.PublicOnly, submodule.UID, submodule.Parent, submodule.ParentUID = false, "submodule-1", "demo", "uid-1"
	ssh := sshDefinition(server, repo)
	ssh.PublicOnly = true
	_, key := rsaPEM(t)
	for name, def := range map[string]mirror.Definition{
		"this machine":            confined(upstream.Definition{URL: service}),
		"this machine by TLS":     confined(upstream.Definition{URL: "https://127.0.0.1:" + port + "/x"}),
		"this machine by SSH":     ssh,
		"a private network":       confined(upstream.Definition{URL: "http://10.1.2.3:1/x"}),
		"a private network, IPv6": confined(upstream.Definition{URL: "http://[fd12::1]:1/x"}),
		"a proxy":                 confined(upstream.Definition{URL: "https://git.example/x", ProxyURL: secret.Text("http://127.0.0.1:" + port)}),
		"a proxy for plain HTTP":  confined(upstream.Definition{URL: "http://git.example/x", ProxyURL: secret.Text("http://127.0.0.1:" + port)}),
		"a SOCKS proxy":           confined(upstream.Definition{URL: "https://git.example/x", ProxyURL: secret.Text("socks5://127.0.0.1:" + port)}),
		"a submodule at its root": submodule,
		"an app's API": confined(upstream.Definition{URL: "https://git.example/x", Credential: upstream.Credential{
			Method: upstream.MethodGitHubApp, AppID: 1, InstallationID: 1, PrivateKey: key, APIURL: "http://127.0.0.1:" + port, AllowPlainHTTP: true,
		}}),
	} {
		f := newFixture(t, "")
		f.guarded = true
		f.root = func(uid string) (mirror.Root, bool) {
			return mirror.Root{URL: service, PublicOnly: true}, uid == "uid-1"
		}
		f.reopen(t)
		f.def = def
		err := f.try(t.Context())
		refused, ok := errors.AsType[*mirror.UpstreamError](err)
		if !ok || refused.Reason != reason.UpstreamUnreachable {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
		if def.ParentUID == "" && (refused == nil || !strings.Contains(refused.Message, "gitcache-allow-networks")) {
			t.Errorf("%s: got %v, want to hear who can help", name, refused)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("got %d requests at an internal service, want none", n)
	}
	f := newFixture(t, "")
	f.guarded, f.networks = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	f.reopen(t)
	f.def = confined(upstream.Definition{URL: repo.URL()})
	if err := f.try(t.Context()); err != nil {
		t.Errorf("got %v, want a network that the operator lists to be reached", err)
	}
}
