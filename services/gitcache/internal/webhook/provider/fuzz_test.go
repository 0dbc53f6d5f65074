// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// These tests are inside the package: behind the proof of a secret no fuzzer would get far.

// events are values of the headers that name a delivery's subject, for each provider.
func events() map[string][]http.Header {
	one := func(name string, values ...string) []http.Header {
		var headers []http.Header
		for _, value := range values {
			headers = append(headers, http.Header{name: {value}})
		}
		return headers
	}
	return map[string][]http.Header{
		"github":           one("X-Github-Event", "push", "ping", "delete", "issues"),
		"gitea":            append(one("X-Gitea-Event", "push", "create"), one("X-Forgejo-Event", "push")...),
		"gitlab":           one("X-Gitlab-Event", "Push Hook", "Tag Push Hook", "System Hook", "Issue Hook"),
		"bitbucket":        one("X-Event-Key", "repo:push", "repo:fork"),
		"bitbucket-server": one("X-Event-Key", "repo:refs_changed", "mirror:repo_synchronized", "diagnostics:ping"),
		"azure-devops":     {{}},
		"generic":          {{}},
		"distribution":     {{}},
		"harbor":           {{}},
	}
}

// FuzzPayload feeds every payload to every provider, as JSON and as a form.
func FuzzPayload(f *testing.F) {
	fixtures, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(fixtures) == 0 {
		f.Fatalf("got fixtures %v (%v), want some", fixtures, err)
	}
	for _, path := range fixtures {
		body, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
		f.Add([]byte("payload=" + url.QueryEscape(string(body))))
	}
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"url":"https://git.example.com/a.git"}`, `{"event":"ping"}`, `{"repository":null}`,
		`{"repository":{"clone_url":"git@host:a/b.git","ssh_url":":","html_url":"//"}}`, "payload=%zz",
		`{"repository":{"slug":"../x","project":{"key":"A"},"links":{"clone":[{"href":"x"}]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, headers := range events() {
			p, ok := providers[name]
			if !ok {
				t.Fatalf("no provider %q", name)
			}
			for _, header := range headers {
				for _, media := range []string{"application/json", "application/x-www-form-urlencoded"} {
					h := header.Clone()
					h.Set("Content-Type", media)
					n, err := p.Read(h, body)
					if err == nil {
						checkNotice(t, name, n)
					}
				}
			}
		}
	})
}

// largest is the usual bound on a delivery.
const largest = 512 << 10

// TestSecPayloadsCostTheirBytes reads proven deliveries that are made of as many small values as a
// body has room for. The memory that they take follows their bytes, not the number of the values. It
// is not parallel, because it counts what the process allocates.
func TestSecPayloadsCostTheirBytes(t *testing.T) {
	header := http.Header{"X-Github-Event": {"push"}, "X-Event-Key": {"repo:refs_changed"}}
	for name, body := range map[string]string{
		"fields":     `{"repository":{` + strings.Repeat(`"a":0,`, largest/6) + `"b":0}}`,
		"clone URLs": `{"repository":{"links":{"clone":[` + strings.Repeat(`{},`, largest/3) + `{}]}}}`,
	} {
		for _, provider := range []string{"github", "bitbucket-server", "azure-devops"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := providers[provider].Read(header, []byte(body))
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 4*largest {
				t.Errorf(
					"%s from %s (%v): got %d bytes allocated for %d, want at most four times as many", name, provider,
					err, got, len(body),
				)
			}
		}
	}
}

// checkNotice wants a notice about refs to name a repository, and other notices none.
func checkNotice(t *testing.T, provider string, n Notice) {
	t.Helper()
	if n.Kind != KindRefs {
		if len(n.urls) > 0 || n.path != "" {
			t.Errorf("%s: got %+v, want no repository", provider, n)
		}
		return
	}
	if n.Target() == "" || strings.ToLower(n.Target()) != n.Target() {
		t.Errorf("%s: got target %q", provider, n.Target())
	}
	for _, u := range n.urls {
		if !n.Concerns(u) {
			t.Errorf("%s: a delivery that names %q does not concern it", provider, u)
		}
	}
	if n.Concerns("https://another.example/not/named/anywhere.git") && !strings.Contains(n.Target(), "anywhere") {
		t.Errorf("%s: %+v concerns what it does not name", provider, n)
	}
}

// FuzzAddress wants all spellings of a URL to have one address, and an address to be its own.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"https://git.example.com/team/shop.git", "git@git.example.com:team/shop.git", "ssh://git@git.example.com:22/team/shop",
		"https://Git.Example.com:443/Team/Shop/", "git@ssh.dev.azure.com:v3/org/project/repo", "https://org.visualstudio.com/p/_git/p",
		"https://dev.azure.com/org/_git/repo", "https://[::1]:8443/a", "host:a", "a/b:c", "https://host/a/../b", "https://host/%2e%2e/b", "::", "https://host/.git", "https://charts.example.com/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		at := address(raw)
		if at == "" {
			return
		}
		host, folder, hasPath := strings.Cut(at, "/")
		if host == "" || hasPath != (folder != "") || strings.HasSuffix(at, "/") || !hasPath && !strings.Contains(raw, "://") {
			t.Errorf("%q: got address %q, want a host and a path, or the host of a URL", raw, at)
		}
		if !hasPath {
			folder = "none"
		}
		for element := range strings.SplitSeq(folder, "/") {
			if element == "" || element == "." || element == ".." {
				t.Errorf("%q: got address %q, want its one spelling", raw, at)
			}
		}
		if got := address(" " + raw + "\n"); got != at {
			t.Errorf("%q: got %q with white space around it, want %q", raw, got, at)
		}
		def := mirror.Definition{Definition: upstream.Definition{URL: raw}}
		if n, err := refs(raw); err != nil || !n.Concerns(def.URL) {
			t.Errorf("%q: a notice of it does not concern it (%v)", raw, err)
		}
	})
}
