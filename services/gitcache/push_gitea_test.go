// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/internal/testkit/giteatest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

const (
	// proposed is the branch of the hub's pull requests, and pullBody their description.
	proposed = "leat/image/shop/web"
	pullBody = "From `1`.\n"
)

// atGitea is a repository of a real Gitea that the hub may push to.
type atGitea struct {
	*pushed
	server *giteatest.Server
	// path is "owner/name" there.
	path string
	// token has the one right that docs/guides/repositories.md names.
	token giteatest.Account
	logs  *bytes.Buffer // read after the replica has stopped
}

// startAtGitea starts a Gitea and a replica that mirrors a repository with the token.
func startAtGitea(t *testing.T) *atGitea {
	t.Helper()
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Gitea is left to `make test-all`")
	}
	server, redis, logs := giteatest.Start(t), redistest.Start(t), &bytes.Buffer{}
	local := gittest.New(t).Repo(t, "local")
	local.Commit(t, "main", map[string]string{"app/web.yaml": "image: web:1\n"})
	p := &atGitea{pushed: &pushed{repo: local}, server: server, path: server.Repository(t, "demo"), logs: logs}
	local.Git(t, "push", "--quiet", p.address(), "main")
	p.replica = start(t, redis.URL(), t.TempDir(), func(c *gitcache.Config) { c.Telemetry.LogOutput = logs })
	p.def = definition("demo", server.CloneURL(p.path, giteatest.Account{}))
	p.def.Push = &gitcachev1.Push{Branches: []string{"main", "leat/*"}, Forge: gitcachev1.Forge_FORGE_GITEA}
	p.token = server.Token(t, server.Owner, "write:repository")
	p.use(t, p.token)
	p.state(t, "demo", ready)
	return p
}

// use gives the repository the credential of an account.
func (p *atGitea) use(t *testing.T, as giteatest.Account) {
	t.Helper()
	p.def.Version++
	p.def.Credential = basic(as.Name, as.Token)
	p.def.Credential.AllowPlainHttp = true
	p.put(t, p.def)
}

func (p *atGitea) address() string { return p.server.CloneURL(p.path, p.server.Owner) }

// head returns the commit of a branch at the Gitea, or "".
func (p *atGitea) head(t *testing.T, branch string) string {
	t.Helper()
	id, _, _ := strings.Cut(p.repo.Git(t, "ls-remote", p.address(), "refs/heads/"+branch), "\t")
	return id
}

// commit pushes another image onto main itself, and waits until the mirror has it.
func (p *atGitea) commit(t *testing.T, base, image string) string {
	t.Helper()
	got, err := p.push(t, base, map[string]string{"app/web.yaml": "image: " + image + "\n"})
	if err != nil || got.GetCommit() == base || got.GetCommit() != p.head(t, "main") || got.GetPullRequestUrl() != "" {
		t.Fatalf("got %v (%v), want it on main, %s", got, err, p.head(t, "main"))
	}
	p.fetched(t, "main", got.GetCommit())
	return got.GetCommit()
}

// propose asks for another image in a pull request, whose number at the Gitea is wanted, and waits
// until the mirror has its branch.
func (p *atGitea) propose(t *testing.T, base, image, title string, want int) string {
	t.Helper()
	files := map[string]string{"app/web.yaml": "image: " + image + "\n"}
	got, err := p.push(t, base, files, withPull(proposed, title, pullBody))
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s/%s/pulls/%d", p.server.URL, p.path, want)
	if got.GetPullRequestUrl() != address || got.GetCommit() != p.head(t, proposed) {
		t.Errorf("got %v, want %s at %s", got, p.head(t, proposed), address)
	}
	p.fetched(t, proposed, got.GetCommit())
	return got.GetCommit()
}

// api returns the path of the repository's API.
func (p *atGitea) api(path string, args ...any) string {
	return "/api/v1/repos/" + p.path + fmt.Sprintf(path, args...)
}

// giteaPull is a pull request of the Gitea.
type giteaPull struct {
	Number      int
	Title, Body string
	State       string
	Merged      bool
	Head, Base  struct {
		Label string
		Repo  struct {
			FullName string `json:"full_name"`
		}
	}
}

