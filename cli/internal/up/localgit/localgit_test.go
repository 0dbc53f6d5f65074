// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localgit_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/leatdev/leat/cli/internal/up/localgit"
)

func start(t *testing.T, onPush func(context.Context, string)) (server *localgit.Server, url string) {
	t.Helper()
	server, err := localgit.New(localgit.Params{
		Dir: filepath.Join(t.TempDir(), "git"), Hosts: []string{"demo-git"}, OnPush: onPush, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(server)
	t.Cleanup(http.Close)
	return server, http.URL
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=T", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

func TestCloneChangePush(t *testing.T) {
	t.Parallel()
	pushes := make(chan string, 4)
	server, url := start(t, func(_ context.Context, name string) { pushes <- name })
	content := fstest.MapFS{"deploy/page.html": {Data: []byte("one")}}
	for range 2 { // the second time it already exists
		if err := server.Ensure(t.Context(), "demo", content); err != nil {
			t.Fatal(err)
		}
	}
	work := t.TempDir()
	git(t, work, "clone", "--quiet", url+"/demo.git", ".")
	if got, err := os.ReadFile(filepath.Join(work, "deploy/page.html")); err != nil || string(got) != "one" {
		t.Fatalf("page: got %q, %v, want %q", got, err, "one")
	}
	if got, want := git(t, work, "branch", "--show-current"), "main"; got != want {
		t.Errorf("branch: got %q, want %q", got, want)
	}
	// More than a megabyte of incompressible data is sent in chunks.
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	if err := os.WriteFile(filepath.Join(work, "big.bin"), big, 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, work, "add", ".")
	git(t, work, "commit", "--quiet", "-m", "big")
	git(t, work, "push", "--quiet")
	if got := <-pushes; got != "demo" {
		t.Errorf("OnPush: got %q, want %q", got, "demo")
	}
	head := git(t, work, "rev-parse", "HEAD")
	if got := git(t, work, "ls-remote", url+"/demo.git", "refs/heads/main"); !strings.HasPrefix(got, head) {
		t.Errorf("main at the server: got %q, want %q", got, head)
	}
}

func TestRefusesOtherHosts(t *testing.T) {
	t.Parallel()
	server, url := start(t, nil)
	if err := server.Ensure(t.Context(), "demo", fstest.MapFS{"a": {Data: []byte("a")}}); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"": http.StatusOK, "localhost:80": http.StatusOK, "demo-git:8080": http.StatusOK, "evil.example.com": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/demo.git/info/refs?service=git-upload-pack", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("host %q: got status %d, want %d", host, response.StatusCode, want)
		}
	}
}
