// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

const (
	pushUser     = "leat"
	pushPassword = "canary-4711"
)

// pushed is a repository that the hub may push to, at a server that wants a password.
type pushed struct {
	*replica
	server *gittest.Server
	repo   *gittest.Repo
	def    *gitcachev1.RepositoryDefinition
}

func startPushed(t *testing.T, change ...func(*gitcache.Config)) *pushed {
	t.Helper()
	server, redis := gittest.New(t, gittest.WithBasicAuth(pushUser, pushPassword)), redistest.Start(t)
	p := &pushed{server: server, repo: server.Repo(t, "team/demo")}
	p.repo.CommitFiles(t, "main", map[string]gittest.File{
		"apps/shop/web.yaml": gittest.Text("image: web:1\r\n"), "apps/shop/run.sh": gittest.Executable("#!/bin/sh\n"),
		"apps/shop/link": gittest.Symlink("web.yaml"), "apps/linked": gittest.Symlink("shop"), "README.md": gittest.Text("demo\n"),
		"apps.yaml": gittest.Text("a: 1\n"), "apps-2/x": gittest.Text("x\n"),
	})
	p.replica = start(t, redis.URL(), t.TempDir(), change...)
	p.def = definition("demo", p.repo.URL())
	p.def.Credential = basic(pushUser, pushPassword)
	p.def.Credential.AllowPlainHttp = true
	p.def.Push = &gitcachev1.Push{Branches: []string{"main", "leat/*"}, Forge: gitcachev1.Forge_FORGE_GITEA}
	p.put(t, p.def)
	p.state(t, "demo", ready)
	return p
}

// redefine puts the definition with a change.
func (p *pushed) redefine(t *testing.T, change func(*gitcachev1.RepositoryDefinition)) {
	t.Helper()
	change(p.def)
	p.def.Version++
	p.put(t, p.def)
	p.fetched(t, "main", p.repo.Resolve(t, "main"))
}

// push pushes contents on the head of main.
func (p *pushed) push(t *testing.T, base string, files map[string]string, change ...func(*gitcachev1.PushCommitRequest)) (*gitcachev1.PushCommitResponse, error) {
	t.Helper()
	req := &gitcachev1.PushCommitRequest{Repository: "demo", Branch: "main", BaseCommit: base, Message: "Update web to 2"}
	for path, text := range files {
		req.Files = append(req.Files, &gitcachev1.ChangedFile{Path: path, Content: []byte(text)})
	}
	for _, c := range change {
		c(req)
	}
	return p.PushCommit(t.Context(), req)
}

// fetched waits until the mirror has a branch at a commit, without asking for a fetch.
func (p *pushed) fetched(t *testing.T, branch, commit string) {
	t.Helper()
	await.Success(t, "the mirror to have "+commit, func(ctx context.Context) error {
		resp, err := p.ListRefs(ctx, &gitcachev1.ListRefsRequest{Repository: "demo", Prefix: "refs/heads/" + branch})
		if err == nil && (len(resp.GetRefs()) == 0 || resp.GetRefs()[0].GetCommit() != commit) {
			err = fmt.Errorf("got %v", resp.GetRefs())
		}
		return err
	})
}

// hook installs a hook at the upstream.
func (p *pushed) hook(t *testing.T, name, script string) {
	t.Helper()
	dir := filepath.Join(p.repo.Dir(), "hooks")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755)); err != nil {
		t.Fatal(err)
	}
	p.repo.Git(t, "config", "core.hooksPath", dir)
}

// TestCommitsArePushed pushes files onto a branch: the upstream has one commit more, which differs
// in these files alone, and the mirror has it without a poll.
func TestCommitsArePushed(t *testing.T) {
	t.Parallel()
	forEachBackend(t, commitsArePushed)
}

