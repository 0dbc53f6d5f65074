// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule

import (
	"os/exec"
	"strings"
	"testing"

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

// git has a work tree with a submodule initialised, and returns the URL that it gets; "" where git refuses.
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

// TestCredentialsAreForTheirHost derives definitions.
func TestCredentialsAreForTheirHost(t *testing.T) {
	t.Parallel()
	root := mirror.Definition{
		Name: "demo", UID: "uid", Version: 7, URL: "https://git.example.com/demo.git", CAPEM: "ca", ProxyURL: "http://proxy", WebhookSecret: "w",
		Credential: mirror.Credential{Method: mirror.MethodBearer, Token: "canary"},
	}
	for url, same := range map[string]bool{
		"https://git.example.com/lib.git": true, "https://GIT.example.com:443/lib.git": true,
		"https://git.example.com:8443/lib.git": false, "http://git.example.com/lib.git": false, "https://git.example.com.evil/lib.git": false,
		"ssh://git@git.example.com/lib.git": false, "https://example.com/lib.git": false,
	} {
		def := derive(root, url)
		if got := !def.Credential.IsZero() && def.CAPEM != ""; got != same || def.WebhookSecret != "" {
			t.Errorf("%s: got credential %v, want %v", url, got, same)
		}
		if def.Parent != "demo" || def.ParentUID != "uid" || def.Version != 7 || def.ProxyURL != root.ProxyURL {
			t.Errorf("%s: got %+v, want it to follow the root", url, def)
		}
	}
	ssh := root
	ssh.URL = "git@git.example.com:demo.git"
	for url, same := range map[string]bool{
		"ssh://git@git.example.com/lib": true, "git@git.example.com:lib": true, "other@git.example.com:lib": false, "ssh://git@git.example.com:2222/lib": false,
	} {
		if got := !derive(ssh, url).Credential.IsZero(); got != same {
			t.Errorf("%s: got credential %v, want %v", url, got, same)
		}
	}
	other := root
	other.UID = "uid-2"
	if a, b := derive(root, "https://x.example/y"), derive(other, "https://x.example/y"); a.UID == b.UID || a.Name == b.Name {
		t.Errorf("got the same repository for two roots: %s", a.UID)
	}
}