// pulls returns a line for each pull request, the oldest first.
func (p *atGitea) pulls(t *testing.T) []string {
	t.Helper()
	var pulls []giteaPull
	p.server.Call(t, p.server.Owner, http.MethodGet, p.api("/pulls?state=all"), nil, &pulls)
	slices.SortFunc(pulls, func(a, b giteaPull) int { return a.Number - b.Number })
	lines := make([]string, 0, len(pulls))
	for _, pull := range pulls {
		state := pull.State
		if pull.Merged {
			state = "merged"
		}
		lines = append(lines, fmt.Sprintf("%d %s: %s, %q, %s %s -> %s",
			pull.Number, state, pull.Title, pull.Body, pull.Head.Repo.FullName, pull.Head.Label, pull.Base.Label))
	}
	return lines
}

func (p *atGitea) wantPulls(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.pulls(t)); diff != "" {
		t.Errorf("pull requests (-want +got):\n%s", diff)
	}
}

// merge merges a pull request as a person does. Gitea refuses that until it has looked for
// conflicts.
func (p *atGitea) merge(t *testing.T, number int, style string, deletesBranch bool) {
	t.Helper()
	await.Success(t, fmt.Sprintf("pull request %d to be merged", number), func(ctx context.Context) error {
		return p.server.Try(ctx, p.server.Owner, http.MethodPost, p.api("/pulls/%d/merge", number),
			map[string]any{"do": style, "delete_branch_after_merge": deletesBranch}, nil)
	})
}

// TestSlowPullRequestsAtGitea has the hub's pull request opened, found again, updated, closed and
// merged at a real Gitea. Somebody else's, from a branch of the same name in a fork, stays as it is.
func TestSlowPullRequestsAtGitea(t *testing.T) {
	t.Parallel()
	p := startAtGitea(t)
	owner, stranger := p.server.Owner, p.server.Stranger
	base := p.commit(t, p.head(t, "main"), "web:2")

	p.server.Call(t, owner, http.MethodPut, p.api("/collaborators/%s", stranger.Name),
		map[string]string{"permission": "read"}, nil)
	p.server.Call(t, stranger, http.MethodPost, p.api("/forks"), map[string]string{"name": "fork"}, nil)
	p.repo.Commit(t, "main", map[string]string{"app/web.yaml": "image: mallory:1\n"})
	p.repo.Git(t, "push", "--quiet", p.server.CloneURL(stranger.Name+"/fork", stranger), "main:refs/heads/"+proposed)
	p.server.Call(t, stranger, http.MethodPost, p.api("/pulls"),
		map[string]string{"head": stranger.Name + ":" + proposed, "base": "main", "title": "Mine"}, nil)
	mine := `1 open: Mine, "", ` + stranger.Name + "/fork " + proposed + " -> main"

	// A repeated push leaves the branch and the pull request, and another title is written.
	pull := func(number int, state, title string) string {
		return fmt.Sprintf("%d %s: %s, %q, %s %s -> main", number, state, title, pullBody, p.path, proposed)
	}
	first := p.propose(t, base, "web:3", "Update to 3", 2)
	p.wantPulls(t, mine, pull(2, "open", "Update to 3"))
	for _, title := range []string{"Update to 3", "Update web to 3"} {
		if again := p.propose(t, base, "web:3", title, 2); again != first {
			t.Errorf("got %s, want the branch to stay at %s", again, first)
		}
		p.wantPulls(t, mine, pull(2, "open", title))
	}
	// A newer image replaces the commit of the open one.
	second := p.propose(t, base, "web:4", "Update to 4", 2)
	if second == first {
		t.Errorf("got %s again, want another commit", second)
	}
	p.wantPulls(t, mine, pull(2, "open", "Update to 4"))

	// A person closes it. Only a person who syncs the policy has the same change pushed again.
	p.server.Call(t, owner, http.MethodPatch, p.api("/pulls/2"), map[string]string{"state": "closed"}, nil)
	if again := p.propose(t, base, "web:4", "Update to 4", 3); again != second {
		t.Errorf("got %s, want the branch to stay at %s", again, second)
	}
	want := []string{mine, pull(2, "closed", "Update to 4"), pull(3, "open", "Update to 4")}
	p.wantPulls(t, want...)

	// A person merges it, and keeps or deletes its branch. The next image needs another pull request.
	for i, test := range []struct {
		style   string
		deletes bool
	}{{"merge", false}, {"rebase", false}, {"squash", true}} {
		number, image := 3+i, fmt.Sprintf("web:%d", 4+i)
		p.merge(t, number, test.style, test.deletes)
		want[len(want)-1] = strings.Replace(want[len(want)-1], "open", "merged", 1)
		p.wantPulls(t, want...)
		p.refresh(t, "demo")
		base = p.head(t, "main")
		files := map[string]string{"app/web.yaml": "image: " + image + "\n"}
		got, err := p.push(t, base, files, withPull(proposed, "Update", ""))
		if err != nil || got.GetCommit() != base || got.GetPullRequestUrl() != "" {
			t.Errorf("%s: got %v (%v), want that main has it: %s", test.style, got, err, base)
		}
		if isDeleted := p.head(t, proposed) == ""; isDeleted != test.deletes {
			t.Errorf("%s: the branch is deleted: %t, want %t", test.style, isDeleted, test.deletes)
		}
		if test.deletes {
			break // some time later Gitea closes every pull request of the deleted branch, even a new one
		}
		next := fmt.Sprintf("web:%d", 5+i)
		p.propose(t, base, next, "Update to "+next, number+1)
		want = append(want, pull(number+1, "open", "Update to "+next))
		p.wantPulls(t, want...)
	}
}