func commitsArePushed(t *testing.T, backend func(*gitcache.Config)) {
	t.Helper()
	p := startPushed(t, backend)
	base := p.repo.Resolve(t, "main")
	changed := map[string]string{"apps/shop/web.yaml": "image: web:2\r\n", "apps/shop/run.sh": "#!/bin/sh\nexit\n", "README.md": "demo\n"}
	got, err := p.push(t, base, changed)
	if err != nil {
		t.Fatal(err)
	}
	head := p.repo.Resolve(t, "main")
	if got.GetCommit() != head || p.repo.Resolve(t, "main~1") != base || got.GetPullRequestUrl() != "" {
		t.Errorf("got %v, want the head of main, %s, on %s", got, head, base)
	}
	want := "M\tapps/shop/run.sh\nM\tapps/shop/web.yaml"
	if names := strings.TrimSpace(p.repo.Git(t, "diff", "--name-status", "main~1", "main")); names != want {
		t.Errorf("got the changes %q, want %q", names, want)
	}
	if mode := p.repo.Git(t, "ls-tree", "main", "apps/shop/run.sh"); !strings.HasPrefix(mode, "100755 ") {
		t.Errorf("got %q, want it executable still", mode)
	}
	if text := p.repo.GitRaw(t, "show", "main:apps/shop/web.yaml"); text != "image: web:2\r\n" {
		t.Errorf("got %q", text)
	}
	if who := strings.TrimSpace(p.repo.Git(t, "log", "-1", "--format=%an <%ae> %cn %s", "main")); who != "Leat <leat@noreply.invalid> Leat Update web to 2" {
		t.Errorf("got %q", who)
	}
	p.repo.Git(t, "fsck", "--strict")
	p.fetched(t, "main", head)

	// The same once more changes nothing, whatever the message.
	p.repo.ResetStats()
	again, err := p.push(t, head, changed, func(r *gitcachev1.PushCommitRequest) { r.Message = "other" })
	if err != nil || again.GetCommit() != head || p.repo.Stats().Pushes != 0 {
		t.Errorf("got %v (%v) after %d pushes, want %s without a push", again, err, p.repo.Stats().Pushes, head)
	}
	p.redefine(t, func(d *gitcachev1.RepositoryDefinition) {
		d.Push.AuthorName, d.Push.AuthorEmail = "Ada Lovelace", "ada@example.invalid"
	})
	if _, err := p.push(t, head, map[string]string{"apps.yaml": "", "apps-2/x": "y\n"}); err != nil {
		t.Fatal(err)
	}
	if who := strings.TrimSpace(p.repo.Git(t, "log", "-1", "--format=%an <%ae>", "main")); who != "Ada Lovelace <ada@example.invalid>" {
		t.Errorf("got %q", who)
	}
	p.repo.Git(t, "fsck", "--strict")
}

// TestCommitsArePushedOverSSH pushes through a replica that does not own the repository.
func TestCommitsArePushedOverSSH(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	base := repo.Commit(t, "main", map[string]string{"a.yaml": "a: 1\n"})
	replicas := []*replica{start(t, redis.URL(), t.TempDir()), start(t, redis.URL(), t.TempDir())}
	def := definition("demo", repo.SSHURL())
	def.Credential = &gitcachev1.Credential{Method: &gitcachev1.Credential_Ssh{Ssh: &gitcachev1.SSHCredential{
		PrivateKey: string(server.SSHPrivateKey()), KnownHosts: server.SSHKnownHosts(),
	}}}
	def.Push = &gitcachev1.Push{Branches: []string{"*"}}
	replicas[0].put(t, def)
	other := replicas[0]
	if other.state(t, "demo", ready).GetOwner() == other.url {
		other = replicas[1]
	}
	other.state(t, "demo", ready)
	p := &pushed{replica: other, repo: repo}
	got, err := p.push(t, base, map[string]string{"a.yaml": "a: 2\n"})
	if err != nil || got.GetCommit() != repo.Resolve(t, "main") || repo.Resolve(t, "main~1") != base {
		t.Errorf("got %v (%v)", got, err)
	}
	p.fetched(t, "main", got.GetCommit())
	_, err = p.push(t, got.GetCommit(), map[string]string{"a.yaml": "a: 3\n"}, withPull("leat/a", "t", "b"))
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_NOT_ALLOWED)
	if !strings.Contains(rpcerr.Message(err), "SSH key") {
		t.Errorf("got %q, want advice about the key", rpcerr.Message(err))
	}
}

func withPull(branch, title, body string) func(*gitcachev1.PushCommitRequest) {
	return func(r *gitcachev1.PushCommitRequest) {
		r.PullRequest = &gitcachev1.PullRequest{Branch: branch, Title: title, Body: body}
	}
}

