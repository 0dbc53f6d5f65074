// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// module is a submodule to be added.
type module struct{ url, commit string }

// commitModules adds a commit to main that has these submodules, by path, and none that were there
// before.
func commitModules(t *testing.T, repo *gittest.Repo, modules map[string]module) string {
	t.Helper()
	var config strings.Builder
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		fmt.Fprintf(&config, "[submodule %q]\n\tpath = %s\n\turl = %s\n", "name of "+path, path, modules[path].url)
	}
	repo.Commit(t, "main", map[string]string{".gitmodules": config.String()})
	repo.Git(t, "read-tree", "main")
	for path, m := range modules {
		repo.Git(t, "update-index", "--add", "--cacheinfo", "160000,"+m.commit+","+path)
	}
	commit := repo.Git(t, "commit-tree", repo.Git(t, "write-tree"), "-p", "main", "-m", "Link submodules")
	repo.Git(t, "update-ref", "refs/heads/main", commit)
	return commit
}

// submodules lists the repositories that gitcache defined itself, by URL.
func (r *replica) submodules(t *testing.T) map[string]*gitcachev1.RepositoryDefinition {
	t.Helper()
	resp, err := r.ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{IncludeSubmodules: true})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*gitcachev1.RepositoryDefinition{}
	for _, def := range resp.GetRepositories() {
		if def.GetParent() != "" {
			found[def.GetUrl()] = def
		}
	}
	return found
}

// TestSubmodules bundles what git would check out: by relative and full URLs, nested, in the order
// of names, with LFS.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, lib, deep := server.Repo(t, "group/demo"), server.Repo(t, "group/libs/lib"), server.Repo(t, "deep")
	inner := deep.Commit(t, "main", map[string]string{"c.yaml": "c: 1\n", "big": deep.LFS().Put("much content")})
	lib.Commit(t, "main", map[string]string{"b.yaml": "b: 1\n", "docs/readme": "x"})
	first := commitModules(t, lib, map[string]module{"deep": {"../../../deep.git", inner}})
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n", "app/lib-a": "comes after the folder, and before its files", "other/x": "x"})
	commitModules(t, repo, map[string]module{
		"app/lib": {"../libs/lib.git", first}, "other/unused": {"https://unused.invalid/x.git", strings.Repeat("1", 40)},
	})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)

	snap := r.resolve(t, source("demo", "main", "app"))
	want := map[string]string{
		"a.yaml": "a: 1\n", "lib-a": "comes after the folder, and before its files",
		"lib/b.yaml": "b: 1\n", "lib/docs/readme": "x", "lib/.gitmodules": lib.Git(t, "show", first+":.gitmodules") + "\n",
		"lib/deep/c.yaml": "c: 1\n", "lib/deep/big": "much content",
	}
	if diff := cmp.Diff(want, r.bundle(t, "demo", snap, "app")); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	defs := r.submodules(t)
	if len(defs) != 2 || defs[lib.URL()] == nil || defs[deep.URL()] == nil {
		t.Errorf("got submodules %v, want those that the bundle needs", slices.Collect(maps.Keys(defs)))
	}
	without := source("demo", "main", "app")
	without.Exclude = []string{"docs/"}
	if got := r.content(t, without); got["lib/docs/readme"] != "" || got["lib/b.yaml"] == "" {
		t.Errorf("got %v, want the pattern applied inside of the submodule", slices.Sorted(maps.Keys(got)))
	}

	// One fetch serves all that was asked, and a new commit is fetched when it is linked.
	if stats := lib.Stats(); stats.Fetches != 1 {
		t.Errorf("got %d fetches of the submodule, want 1", stats.Fetches)
	}
	second := lib.Commit(t, "main", map[string]string{"b.yaml": "b: 2\n"})
	commitModules(t, repo, map[string]module{"app/lib": {"../libs/lib.git", second}})
	r.refresh(t, "demo")
	if got := r.content(t, source("demo", "main", "app")); got["lib/b.yaml"] != "b: 2\n" {
		t.Errorf("got %v after the link moved, want the new content", got)
	}
}

// content resolves and downloads.
func (r *replica) content(t *testing.T, src *typev1.Source) map[string]string {
	t.Helper()
	snap := r.resolve(t, src)
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: src.GetRepository(), Digest: snap.GetDigest()})
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, snap.GetDigest(), stored)
}

