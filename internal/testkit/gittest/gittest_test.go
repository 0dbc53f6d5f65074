// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
)

// git runs the program as a client would, without any configuration of the machine, and returns
// output and success.
func git(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Env = append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@leat.invalid", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@leat.invalid", "LC_ALL=C",
	}, env...)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func mustGit(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, err := git(t, env, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func TestCommitsArriveOverHTTP(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "group/demo")
	repo.Commit(t, "main", map[string]string{"a.txt": "one", "dir/b.txt": "two", "gone/c.txt": "three"})
	head := repo.CommitFiles(t, "main", map[string]gittest.File{
		"run.sh":               gittest.Executable("#!/bin/sh\n"),
		"link":                 gittest.Symlink("dir/b.txt"),
		"gone":                 gittest.Deleted(),
		"a.txt":                gittest.Text(""),
		`wéird "name"\` + "\n": gittest.Text("x"),
	})
	clone := filepath.Join(t.TempDir(), "clone")
	mustGit(t, nil, "clone", "--quiet", repo.URL(), clone)
	if got := mustGit(t, nil, "-C", clone, "rev-parse", "HEAD"); got != head {
		t.Errorf("cloned commit: got %s, want %s", got, head)
	}
	got := strings.Split(mustGit(t, nil, "-C", clone, "ls-files", "--stage", "-z"), "\x00")
	var names []string
	for _, line := range got {
		if fields := strings.SplitN(line, "\t", 2); len(fields) == 2 {
			names = append(names, fields[0][:6]+" "+fields[1])
		}
	}
	want := []string{"100644 a.txt", "100644 dir/b.txt", "120000 link", "100755 run.sh", "100644 wéird \"name\"\\\n"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestSameCallsMakeSameCommits(t *testing.T) {
	t.Parallel()
	build := func() string {
		repo := gittest.New(t).Repo(t, "demo")
		repo.Commit(t, "main", map[string]string{"a": "1"})
		return repo.Commit(t, "main", map[string]string{"a": "2"})
	}
	if first, second := build(), build(); first != second {
		t.Errorf("commit ids: got %s and %s, want equal ones", first, second)
	}
}

func TestForcePushTagsAndBranches(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.Tag(t, "v1", first)
	repo.AnnotatedTag(t, "v1.0", first)
	second := repo.ForcePush(t, "main", map[string]gittest.File{"b": gittest.Text("2")})
	if got := repo.Git(t, "rev-list", "--count", "main"); got != "1" {
		t.Errorf("commits after a force push: got %s, want 1", got)
	}
	if got := repo.Git(t, "ls-tree", "--name-only", second); got != "b" {
		t.Errorf("files after a force push: got %q, want %q", got, "b")
	}
	for _, tag := range []string{"v1", "v1.0"} {
		if got := repo.Resolve(t, tag); got != first {
			t.Errorf("tag %s: got %s, want %s", tag, got, first)
		}
	}
	repo.DeleteBranch(t, "main")
	if got := repo.Resolve(t, "main"); got != "" {
		t.Errorf("deleted branch: got %s, want none", got)
	}
}

func TestPushOverHTTP(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	clone := filepath.Join(t.TempDir(), "clone")
	mustGit(t, nil, "clone", "--quiet", repo.URL(), clone)
	big := strings.Repeat("0123456789abcdef\n", 1<<17) // 2 MiB: more than git sends without chunks
	if err := os.WriteFile(filepath.Join(clone, "big"), []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	mustGit(t, nil, "-C", clone, "add", "big")
	mustGit(t, nil, "-C", clone, "commit", "--quiet", "-m", "big")
	mustGit(t, nil, "-C", clone, "-c", "core.compression=0", "-c", "http.postBuffer=65536", "push", "--quiet")
	if got, want := repo.Resolve(t, "main"), mustGit(t, nil, "-C", clone, "rev-parse", "HEAD"); got != want {
		t.Errorf("pushed commit: got %s, want %s", got, want)
	}
	if got := repo.Stats().Pushes; got == 0 {
		t.Error("pushes: got 0, want some")
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	head := repo.Commit(t, "main", map[string]string{"a": "1"})
	dir := t.TempDir()
	key, hosts := filepath.Join(dir, "key"), filepath.Join(dir, "hosts")
	for path, content := range map[string][]byte{key: server.SSHPrivateKey(), hosts: []byte(server.SSHKnownHosts())} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o UserKnownHostsFile=" + hosts + " -i " + key}
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Fatal("ssh is not installed: run `make tools` or `apt-get install openssh-client`")
	}
	clone := filepath.Join(dir, "clone")
	mustGit(t, env, "clone", "--quiet", repo.SSHURL(), clone)
	if got := mustGit(t, nil, "-C", clone, "rev-parse", "HEAD"); got != head {
		t.Errorf("cloned commit: got %s, want %s", got, head)
	}
	mustGit(t, env, "-C", clone, "push", "--quiet", "origin", "HEAD:refs/heads/copy")
	if got := repo.Resolve(t, "copy"); got != head {
		t.Errorf("pushed branch: got %s, want %s", got, head)
	}
	if out, err := git(t, env, "clone", "--quiet", repo.SSHURL()+"/../../x", clone+"2"); err == nil {
		t.Errorf("clone of a repository that is not there: got success, want a refusal\n%s", out)
	}
}

func TestBasicAuth(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithBasicAuth("leat", "secret"))
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	if out, err := git(t, nil, "ls-remote", repo.URL()); err == nil {
		t.Errorf("without a password: got success, want a refusal\n%s", out)
	}
	withPassword := strings.Replace(repo.URL(), "://", "://leat:secret@", 1)
	mustGit(t, nil, "ls-remote", withPassword)
	server.SetBasicAuth("leat", "other")
	if out, err := git(t, nil, "ls-remote", withPassword); err == nil {
		t.Errorf("with a revoked password: got success, want a refusal\n%s", out)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithTLS())
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	if out, err := git(t, nil, "ls-remote", repo.URL()); err == nil {
		t.Errorf("without the certificate: got success, want a refusal\n%s", out)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, server.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	mustGit(t, []string{"GIT_SSL_CAINFO=" + ca}, "ls-remote", repo.URL())
}

func TestOutageKeepsAddress(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	url, sshURL := repo.URL(), repo.SSHURL()
	server.Stop()
	server.Stop()
	if out, err := git(t, nil, "ls-remote", url); err == nil {
		t.Errorf("while stopped: got success, want a refusal\n%s", out)
	}
	server.Start(t)
	server.Start(t)
	if repo.URL() != url || repo.SSHURL() != sshURL {
		t.Errorf("addresses after a restart: got %s and %s, want %s and %s", repo.URL(), repo.SSHURL(), url, sshURL)
	}
	mustGit(t, nil, "ls-remote", url)
}

func TestStatsSeeOverlap(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo, other := server.Repo(t, "demo"), server.Repo(t, "other")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	other.Commit(t, "main", map[string]string{"a": "1"})
	for _, r := range []*gittest.Repo{repo, other, repo} {
		mustGit(t, nil, "clone", "--quiet", "--bare", r.URL(), filepath.Join(t.TempDir(), "clone"))
	}
	if got := repo.Stats(); got.Fetches != 2 || got.Refs < 2 || got.MaxInFlight != 1 || got.InFlight != 0 {
		t.Errorf("stats of two clones in turn: got %+v, want 2 fetches, never two at once", got)
	}
	repo.ResetStats()
	var arrived atomic.Int64
	var both sync.WaitGroup
	both.Add(2)
	server.Intercept(func(http.ResponseWriter, *http.Request) bool {
		if arrived.Add(1) <= 2 { // the first request of each reader waits for the other's
			both.Done()
			both.Wait()
		}
		return false
	})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			if out, err := git(t, nil, "ls-remote", repo.URL()); err != nil {
				t.Errorf("ls-remote: %v\n%s", err, out)
			}
		})
	}
	readers.Wait()
	if got := repo.Stats(); got.MaxInFlight != 2 {
		t.Errorf("stats of two readers together: got %+v, want two at once", got)
	}
}

func TestIntercept(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	out, err := git(t, nil, "ls-remote", repo.URL())
	if err == nil || !strings.Contains(out, "429") {
		t.Errorf("intercepted: got %v and %q, want the 429", err, out)
	}
	server.Intercept(nil)
	mustGit(t, nil, "ls-remote", repo.URL())
}

func TestCutFetches(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	server.CutFetches(10)
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := git(t, nil, "clone", "--quiet", repo.URL(), clone); err == nil {
		t.Errorf("got a clone through a cut connection: %s", out)
	}
	server.CutFetches(0)
	mustGit(t, nil, "clone", "--quiet", repo.URL(), clone)
}
