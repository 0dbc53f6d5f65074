// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leaseredis"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// pair starts two replicas with one repository, and returns the one that owns it first.
func pair(t *testing.T, redis *redistest.Server, repo *gittest.Repo) (owner, other *replica) {
	t.Helper()
	a, b := start(t, redis.URL(), t.TempDir()), start(t, redis.URL(), t.TempDir())
	a.put(t, definition("demo", repo.URL()))
	if a.state(t, "demo", ready).GetOwner() == a.url {
		return a, b
	}
	return b, a
}

func TestOtherReplicaForwards(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	owner, other := pair(t, redis, repo)

	want := owner.resolve(t, source("demo", "main", "app"))
	got := other.resolve(t, source("demo", "main", "app"))
	if got.GetDigest() != want.GetDigest() || got.GetCommit() != commit {
		t.Errorf("got %v through the other replica, want %v", got, want)
	}
	_, stored, err := other.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: want.GetDigest()})
	if err != nil {
		t.Fatal(err)
	}
	unpack(t, want.GetDigest(), stored)
	refs, err := other.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "demo"})
	if err != nil || len(refs.GetRefs()) != 1 || refs.GetRefs()[0].GetCommit() != commit {
		t.Errorf("got refs %v (%v), want main at %s", refs, err, commit)
	}
	second := repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 2\n"})
	other.refresh(t, "demo")
	if got := owner.resolve(t, source("demo", "main", "app")); got.GetCommit() != second {
		t.Errorf("got commit %s after a forwarded refresh, want %s", got.GetCommit(), second)
	}
	if got := repo.Stats(); got.MaxInFlight > 1 {
		t.Errorf("got %d requests at once at the upstream, want 1", got.MaxInFlight)
	}
	forged := dial(t, other.url, "distributor")
	ctx, info := newClientContext(t.Context())
	info.RequestHeader().Set("Leat-Forwarded", "1")
	_, err = forged.ListRefs(ctx, &gitcachev1.ListRefsRequest{Repository: "demo"})
	wantReason(t, err, errorsv1.Reason_REASON_OWNERSHIP_LOST)
}

// TestStatesOfManyRepositories polls without changes: whichever replica is asked, it returns when
// each owner last looked.
func TestStatesOfManyRepositories(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	// The second replica may come after all repositories have an owner; then it takes some over.
	soon := func(c *gitcache.Config) { c.Rebalance = 500 * time.Millisecond }
	a, b := start(t, redis.URL(), t.TempDir(), soon), start(t, redis.URL(), t.TempDir(), soon)
	var names []string
	for i := range 20 {
		name := fmt.Sprintf("repo-%d", i)
		repo := server.Repo(t, name)
		repo.Commit(t, "main", map[string]string{"a.yaml": "a: 1\n"})
		a.put(t, definition(name, repo.URL()))
		names = append(names, name)
	}
	await.Success(t, "both replicas to own repositories", func(ctx context.Context) error {
		resp, err := a.GetRepositoryStates(ctx, &gitcachev1.GetRepositoryStatesRequest{Names: names})
		if err != nil {
			return err
		}
		owners := map[string]int{}
		for _, state := range resp.GetStates() {
			owners[state.GetOwner()]++
		}
		if owners[a.url] == 0 || owners[b.url] == 0 {
			return fmt.Errorf("got owners %v", owners)
		}
		return nil
	})
	for _, r := range []*replica{a, b} {
		before := map[string]time.Time{}
		for range 2 {
			await.Success(t, "the states of all repositories", func(ctx context.Context) error {
				resp, err := r.GetRepositoryStates(ctx, &gitcachev1.GetRepositoryStatesRequest{Names: append(names, "unknown")})
				if err != nil {
					return err
				}
				if got := len(resp.GetStates()); got != len(names) {
					return fmt.Errorf("got states of %d repositories, want %d", got, len(names))
				}
				for name, state := range resp.GetStates() {
					fresh := state.GetFreshAt().AsTime()
					if !ready(state) || state.GetNextPollAt() == nil || !fresh.After(before[name]) {
						return fmt.Errorf("%s: got %v, want it fresh after %s", name, state, before[name])
					}
				}
				for name, state := range resp.GetStates() {
					before[name] = state.GetFreshAt().AsTime()
				}
				return nil
			})
			for _, name := range names { // while replicas hand over, they ask to be called again
				await.Success(t, "a refresh of "+name+", which finds nothing", func(ctx context.Context) error {
					_, err := r.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: name, Wait: true})
					return err
				})
			}
		}
	}
	_, err := a.GetRepositoryStates(t.Context(), &gitcachev1.GetRepositoryStatesRequest{Names: make([]string, 1001)})
	wantReason(t, err, errorsv1.Reason_REASON_FIELD_INVALID)
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n", "b": "1"})
	owner, other := pair(t, redis, repo)
	before := owner.resolve(t, source("demo", "main", "app"))
	epoch := owner.state(t, "demo", ready).GetEpoch()

	owner.stop()
	second := repo.Commit(t, "main", map[string]string{"b": "2"})
	state := other.state(t, "demo", func(s *gitcachev1.RepositoryState) bool {
		return ready(s) && s.GetOwner() == other.url && s.GetFetches() > 0
	})
	if state.GetEpoch() <= epoch {
		t.Errorf("got epoch %d after a takeover, want more than %d", state.GetEpoch(), epoch)
	}
	other.refresh(t, "demo")
	got := other.resolve(t, source("demo", "main", "app"))
	if got.GetCommit() != second || got.GetDigest() != before.GetDigest() {
		t.Errorf("got %v from the new owner, want digest %s at %s", got, before.GetDigest(), second)
	}
	// A bundle that was evicted, or never was here, is built again from the mirror.
	if _, _, err := other.download(t, &gitcachev1.DownloadBundleRequest{
		Repository: "demo", Digest: before.GetDigest(), Commit: before.GetCommit(), Path: "app",
	}); err != nil {
		t.Error(err)
	}
}