// TestSubmoduleRepositoriesAreInternal hides them, keeps people's hands off them, and deletes them
// with their parent.
func TestSubmoduleRepositoriesAreInternal(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, lib := server.Repo(t, "demo"), server.Repo(t, "lib")
	commitModules(t, repo, map[string]module{"lib": {"../lib.git", lib.Commit(t, "main", map[string]string{"b": "1"})}})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	r.resolve(t, source("demo", "main", ""))
	def := r.submodules(t)[lib.URL()]
	if def.GetParent() != "demo" {
		t.Fatalf("got %v, want the submodule's repository", def)
	}
	listed, err := r.ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{})
	if err != nil || len(listed.GetRepositories()) != 1 {
		t.Errorf("got %v, %v, want the parent alone", listed, err)
	}
	stream, err := r.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() && !stream.Msg().GetSynced() {
		if name := stream.Msg().GetEvent().GetRepository(); name != "demo" {
			t.Errorf("got an event of %q, want it hidden", name)
		}
	}
	_ = stream.Close()
	if got, err := r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: def.GetName()}); err != nil || !ready(got.GetState()) {
		t.Errorf("got %v, %v for its name, want its state", got, err)
	}
	_, err = r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: def})
	wantField(t, err, "repository.name")
	forged := definition("mine", lib.URL())
	forged.Parent = "demo"
	_, err = r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: forged})
	wantField(t, err, "repository.parent")
	_, err = r.DeleteRepository(t.Context(), &gitcachev1.DeleteRepositoryRequest{Name: def.GetName()})
	wantField(t, err, "name")

	if _, err := r.DeleteRepository(t.Context(), &gitcachev1.DeleteRepositoryRequest{Name: "demo"}); err != nil {
		t.Fatal(err)
	}
	_, err = r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: def.GetName()})
	wantReason(t, err, errorsv1.Reason_REASON_NOT_FOUND)
}

// TestSubmoduleFailures name the submodule, and heal when what was missing is pushed.
func TestSubmoduleFailures(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, lib := server.Repo(t, "demo"), server.Repo(t, "lib")
	commit := lib.Commit(t, "main", map[string]string{"b": "1"})
	commitModules(t, repo, map[string]module{
		"gone/lib": {"../lib.git", strings.Repeat("1", 40)}, "local/lib": {"file:///etc", commit}, "away/lib": {"../../../../x.git", commit},
		"secret/lib": {"https://user:canary@127.0.0.1/x.git", commit}, "absent/lib": {"../nowhere.git", commit},
		"ssh/lib": {"git@git.invalid:x.git", commit},
	})
	repo.Git(t, "read-tree", "main")
	repo.Git(t, "update-index", "--add", "--cacheinfo", "160000,"+commit+",unnamed/lib")
	linked := repo.Git(t, "commit-tree", repo.Git(t, "write-tree"), "-p", "main", "-m", "Link without a name")
	repo.Git(t, "update-ref", "refs/heads/main", linked)
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	for path, want := range map[string]errorsv1.Reason{
		"gone": errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE, "local": errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE,
		"away": errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE, "secret": errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE,
		"ssh": errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE, "unnamed": errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE,
		"absent": errorsv1.Reason_REASON_REPOSITORY_NOT_FOUND,
	} {
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", path)})
		wantReason(t, err, want)
		if got := rpcerr.Metadata(err)["path"]; got != path+"/lib" || strings.Contains(fmt.Sprint(err, rpcerr.Metadata(err)), "canary") {
			t.Errorf("got %v with %v, want the submodule %s/lib named, without its password", err, rpcerr.Metadata(err), path)
		}
	}
}

// TestSubmoduleWaits tells callers to come back while a submodule is being fetched, and serves it
// once it is there: nothing has to change in the parent.
func TestSubmoduleWaits(t *testing.T) {
	t.Parallel()
	server, redis, slow := gittest.New(t), redistest.Start(t), gittest.New(t)
	repo, lib := server.Repo(t, "demo"), slow.Repo(t, "lib")
	commitModules(t, repo, map[string]module{"lib": {lib.URL(), lib.Commit(t, "main", map[string]string{"b": "1"})}})
	slow.Stop()
	r := start(t, redis.URL(), t.TempDir(), allowLocal) // in this test another host is another port of this machine
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "")})
	wantReason(t, err, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE)
	if _, ok := rpcerr.RetryDelay(err); !ok {
		t.Error("got no time to come back at")
	}
	slow.Start(t)
	await.Success(t, "a snapshot", func(ctx context.Context) error {
		_, err := r.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "")})
		return err
	})
}

// allowLocal allows URLs that no administrator wrote to lead to this machine, where all upstreams
// of tests are.
func allowLocal(cfg *gitcache.Config) { cfg.AllowLocalUpstreams = true }