// TestSecPushesOverwriteNothing has the branch move: before the push, between the list of refs and
// the push, and by another push at the same time.
func TestSecPushesOverwriteNothing(t *testing.T) {
	t.Parallel()
	p := startPushed(t)
	base := p.repo.Resolve(t, "main")
	moved := p.repo.Commit(t, "main", map[string]string{"README.md": "moved\n"})
	files := map[string]string{"apps.yaml": "a: 2\n"}
	_, err := p.push(t, base, files)
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_OUTDATED)
	if got := p.repo.Resolve(t, "main"); got != moved {
		t.Errorf("got main at %s, want %s", got, moved)
	}
	p.fetched(t, "main", moved) // so that the caller can read it again

	var once sync.Once
	var late string
	p.server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/git-receive-pack") && r.Method == http.MethodPost {
			once.Do(func() { late = p.repo.Commit(t, "main", map[string]string{"README.md": "moved again\n"}) })
		}
		return false
	})
	_, err = p.push(t, moved, files)
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_OUTDATED)
	if got := p.repo.Resolve(t, "main"); got != late {
		t.Errorf("got main at %s, want %s", got, late)
	}
	p.fetched(t, "main", late)

	var pushing sync.WaitGroup
	failures := make(chan error, 8)
	for i := range cap(failures) {
		pushing.Go(func() {
			_, err := p.push(t, late, map[string]string{"apps.yaml": fmt.Sprintf("a: %d\n", i+10)})
			failures <- err
		})
	}
	pushing.Wait()
	close(failures)
	succeeded := 0
	for err := range failures {
		if err == nil {
			succeeded++
			continue
		}
		wantReason(t, err, errorsv1.Reason_REASON_PUSH_OUTDATED)
	}
	if succeeded != 1 || p.repo.Resolve(t, "main~1") != late {
		t.Errorf("got %d pushes that succeeded on one commit, want one", succeeded)
	}
}

// TestSecPushesAreRefusedInTheServersWords protects the branch with a hook that prints words, a
// credential among them, and takes the right to write away.
func TestSecPushesAreRefusedInTheServersWords(t *testing.T) {
	t.Parallel()
	p := startPushed(t)
	base := p.repo.Resolve(t, "main")
	p.hook(t, "pre-receive", "echo 'GL-HOOK-ERR: main is protected; token="+pushPassword+"'\nyes | head -c 100000\nexit 1\n")
	_, err := p.push(t, base, map[string]string{"apps.yaml": "a: 2\n"})
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_REFUSED)
	if said := rpcerr.Message(err); !strings.Contains(said, "main is protected") || strings.Contains(said, pushPassword) {
		t.Errorf("got %q, want the hook's words without the password", said)
	}
	p.repo.Git(t, "config", "http.receivepack", "false")
	_, err = p.push(t, base, map[string]string{"apps.yaml": "a: 2\n"})
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_REFUSED)
	if got := p.repo.Resolve(t, "main"); got != base {
		t.Errorf("got main at %s, want %s", got, base)
	}
}

// TestSecPushesAreConfined asks for what a definition does not allow, and for files that are not
// there or not regular. The upstream sees none of it.
func TestSecPushesAreConfined(t *testing.T) {
	t.Parallel()
	p := startPushed(t)
	base := p.repo.Resolve(t, "main")
	p.repo.ResetStats()
	file := map[string]string{"apps.yaml": "a: 2\n"}
	for path, field := range map[string]string{
		"new.yaml": "files", "apps": "files", "apps/shop/link": "files", "apps/linked/web.yaml": "files", "apps.yaml/x": "files",
		"apps/shop/new": "files", "": "files[0].path", "../x": "files[0].path", "/etc/passwd": "files[0].path", "apps//x": "files[0].path",
		".git/config": "files[0].path", "apps/.GIT/hooks/x": "files[0].path", "apps/./x": "files[0].path", "apps\\x": "files[0].path",
		strings.Repeat("a", 4097): "files[0].path",
	} {
		_, err := p.push(t, base, map[string]string{path: "x"})
		wantField(t, err, field)
	}
	for field, change := range map[string]func(*gitcachev1.PushCommitRequest){
		"branch":               func(r *gitcachev1.PushCommitRequest) { r.Branch = "a b" },
		"base_commit":          func(r *gitcachev1.PushCommitRequest) { r.BaseCommit = "main" },
		"message":              func(r *gitcachev1.PushCommitRequest) { r.Message = " " },
		"files":                func(r *gitcachev1.PushCommitRequest) { r.Files = nil },
		"files[1].path":        func(r *gitcachev1.PushCommitRequest) { r.Files = append(r.Files, r.GetFiles()[0]) },
		"pull_request.branch":  withPull("--upload-pack=x", "t", ""),
		"pull_request.title":   withPull("leat/a", "a\nb", ""),
		"pull_request.body":    withPull("leat/a", "t", strings.Repeat("b", 16<<10+1)),
		"repository":           func(r *gitcachev1.PushCommitRequest) { r.Repository = "../demo" },
		"message of 5000":      func(r *gitcachev1.PushCommitRequest) { r.Message = strings.Repeat("m", 5000) },
		"files of more than 6": func(r *gitcachev1.PushCommitRequest) { r.Files[0].Content = make([]byte, 6<<20+1) },
	} {
		_, err := p.push(t, base, file, change)
		want, _, _ := strings.Cut(field, " ")
		wantField(t, err, want)
	}
	notAllowed := func(want string, change ...func(*gitcachev1.PushCommitRequest)) {
		t.Helper()
		_, err := p.push(t, base, file, change...)
		wantReason(t, err, errorsv1.Reason_REASON_PUSH_NOT_ALLOWED)
		if !strings.Contains(rpcerr.Message(err), want) {
			t.Errorf("got %q, want it to mention %q", rpcerr.Message(err), want)
		}
	}
	p.repo.Git(t, "branch", "other", "main")
	p.refresh(t, "demo")
	notAllowed("push.branches", func(r *gitcachev1.PushCommitRequest) { r.Branch = "other" })
	notAllowed("push.branches", withPull("hub/a", "t", ""))
	notAllowed("merge into", withPull("main", "t", ""))
	_, err := p.push(t, base, file, func(r *gitcachev1.PushCommitRequest) { r.Branch = "leat/none" })
	wantReason(t, err, errorsv1.Reason_REASON_REF_NOT_FOUND)
	p.redefine(t, func(d *gitcachev1.RepositoryDefinition) { d.Push.Forge = gitcachev1.Forge_FORGE_UNSPECIFIED })
	notAllowed("push.forge", withPull("leat/a", "t", ""))
	p.redefine(t, func(d *gitcachev1.RepositoryDefinition) { d.Push = nil })
	notAllowed("push.branches")
	if stats := p.repo.Stats(); stats.Pushes != 0 || p.repo.Resolve(t, "main") != base {
		t.Errorf("got %d pushes and main at %s, want nothing pushed", stats.Pushes, p.repo.Resolve(t, "main"))
	}
}

