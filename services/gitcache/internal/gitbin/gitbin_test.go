// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/standin"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func allowed() error { return nil }

func fetch(ctx context.Context, g *gitbin.Git, url string, have mirror.Content) (mirror.Content, error) {
	def := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: url}}
	return g.Fetch(ctx, mirror.FetchParams{Definition: def, Have: have, Epoch: 1, Guard: allowed})
}

// script writes a program that stands in for git.
func newScript(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	standin.Write(t, path, "#!/bin/sh\n"+lines)
	return path
}

func TestExecutableIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ executable, want string }{
		"missing":  {filepath.Join(t.TempDir(), "git"), "no such file"},
		"old":      {newScript(t, "echo git version 2.38.9\n"), "is git 2.38"},
		"very old": {newScript(t, "echo git version 1.99.0\n"), "is git 1.99"},
		"other":    {newScript(t, "echo jj 0.30\n"), "not git"},
		"broken":   {newScript(t, "echo cannot load >&2\nexit 3\n"), "cannot load"},
	} {
		_, err := gitbin.New(gitbin.Config{Dir: t.TempDir(), Executable: c.executable, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to say %q", name, err, c.want)
		}
	}
	for _, version := range []string{"2.39.0", "2.100.1 (Apple Git-1)", "3.0.0"} {
		executable := newScript(t, "echo 'git version "+version+"'\n")
		if _, err := gitbin.New(gitbin.Config{Dir: t.TempDir(), Executable: executable, Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Errorf("git %s: got %v, want it to do", version, err)
		}
	}
}

// TestNothingIsInherited sets traps where git looks for settings and programs: the environment, a
// user's and a system's folder. None of them may matter, and none of what this process knows may be
// seen.
func TestNothingIsInherited(t *testing.T) {
	home, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	hooks := filepath.Join(home, "hooks")
	if err := os.Mkdir(hooks, 0o700); err != nil {
		t.Fatal(err)
	}
	trap := "#!/bin/sh\necho trap >> " + seen + "\n"
	for _, name := range []string{"post-index-change", "reference-transaction", "fsmonitor"} {
		if err := os.WriteFile(filepath.Join(hooks, name), []byte(trap), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(home, ".gitconfig")
	bad := fmt.Sprintf("[core]\n\thooksPath = %s\n\tfsmonitor = %s/fsmonitor\n[this is no configuration\n", hooks, hooks)
	if err := os.WriteFile(config, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_SYSTEM", config)
	t.Setenv("GIT_OBJECT_DIRECTORY", home)
	t.Setenv("GIT_DIR", home)
	t.Setenv("GIT_EXEC_PATH", hooks)
	t.Setenv("GIT_TRACE", seen)
	t.Setenv("LEAT_SERVICE_SECRET", "not for git")

	// The arguments of git are written to a file, then the real one takes over.
	started := filepath.Join(t.TempDir(), "started")
	installed, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	wrapper := newScript(t, fmt.Sprintf("/usr/bin/env >> %s\necho \"$@\" >> %s\nexec %s \"$@\"\n", started, started, installed))
	g, err := gitbin.New(gitbin.Config{Dir: t.TempDir(), Executable: wrapper, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := gittest.New(t)
	server.SetBasicAuth("user", "a-password-that-git-must-not-see")
	repo := server.Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.Git(t, "branch", "--", "a-telling-name", "main")
	c, err := g.Fetch(t.Context(), mirror.FetchParams{
		Definition: mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL(), Credential: upstream.Credential{
			Method: upstream.MethodBasic, Username: "user", Password: "a-password-that-git-must-not-see", AllowPlainHTTP: true,
		}}},
		Epoch: 1, Guard: allowed,
	})
	if err != nil || c.Head != commit {
		t.Fatalf("got HEAD %q (%v), want %s", c.Head, err, commit)
	}
	if _, err := os.Stat(seen); !errors.Is(err, os.ErrNotExist) {
		t.Error("a trap was stepped into")
	}
	told, err := os.ReadFile(started)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"not for git", "a-password-that-git-must-not-see", "a-telling-name", "127.0.0.1", home} {
		if strings.Contains(string(told), word) {
			t.Errorf("git was told %q:\n%s", word, told)
		}
	}
}

// TestManyRefsCostLittle counts the bytes of a poll of a repository with many unwanted refs.
func TestManyRefsCostLittle(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": "1"})
	var script strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&script, "create refs/pull/%d/head %s\n", i, commit)
	}
	repo.GitInput(t, script.String(), "update-ref", "--stdin")
	var answered atomic.Int64
	g, url := newGit(t), counting(t, repo.URL(), &answered)
	c, err := fetch(t.Context(), g, url, mirror.Content{})
	if err != nil {
		t.Fatal(err)
	}
	answered.Store(0)
	if _, err := fetch(t.Context(), g, url, c); err != nil {
		t.Fatal(err)
	}
	if got := answered.Load(); got == 0 || got > 1<<10 {
		t.Errorf("got %d bytes for a poll that found nothing, want a few hundred", got)
	}
}

// counting is a proxy before a server, and counts the bytes that it answers.
func counting(t *testing.T, address string, answered *atomic.Int64) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host}) },
		ModifyResponse: func(resp *http.Response) error {
			data, err := io.ReadAll(resp.Body)
			answered.Add(int64(len(data)))
			resp.Body = io.NopCloser(bytes.NewReader(data))
			return err
		},
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return front.URL + to.Path
}

func newGit(t *testing.T) *gitbin.Git {
	t.Helper()
	g, err := gitbin.New(gitbin.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestServersOfTheFirstVersion hides from the server that the second version was asked for.
func TestServersOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	var asked atomic.Bool
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Git-Protocol") == "version=2" {
			asked.Store(true)
		}
		r.Header.Del("Git-Protocol")
		return false
	})
	repo := server.Repo(t, "demo")
	g, have := newGit(t), mirror.Content{}
	for i := range 3 {
		commit := repo.Commit(t, "main", map[string]string{"a": fmt.Sprint(i)})
		var err error
		if have, err = fetch(t.Context(), g, repo.URL(), have); err != nil || have.Head != commit {
			t.Fatalf("got HEAD %q (%v), want %s", have.Head, err, commit)
		}
	}
	if !asked.Load() {
		t.Error("the second version was not asked for")
	}
}

// TestBrokenObjectsAreRefused offers a tree that no honest git makes, as a whole pack.
func TestBrokenObjectsAreRefused(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	blob := repo.GitInput(t, "x", "hash-object", "-w", "--stdin")
	raw, err := hex.DecodeString(strings.TrimSpace(blob))
	if err != nil {
		t.Fatal(err)
	}
	tree := repo.GitInput(t, "100644 ..\x00"+string(raw), "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
	commit := repo.Git(t, "-c", "user.name=a", "-c", "user.email=a@leat.invalid", "commit-tree", "-m", "x", strings.TrimSpace(tree))
	repo.Git(t, "update-ref", "refs/heads/main", commit)
	_, err = fetch(t.Context(), newGit(t), repo.URL(), mirror.Content{})
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || upstream.Reason != reason.UpstreamProtocol {
		t.Errorf("got %v, want the pack to be refused", err)
	}
}