func TestUpstreamVanishes(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	before := r.resolve(t, source("demo", "main", "app"))

	server.Stop()
	state := r.refresh(t, "demo")
	if state.GetPhase() != gitcachev1.RepositoryPhase_REPOSITORY_PHASE_STALE ||
		state.GetProblem().GetReason() != errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE || state.GetProblem().GetMessage() == "" {
		t.Errorf("got %v with the upstream down, want stale and UPSTREAM_UNREACHABLE", state)
	}
	if got := r.resolve(t, source("demo", "main", "app")); got.GetDigest() != before.GetDigest() {
		t.Errorf("got digest %s with the upstream down, want %s", got.GetDigest(), before.GetDigest())
	}
	server.Start(t)
	if got := r.refresh(t, "demo"); !ready(got) || got.GetFailures() != 0 {
		t.Errorf("got %v with the upstream back, want ready", got)
	}
}

func TestFailedCloneSaysWhy(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t, gittest.WithBasicAuth("leat", "right")), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	r := start(t, redis.URL(), t.TempDir())
	def := definition("demo", repo.URL())
	def.Credential = basic("leat", "wrong")
	def.Credential.AllowPlainHttp = true
	r.put(t, def)
	state := r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return s.GetProblem() != nil })
	if state.GetPhase() != gitcachev1.RepositoryPhase_REPOSITORY_PHASE_FAILED {
		t.Errorf("got phase %s, want FAILED", state.GetPhase())
	}
	_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: source("demo", "main", "")})
	wantReason(t, err, errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED)

	def.Version, def.Credential.Method = 2, basic("leat", "right").GetMethod()
	r.put(t, def)
	r.state(t, "demo", ready)
	resp, err := r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "demo"})
	if err != nil || resp.GetRepository().GetCredential() != nil || resp.GetRepository().GetVersion() != 2 {
		t.Errorf("got %v (%v), want version 2 without its credential", resp.GetRepository(), err)
	}
	def.Version = 1
	def.Suspended = true
	r.put(t, def)
	resp, err = r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "demo"})
	if err != nil || resp.GetRepository().GetVersion() != 2 {
		t.Errorf("got %v (%v) after an older version was put, want version 2", resp.GetRepository(), err)
	}

	missing := definition("missing", server.URL()+"/nowhere.git")
	missing.Credential = def.GetCredential()
	r.put(t, missing)
	r.state(t, "missing", func(s *gitcachev1.RepositoryState) bool {
		return s.GetProblem().GetReason() == errorsv1.Reason_REASON_REPOSITORY_NOT_FOUND
	})
}