// TestSecSharedCredentialsDoNotPush has the repository's credential in the operator's file: an
// editor who defines a repository there may read with it, and not push.
func TestSecSharedCredentialsDoNotPush(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	p := startPushed(t, func(c *gitcache.Config) {
		c.CredentialsFile = path
		text := "- urlPrefix: http://127.0.0.1\n  credential: {basic: {username: leat, password: " + pushPassword + "}, allowPlainHttp: true}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	p.redefine(t, func(d *gitcachev1.RepositoryDefinition) { d.Credential = nil })
	p.repo.ResetStats()
	_, err := p.push(t, p.repo.Resolve(t, "main"), map[string]string{"apps.yaml": "a: 2\n"})
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_NOT_ALLOWED)
	if stats := p.repo.Stats(); stats.Pushes != 0 {
		t.Errorf("got %d pushes, want none", stats.Pushes)
	}
}

// fakeGitea answers for the API of a Gitea that has one repository, as its documentation has it.
type fakeGitea struct {
	mu    sync.Mutex
	pulls []map[string]any
	calls []string
}

func (g *fakeGitea) serve(w http.ResponseWriter, r *http.Request) bool {
	path, isAPI := strings.CutPrefix(r.URL.Path, "/api/v1/repos/team/demo/pulls")
	if !isAPI {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, r.Method+path)
	var sent map[string]string
	_ = json.NewDecoder(r.Body).Decode(&sent)
	var answer any
	switch r.Method {
	case http.MethodGet:
		if answer = g.pulls; r.URL.Query().Get("page") != "1" {
			answer = []any{}
		}
	case http.MethodPost:
		repo := map[string]any{"full_name": "team/demo"}
		pull := map[string]any{
			"number": len(g.pulls) + 1, "state": "open", "title": sent["title"], "body": sent["body"],
			"html_url": fmt.Sprintf("https://git.example/team/demo/pulls/%d", len(g.pulls)+1),
			"head":     map[string]any{"ref": sent["head"], "repo": repo}, "base": map[string]any{"ref": sent["base"], "repo": repo},
		}
		g.pulls = append(g.pulls, pull)
		w.WriteHeader(http.StatusCreated)
		answer = pull
	case http.MethodPatch:
		g.pulls[0]["title"], g.pulls[0]["body"] = sent["title"], sent["body"]
		answer = g.pulls[0]
	}
	_ = json.NewEncoder(w).Encode(answer)
	return true
}

// take returns the calls since the last time.
func (g *fakeGitea) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return calls
}