// TestSecSubmodulesKeepToTheirFolders checks that the parent's credential is sent only to its own
// host, and there only to its own folder and to folders that an operator names. A committer to one
// repository does not get another one bundled.
func TestSecSubmodulesKeepToTheirFolders(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t, gittest.WithBasicAuth("leat", "canary")), redistest.Start(t)
	foreign := gittest.New(t, gittest.WithBasicAuth("leat", "canary"))
	repo, lib, secret := server.Repo(t, "group/demo"), server.Repo(t, "group/lib"), server.Repo(t, "board/minutes")
	theirs := foreign.Repo(t, "group/lib")
	commit := lib.Commit(t, "main", map[string]string{"b": "1"})
	for _, other := range []*gittest.Repo{secret, theirs} {
		other.Commit(t, "main", map[string]string{"b": "1"}) // the same commit
	}
	commitModules(t, repo, map[string]module{
		"same/lib": {"../lib.git", commit}, "secret/lib": {"../../board/minutes.git", commit}, "other/lib": {theirs.URL(), commit},
	})
	put := func(r *replica) {
		def := definition("demo", repo.URL())
		def.Credential = basic("leat", "canary")
		def.Credential.AllowPlainHttp = true
		r.put(t, def)
		r.state(t, "demo", ready)
		if got := r.content(t, source("demo", "main", "same")); got["lib/b"] != "1" {
			t.Errorf("got %v from the parent's folder, want its content", got)
		}
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "other")})
		wantReason(t, err, errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED)
	}
	strict := start(t, redis.URL(), t.TempDir(), allowLocal)
	put(strict)
	_, err := strict.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "secret")})
	wantReason(t, err, errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED)
	if stats := secret.Stats(); stats.Fetches != 0 {
		t.Errorf("got %+v of a repository in another folder, want no fetch", stats)
	}

	open := start(t, redistest.Start(t).URL(), t.TempDir(), allowLocal, func(cfg *gitcache.Config) {
		cfg.SubmoduleCredentials = []string{server.URL() + "/board"}
	})
	put(open)
	if got := open.content(t, source("demo", "main", "secret")); got["lib/b"] != "1" {
		t.Errorf("got %v from a folder that an operator named, want its content", got)
	}
}

// TestSecSubmodulesDoNotReachThisMachine commits submodules whose URLs lead to a server on the
// hub's own machine. That server does not get any request.
func TestSecSubmodulesDoNotReachThisMachine(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	var asked atomic.Int32
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(local.Close)
	repo := server.Repo(t, "demo")
	commit := strings.Repeat("1", 40)
	commitModules(t, repo, map[string]module{
		"address/lib": {local.URL + "/latest/meta-data", commit},
		"name/lib":    {strings.Replace(local.URL, "127.0.0.1", "localhost", 1) + "/latest/meta-data", commit},
	})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	for _, path := range []string{"address", "name"} {
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", path)})
		wantReason(t, err, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE)
		if !strings.Contains(fmt.Sprint(err), "administrator") || strings.Contains(fmt.Sprint(err), "403") {
			t.Errorf("got %v, want what to do, and nothing of what listens there", err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

// TestSubmodulesOutliveTheirOwner takes upstreams and owner away: the follower has the submodule
// too, and builds a bundle that it never had.
func TestSubmodulesOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo, lib := server.Repo(t, "demo"), server.Repo(t, "lib")
	commitModules(t, repo, map[string]module{"lib": {"../lib.git", lib.Commit(t, "main", map[string]string{"b": "1"})}})
	owner, other := pair(t, redis, repo)
	snap := other.resolve(t, source("demo", "main", ""))
	def := owner.submodules(t)[lib.URL()]
	peer := dialReplica(t, other.url, "gitcache")
	for name, uid := range map[string]string{"demo": "uid-demo", def.GetName(): def.GetUid()} {
		await.Success(t, "the copy of "+name, func(ctx context.Context) error {
			_, err := peer.GetMirror(ctx, &gitcachev1.GetMirrorRequest{Repository: name, Uid: uid})
			return err
		})
	}
	if stats := lib.Stats(); stats.Fetches != 1 || stats.MaxInFlight > 1 {
		t.Errorf("got %+v with a copy at the follower, want one fetch", stats)
	}
	server.Stop()
	owner.stop()
	if got := other.bundle(t, "demo", snap, ""); got["lib/b"] != "1" {
		t.Errorf("got %v, want the submodule's content", got)
	}
}