// TestSlowRefusalsOfGitea pushes with credentials that a real Gitea refuses, onto a branch that it
// protects, and where it takes no pull requests. Nothing that leaves the replica has a token in it.
func TestSlowRefusalsOfGitea(t *testing.T) {
	t.Parallel()
	p := startAtGitea(t)
	owner, base, secrets := p.server.Owner, p.head(t, "main"), &canarytest.Set{}
	secrets.Add("the token", p.token.Token)
	refused := func(where string, want errorsv1.Reason, words string, change ...func(*gitcachev1.PushCommitRequest)) {
		t.Helper()
		_, err := p.push(t, base, map[string]string{"app/web.yaml": "image: web:2\n"}, change...)
		wantReason(t, err, want)
		if !strings.Contains(rpcerr.Message(err), words) {
			t.Errorf("%s: got %q, want %q in it", where, rpcerr.Message(err), words)
		}
		state, failed := p.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "demo"})
		if failed != nil {
			t.Error(failed)
		}
		secrets.Check(t, where, fmt.Sprint(err, rpcerr.Message(err), rpcerr.Metadata(err), state))
	}
	for where, as := range map[string]giteatest.Account{
		"a wrong token":              {Name: owner.Name, Token: strings.Repeat("0123456789", 4)},
		"a token that may only read": p.server.Token(t, owner, "read:repository"),
		"somebody else's token":      p.server.Stranger,
	} {
		secrets.Add(where, as.Token)
		p.use(t, as)
		refused(where, errorsv1.Reason_REASON_PUSH_REFUSED, "may not push")
		refused(where+", for a pull request", errorsv1.Reason_REASON_PUSH_REFUSED, "may not push", withPull(proposed, "Update to 2", pullBody))
	}
	p.use(t, p.token)

	p.server.Call(t, owner, http.MethodPost, p.api("/branch_protections"),
		map[string]any{"rule_name": "main", "enable_push": false}, nil)
	refused("a protected branch", errorsv1.Reason_REASON_PUSH_REFUSED, "protected branch main")
	if main, branch := p.head(t, "main"), p.head(t, proposed); main != base || branch != "" {
		t.Errorf("got main at %s and the other branch at %q, want nothing pushed", main, branch)
	}

	// A failed pull request leaves its commit, and a repeated push opens it.
	allow := func(pulls bool) {
		p.server.Call(t, owner, http.MethodPatch, p.api(""), map[string]any{"has_pull_requests": pulls}, nil)
	}
	allow(false)
	refused("no pull requests", errorsv1.Reason_REASON_PULL_REQUEST_FAILED, "was pushed to its branch",
		withPull(proposed, "Update to 2", pullBody))
	left := p.head(t, proposed)
	p.fetched(t, proposed, left)
	allow(true)
	if got := p.propose(t, base, "web:2", "Update to 2", 1); got != left {
		t.Errorf("got %s, want the commit that was left, %s", got, left)
	}
	p.wantPulls(t, fmt.Sprintf("1 open: Update to 2, %q, %s %s -> main", pullBody, p.path, proposed))

	p.stop()
	secrets.Check(t, "the log", p.logs.String())
	if !strings.Contains(p.logs.String(), `"commit pushed"`) {
		t.Errorf("got the log %q, want the push in it", p.logs)
	}
}
