// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestRelativeURLs compares with what git itself makes of them.
func TestRelativeURLs(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"https://git.example.com/group/demo.git", "https://git.example.com/group/demo/", "http://git.example.com:8080/a/b/c",
		"ssh://git@git.example.com:22/group/demo.git", "git@git.example.com:group/demo.git", "git@git.example.com:demo.git",
	} {
		for _, url := range []string{"../lib.git", "./lib.git", "../lib/", ".././lib", "./../lib", "../../lib.git", "./", "../", "../lib/../x"} {
			want := git(t, base, url)
			got, refused := resolve(base, url)
			switch {
			case refused == "" && got != want:
				t.Errorf("%s at %s: got %s, want %s as git", url, base, got, want)
			case refused != "" && sameHost(base, want) && !strings.Contains(want, "/../"):
				t.Errorf("%s at %s: got %q, want %s as git", url, base, refused, want)
			}
		}
	}
}

// git has a work tree with a submodule initialised, and returns the URL that it gets; "" where git
// refuses.
func git(t *testing.T, base, url string) string {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = dir
		out, err := c.Output()
		return strings.TrimSpace(string(out)), err
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"config", "remote.origin.url", base},
		{"config", "--file", ".gitmodules", "submodule.x.path", "x"},
		{"config", "--file", ".gitmodules", "submodule.x.url", url},
		{"update-index", "--add", "--cacheinfo", "160000," + strings.Repeat("1", 40) + ",x"},
	} {
		if _, err := run(args...); err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
	}
	if _, err := run("submodule", "--quiet", "init"); err != nil {
		return ""
	}
	got, err := run("config", "submodule.x.url")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOtherURLs(t *testing.T) {
	t.Parallel()
	const base = "https://git.example.com/group/demo.git"
	for url, ok := range map[string]bool{
		"https://elsewhere.example/x.git": true, "ssh://git@elsewhere.example/x": true, "git@elsewhere.example:x": true,
		"http://elsewhere.example/x": true, "file:///etc": false, "/etc": false, "x": false, "": false, "git://elsewhere.example/x": false,
		"ext::sh -c x": false, "../../../../../evil.example/x": false, "https:///x": false, "-x@y:z/": true,
	} {
		if got, refused := resolve(base, url); (refused == "") != ok {
			t.Errorf("%q: got %q (%s), want it taken: %v", url, got, refused, ok)
		}
	}
}

// TestSecCredentialsAreForTheirFolder checks derived definitions. The root's credential is for
// submodules in its own folder and below the prefixes that an operator names. Its certificates are
// for the whole host.
func TestSecCredentialsAreForTheirFolder(t *testing.T) {
	t.Parallel()
	root := mirror.Definition{
		Name: "demo", UID: "uid", Version: 7, Definition: upstream.Definition{
			URL: "https://git.example.com/group/demo.git", CAPEM: "ca", ProxyURL: "http://proxy", WebhookSecret: "w",
			Credential: upstream.Credential{Method: upstream.MethodBearer, Token: "canary"},
		},
	}
	shared := prefixes(t, "https://git.example.com/open", "https://elsewhere.example/group/", "git@git.example.com:open")
	for url, want := range map[string]struct{ credential, ca bool }{
		"https://git.example.com/group/lib.git": {true, true}, "https://GIT.example.com:443/group/deep/lib.git": {true, true},
		"https://git.example.com/open/lib.git":         {true, true},
		"https://git.example.com/secret/lib.git":       {false, true},
		"https://git.example.com/openness/lib.git":     {false, true},
		"https://git.example.com/Group/lib.git":        {false, true},
		"https://git.example.com/group":                {false, true},
		"https://git.example.com/group/":               {false, true},
		"https://git.example.com/lib.git":              {false, true},
		"https://git.example.com/group/../secret/lib":  {false, true},
		"https://git.example.com/group/%2e%2e/secret":  {false, true},
		"https://git.example.com/group%2f..%2fsecret":  {false, true},
		"https://git.example.com/group/..\\..\\secret": {false, true},
		"https://git.example.com/group//../secret":     {false, true},
		"https://git.example.com/group/x?y=/../secret": {false, true},
		"https://git.example.com:8443/group/lib.git":   {}, "http://git.example.com/group/lib.git": {}, "https://git.example.com.evil/group/lib.git": {},
		"ssh://git@git.example.com/group/lib.git": {}, "https://example.com/group/lib.git": {}, "https://elsewhere.example/group/lib.git": {},
	} {
		def := derive(root, url, shared)
		if def.Credential.IsZero() == want.credential || (def.CAPEM != "") != want.ca || def.WebhookSecret != "" {
			t.Errorf("%s: got credential %v and CA %q, want %+v", url, !def.Credential.IsZero(), def.CAPEM, want)
		}
		if def.Parent != "demo" || def.ParentUID != "uid" || def.Version != 7 || def.ProxyURL != root.ProxyURL {
			t.Errorf("%s: got %+v, want it to follow the root", url, def)
		}
	}
	ssh := root
	ssh.URL = "git@git.example.com:group/demo.git"
	for url, same := range map[string]bool{
		"ssh://git@git.example.com/group/lib": true, "git@git.example.com:group/lib": true, "git@git.example.com:open/lib": true,
		"git@git.example.com:secret/lib": false, "git@git.example.com:group/../secret/lib": false,
		"other@git.example.com:group/lib": false, "ssh://git@git.example.com:2222/group/lib": false,
	} {
		if got := !derive(ssh, url, shared).Credential.IsZero(); got != same {
			t.Errorf("%s: got credential %v, want %v", url, got, same)
		}
	}
	for _, top := range []string{"https://git.example.com/demo.git", "https://git.example.com//demo.git", "https://git.example.com/"} {
		flat := root
		flat.URL = top
		if def := derive(flat, "https://git.example.com/lib.git", nil); !def.Credential.IsZero() {
			t.Errorf("got the credential of %s, which is in no folder, used beside it", top)
		}
		if def := derive(flat, "https://git.example.com/lib.git", prefixes(t, "https://git.example.com")); def.Credential.IsZero() {
			t.Errorf("got no credential of %s where an operator names the whole host", top)
		}
	}
	other := root
	other.UID = "uid-2"
	if a, b := derive(root, "https://x.example/y", nil), derive(other, "https://x.example/y", nil); a.UID == b.UID || a.Name == b.Name {
		t.Errorf("got the same repository for two roots: %s", a.UID)
	}
}

func prefixes(t *testing.T, texts ...string) []Prefix {
	t.Helper()
	all := make([]Prefix, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = ParsePrefix(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return all
}

func TestPrefixesAreChecked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "git.example.com", "ftp://git.example.com/x", "https:///x", "https://git.example.com/a/../b", "https://git.example.com/%2e"} {
		if _, err := ParsePrefix(text); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}