func TestRedisVanishes(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir(), shortLeases)
	def := definition("demo", repo.URL())
	def.PollInterval = durationpb.New(5e9)
	r.put(t, def)
	r.state(t, "demo", ready)
	before := r.resolve(t, source("demo", "main", "app"))

	redis.Stop(t)
	r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return s.GetOwner() == "" })
	if got := r.resolve(t, source("demo", "main", "app")); got.GetDigest() != before.GetDigest() {
		t.Errorf("got digest %s without redis, want %s", got.GetDigest(), before.GetDigest())
	}
	if resp, err := http.Get(r.internal + "/readyz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("got readiness %v (%v) without redis, want 200", resp, err)
	}
	_, err := r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: definition("new", repo.URL())})
	wantReason(t, err, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE)
	stream, err := r.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err == nil {
		stream.Receive()
		err = stream.Err()
	}
	wantReason(t, err, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE)

	redis.Restart(t) // empty: definitions are put back, and leases begin above the epochs seen
	state := r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return ready(s) && s.GetFetches() > 0 })
	if state.GetEpoch() < 2 {
		t.Errorf("got epoch %d after redis lost its memory, want more than before", state.GetEpoch())
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	owner, other := pair(t, redis, repo)

	stream, err := other.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var token string
	for stream.Receive() {
		if stream.Msg().GetSynced() {
			token = stream.Msg().GetResumeToken()
			break
		}
		if got := stream.Msg().GetEvent(); got.GetRepository() != "demo" || got.GetState() == nil {
			t.Errorf("got initial state %v, want the one of demo", got)
		}
	}
	repo.Commit(t, "feature", map[string]string{"b": "1"})
	owner.refresh(t, "demo")
	heartbeats := 0
	for stream.Receive() {
		if stream.Msg().GetEvent() == nil {
			heartbeats++
			continue
		}
		if refs := stream.Msg().GetEvent().GetChangedRefs(); len(refs) == 1 && refs[0] == "refs/heads/feature" {
			break
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	for heartbeats == 0 && stream.Receive() {
		if stream.Msg().GetEvent() == nil {
			heartbeats++
		}
	}
	_ = stream.Close()

	resumed, err := owner.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{ResumeToken: token})
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for !seen && resumed.Receive() {
		for _, ref := range resumed.Msg().GetEvent().GetChangedRefs() {
			seen = seen || ref == "refs/heads/feature"
		}
	}
	if _, err := other.DeleteRepository(t.Context(), &gitcachev1.DeleteRepositoryRequest{Name: "demo"}); err != nil {
		t.Fatal(err)
	}
	for resumed.Receive() && !resumed.Msg().GetEvent().GetDeleted() {
	}
	if !seen || !resumed.Msg().GetEvent().GetDeleted() {
		t.Errorf("got event missed (seen %t, last %v)", seen, resumed.Msg())
	}
	await.Success(t, "the end of the repository at the other replica", func(ctx context.Context) error { // replicas tell each other, which takes an instant
		_, err := owner.GetRepository(ctx, &gitcachev1.GetRepositoryRequest{Name: "demo"})
		if err == nil {
			return errors.New("the deleted repository is still known")
		}
		wantReason(t, err, errorsv1.Reason_REASON_NOT_FOUND)
		return nil
	})

	go owner.stop()
	for resumed.Receive() {
	}
	wantReason(t, resumed.Err(), errorsv1.Reason_REASON_SHUTTING_DOWN)

	expired, err := other.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{ResumeToken: "other.7"})
	if err != nil {
		t.Fatal(err)
	}
	for expired.Receive() {
	}
	wantReason(t, expired.Err(), errorsv1.Reason_REASON_RESUME_EXPIRED)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"app/a": "1", "b": "1"})
	second := repo.Commit(t, "main", map[string]string{"b": "2"})
	third := repo.CommitFiles(t, "main", map[string]gittest.File{"app/a": gittest.Text("0123456789"), "app/c": gittest.Text(""), "b": gittest.Deleted()})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)

	all := commits(t, r, &typev1.Source{Repository: "demo"}, 1)
	if len(all) != 3 || all[0] != third || all[1] != second || all[2] != first {
		t.Errorf("got history %v, want %v", all, []string{third, second, first})
	}
	touching := commits(t, r, &typev1.Source{Repository: "demo", Path: "app"}, 1)
	if len(touching) != 2 || touching[0] != third || touching[1] != first {
		t.Errorf("got history of app %v, want %v", touching, []string{third, first})
	}
	file, err := r.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: &typev1.Source{Repository: "demo", Path: "app/a"}, Offset: 3, Limit: 4})
	if err != nil || string(file.GetContent()) != "3456" || file.GetSize() != 10 || file.GetCommit() != third {
		t.Errorf("got %v (%v), want 3456 of 10 bytes", file, err)
	}
	_, err = r.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: &typev1.Source{Repository: "demo", Path: "app"}})
	wantReason(t, err, errorsv1.Reason_REASON_PATH_NOT_FOUND)

	req := &gitcachev1.CompareCommitsRequest{
		Repository: "demo", Page: &typev1.Page{Size: 2},
		Base: &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: first}}, Head: &typev1.GitRef{},
	}
	page, err := r.CompareCommits(t.Context(), req)
	if err != nil || len(page.GetChanges()) != 2 || page.GetNextPageToken() == "" {
		t.Fatalf("got %v (%v), want two changes and a token", page, err)
	}
	req.Page.Token = page.GetNextPageToken()
	rest, err := r.CompareCommits(t.Context(), req)
	if err != nil || len(rest.GetChanges()) != 1 || rest.GetNextPageToken() != "" ||
		rest.GetChanges()[0].GetKind() != gitcachev1.ChangeKind_CHANGE_KIND_DELETED {
		t.Errorf("got %v (%v), want b deleted", rest, err)
	}
	_, err = r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "demo", Page: &typev1.Page{Token: "%"}})
	wantField(t, err, "page.token")
}