// TestPullRequests has a branch pushed and its pull request opened, follows it while main moves,
// and updates it.
func TestPullRequests(t *testing.T) {
	t.Parallel()
	p, forge := startPushed(t), &fakeGitea{pulls: []map[string]any{}}
	p.server.Intercept(forge.serve)
	base := p.repo.Resolve(t, "main")
	const branch = "leat/image/shop/web"
	propose := func(base, text, title string) *gitcachev1.PushCommitResponse {
		t.Helper()
		got, err := p.push(t, base, map[string]string{"apps.yaml": text}, withPull(branch, title, "The body."))
		if err != nil {
			t.Fatal(err)
		}
		if head := p.repo.Resolve(t, branch); head != got.GetCommit() || got.GetPullRequestUrl() != "https://git.example/team/demo/pulls/1" {
			t.Errorf("got %v, want %s and its pull request", got, head)
		}
		return got
	}
	first := propose(base, "a: 2\n", "Update to 2")
	if p.repo.Resolve(t, branch+"~1") != base || p.repo.Resolve(t, "main") != base {
		t.Error("the branch does not begin at main, or main has moved")
	}
	if diff := cmp.Diff([]string{"GET", "POST"}, forge.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.fetched(t, branch, first.GetCommit())

	// Nothing has changed, nor does it where main moves elsewhere.
	if again := propose(base, "a: 2\n", "Update to 2"); again.GetCommit() != first.GetCommit() {
		t.Errorf("got %v, want the branch as it was: %v", again, first)
	}
	moved := p.repo.Commit(t, "main", map[string]string{"README.md": "moved\n"})
	p.refresh(t, "demo")
	if again := propose(moved, "a: 2\n", "Update to 2"); again.GetCommit() != first.GetCommit() {
		t.Errorf("got %v, want the branch as it was: %v", again, first)
	}
	if diff := cmp.Diff([]string{"GET", "GET"}, forge.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Other content replaces the branch, and the pull request gets another title.
	second := propose(moved, "a: 3\n", "Update to 3")
	if p.repo.Resolve(t, branch+"~1") != moved || second.GetCommit() == first.GetCommit() {
		t.Errorf("got %v, want another commit on %s", second, moved)
	}
	if diff := cmp.Diff([]string{"GET", "PATCH/1"}, forge.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	p.server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"message": "token does not have at least one of required scope(s): [write:repository] ` + pushPassword + `"}`))
			return true
		}
		return false
	})
	_, err := p.push(t, moved, map[string]string{"apps.yaml": "a: 4\n"}, withPull(branch, "Update to 4", ""))
	wantReason(t, err, errorsv1.Reason_REASON_PULL_REQUEST_FAILED)
	if said := rpcerr.Message(err); !strings.Contains(said, "required scope") || strings.Contains(said, pushPassword) {
		t.Errorf("got %q, want the server's words without the password", said)
	}
	// What failed is repaired by a repeated call.
	p.server.Intercept(forge.serve)
	p.fetched(t, branch, p.repo.Resolve(t, branch))
	propose(moved, "a: 4\n", "Update to 4")
}

// TestSecSignedRepositoriesTakePullRequestsAlone: the hub does not sign.
func TestSecSignedRepositoriesTakePullRequestsAlone(t *testing.T) {
	t.Parallel()
	p := startPushed(t)
	p.server.Intercept((&fakeGitea{pulls: []map[string]any{}}).serve)
	base := p.repo.Resolve(t, "main")
	p.def.Verification = &gitcachev1.Verification{
		Mode:              gitcachev1.VerificationMode_VERIFICATION_MODE_COMMIT,
		SshAllowedSigners: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKRC7AbPbNRCHBbZx4rlSLUhWjYGcKLrp3rbbzWgmO\n",
	}
	p.def.Version++
	p.put(t, p.def)
	await.Success(t, "the verification to be applied", func(ctx context.Context) error {
		resp, err := p.GetRepository(ctx, &gitcachev1.GetRepositoryRequest{Name: "demo"})
		if err == nil && len(resp.GetState().GetHeldRefs()) == 0 {
			err = fmt.Errorf("got %v", resp.GetState())
		}
		return err
	})
	_, err := p.push(t, base, map[string]string{"apps.yaml": "a: 2\n"})
	wantReason(t, err, errorsv1.Reason_REASON_PUSH_NOT_ALLOWED)
	if !strings.Contains(rpcerr.Message(err), "pull request") {
		t.Errorf("got %q, want advice", rpcerr.Message(err))
	}
}