func commits(t *testing.T, r *replica, src *typev1.Source, size int32) []string {
	t.Helper()
	var ids []string
	req := &gitcachev1.ListCommitsRequest{Source: src, Page: &typev1.Page{Size: size}}
	for {
		resp, err := r.ListCommits(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.GetCommits() {
			ids = append(ids, c.GetId())
		}
		if req.Page.Token = resp.GetNextPageToken(); req.Page.Token == "" {
			return ids
		}
	}
}

func TestOnlyServicesMayCall(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := start(t, redis.URL(), t.TempDir())
	anonymous := gitcachev1connect.NewGitCacheServiceClient(http.DefaultClient, r.url)
	_, err := anonymous.ListRepositories(context.Background(), &gitcachev1.ListRepositoriesRequest{})
	wantReason(t, err, errorsv1.Reason_REASON_TOKEN_INVALID)
	if _, err := r.ListRepositories(t.Context(), &gitcachev1.ListRepositoriesRequest{}); err != nil {
		t.Error(errors.Unwrap(err))
	}
}

// TestFrozenOwner makes an owner that takes calls and never answers: they are answered here as soon
// as its lease ends.
func TestFrozenOwner(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	dir := t.TempDir()
	r := start(t, redis.URL(), dir)
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	before := r.resolve(t, source("demo", "main", "app"))
	r.stop()

	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frozen.Close() })
	leases := leaseredis.New(redis.Client(t), "leat:{gitcache}:")
	his, err := leases.Acquire(t.Context(), lease.AcquireParams{
		Key: "uid-demo", Owner: "http://" + frozen.Addr().String(), TTL: 3 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	r = start(t, redis.URL(), dir)
	if got := r.resolve(t, source("demo", "main", "app")); got.GetDigest() != before.GetDigest() {
		t.Errorf("got digest %s, want %s", got.GetDigest(), before.GetDigest())
	}
	if _, _, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: before.GetDigest()}); err != nil {
		t.Error(err)
	}
	state := r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return ready(s) && s.GetOwner() == r.url })
	if state.GetEpoch() <= his.Epoch {
		t.Errorf("got epoch %d, want one above the frozen owner's %d", state.GetEpoch(), his.Epoch)
	}
}
