// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// charts defines a Helm repository.
func charts(url string) *gitcachev1.RepositoryDefinition {
	def := definition("charts", url)
	def.Type = gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM
	return def
}

func chart(name string, ref *typev1.GitRef) *typev1.Source {
	return &typev1.Source{Repository: "charts", Chart: name, Ref: ref}
}

func (r *replica) tryResolve(t *testing.T, src *typev1.Source) error {
	t.Helper()
	_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: src})
	return err
}

// TestChartTravels delivers a chart from a repository over TLS with a password, in all ways to name a
// version. Git delivers the same chart with the same digest.
func TestChartTravels(t *testing.T) {
	t.Parallel()
	repo, git, redis := charttest.NewTLS(t, ""), gittest.New(t), redistest.Start(t)
	repo.SetBasicAuth("reader", "sesame")
	files := charttest.Files("web", "1.2.0", "hello")
	first := repo.Publish(t, "web", "1.1.0", charttest.Files("web", "1.1.0", "hello"))
	second := repo.Publish(t, "web", "1.2.0", files)
	preview := repo.Publish(t, "web", "2.0.0-rc.1", charttest.Files("web", "2.0.0-rc.1", "soon"))
	repo.Publish(t, "web-api", "0.1.0", charttest.Files("web-api", "0.1.0", "api"))
	r := start(t, redis.URL(), t.TempDir())
	def := charts(repo.URL())
	def.CaPem, def.Credential = repo.CertificatePEM(), basic("reader", "sesame")
	r.put(t, def)
	r.state(t, "charts", ready)

	for name, want := range map[string]struct {
		ref    *typev1.GitRef
		commit string
	}{
		"highest stable": {nil, second},
		"version":        {tag("1.1.0"), first},
		"range":          {semver("~1.1"), first},
		"open range":     {semver(">=1"), second},
		"pre-release":    {semver(">=2.0.0-0"), preview},
		"digest":         {commit(first), first},
		"short digest":   {commit(preview[:12]), preview},
		"full name":      {&typev1.GitRef{Selector: &typev1.GitRef_Name{Name: "refs/tags/web/1.1.0"}}, first},
	} {
		if got := r.resolve(t, chart("web", want.ref)); got.GetCommit() != want.commit {
			t.Errorf("%s: got %s, want %s", name, got.GetCommit(), want.commit)
		}
	}
	snap := r.resolve(t, chart("web", tag("1.2.0")))
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "charts", Digest: snap.GetDigest()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, unpack(t, snap.GetDigest(), stored)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	inGit := map[string]string{}
	for name, text := range files {
		inGit["charts/web/"+name] = text
	}
	source1 := git.Repo(t, "demo")
	source1.Commit(t, "main", inGit)
	r.put(t, definition("demo", source1.URL()))
	r.state(t, "demo", ready)
	if got := r.resolve(t, source("demo", "main", "charts/web")); got.GetDigest() != snap.GetDigest() {
		t.Errorf("got %s from Git, want %s as from the Helm repository", got.GetDigest(), snap.GetDigest())
	}
	templates := chart("web", tag("1.2.0"))
	templates.Path = "templates"
	if got := r.resolve(t, templates); got.GetFileCount() != 2 {
		t.Errorf("got %d files of a folder of the chart, want two", got.GetFileCount())
	}

	wantMessage(t, r.tryResolve(t, chart("web", tag("1.2.1"))), errorsv1.Reason_REASON_REF_NOT_FOUND, "1.2.0")
	wantMessage(t, r.tryResolve(t, chart("wep", nil)), errorsv1.Reason_REASON_REF_NOT_FOUND, "web")
	wantMessage(t, r.tryResolve(t, chart("web", branch("main"))), errorsv1.Reason_REASON_REF_NOT_FOUND, "no branch")
	wantField(t, r.tryResolve(t, chart("", nil)), "source.chart")
	wantField(t, r.tryResolve(t, &typev1.Source{Repository: "demo", Chart: "web"}), "source.chart")
}

// TestChartOutlivesItsRepository takes the repository away, and then the owner of the mirror.
func TestChartOutlivesItsRepository(t *testing.T) {
	t.Parallel()
	repo, redis := charttest.New(t), redistest.Start(t)
	first := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	unseen := repo.Publish(t, "web", "2.0.0", charttest.Files("web", "2.0.0", "two"))
	owner, other := start(t, redis.URL(), t.TempDir()), start(t, redis.URL(), t.TempDir())
	owner.put(t, charts(repo.URL()))
	if owner.state(t, "charts", ready).GetOwner() != owner.url {
		owner, other = other, owner
	}
	want := owner.resolve(t, chart("web", tag("1.0.0")))
	await.Success(t, "the copy at the follower", func(context.Context) error { return holdsWhatItsOwnerHolds(t, owner, other, "charts") })
	repo.Stop()
	if got := other.resolve(t, chart("web", tag("1.0.0"))); got.GetCommit() != first || got.GetDigest() != want.GetDigest() {
		t.Errorf("got %v, want %v while the repository is away", got, want)
	}
	if err := other.tryResolve(t, chart("web", tag("2.0.0"))); err == nil {
		t.Errorf("got no error for %s, which nobody has fetched", unseen)
	}
	owner.stop()
	other.state(t, "charts", func(s *gitcachev1.RepositoryState) bool { return s.GetOwner() == other.url && s.GetFailures() > 0 })
	if got := other.resolve(t, chart("web", tag("1.0.0"))); got.GetDigest() != want.GetDigest() {
		t.Errorf("got %v, want %v without repository and owner", got, want)
	}
	repo.Start(t)
	repo.ResetStats()
	other.refresh(t, "charts")
	if s := repo.Stats(); s.Index == 0 || s.NotModified != s.Index || s.Archives != 0 {
		t.Errorf("got %+v of the new owner, want nothing sent again", s)
	}
	if got := other.resolve(t, chart("web", nil)); got.GetCommit() != unseen {
		t.Errorf("got %v, want the version that was not fetched before", got)
	}
}

// holdsWhatItsOwnerHolds returns an error until both replicas hold the same.
func holdsWhatItsOwnerHolds(t *testing.T, owner, other *replica, name string) error {
	t.Helper()
	var prints []string
	for _, r := range []*replica{owner, other} {
		resp, err := dialReplica(t, r.url, "gitcache").GetMirror(t.Context(), &gitcachev1.GetMirrorRequest{Repository: name, Uid: "uid-" + name})
		if err != nil {
			return err
		}
		prints = append(prints, resp.GetFingerprint())
	}
	if prints[0] != prints[1] {
		return errors.New("the copy is old")
	}
	return nil
}

// TestOneFetcherOfCharts has three replicas answer for one chart at once: the index is asked for once
// a poll, and the archive once.
func TestOneFetcherOfCharts(t *testing.T) {
	t.Parallel()
	repo, redis := charttest.New(t), redistest.Start(t)
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	var all []*replica
	for range 3 {
		all = append(all, start(t, redis.URL(), t.TempDir()))
	}
	all[0].put(t, charts(repo.URL()))
	for _, r := range all {
		r.state(t, "charts", ready)
	}
	resolveAll := func() (digests []string) {
		var mu sync.Mutex
		var callers sync.WaitGroup
		for i := range 30 {
			callers.Go(func() {
				resp, err := all[i%3].ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: chart("web", semver("^1"))})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				digests = append(digests, resp.GetSnapshot().GetDigest())
			})
		}
		callers.Wait()
		slices.Sort(digests)
		return slices.Compact(digests)
	}
	before := resolveAll()
	if s := repo.Stats(); len(before) != 1 || s.Index != 1 || s.Archives != 1 {
		t.Errorf("got digests %q for %+v, want one for one index and one archive", before, s)
	}
	repo.ResetStats()
	all[1].refresh(t, "charts")
	if s := repo.Stats(); s.Index != 1 || s.NotModified != 1 || s.Archives != 0 {
		t.Errorf("got %+v for a poll, want one request", s)
	}
	repo.ResetStats()
	second := repo.Publish(t, "web", "1.1.0", charttest.Files("web", "1.1.0", "two"))
	all[2].refresh(t, "charts")
	after := resolveAll()
	if s := repo.Stats(); len(after) != 1 || slices.Equal(after, before) || s.Index != 1 || s.Archives != 1 || s.MaxInFlight != 1 {
		t.Errorf("got digests %q for %+v, want a new one for one index and one archive", after, s)
	}
	if got := all[0].resolve(t, chart("web", nil)); got.GetCommit() != second {
		t.Errorf("got %s, want %s", got.GetCommit(), second)
	}
}

// TestRangeMovesWithinAPoll publishes a version, which the next poll finds.
func TestRangeMovesWithinAPoll(t *testing.T) {
	t.Parallel()
	repo, redis := charttest.New(t), redistest.Start(t)
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	r := start(t, redis.URL(), t.TempDir())
	def := charts(repo.URL())
	def.PollInterval = durationpb.New(5 * time.Second)
	r.put(t, def)
	r.state(t, "charts", ready)
	stream, err := r.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() && !stream.Msg().GetSynced() {
	}
	second := repo.Publish(t, "web", "1.1.0", charttest.Files("web", "1.1.0", "two"))
	for stream.Receive() && len(stream.Msg().GetEvent().GetChangedRefs()) == 0 {
	}
	if refs := stream.Msg().GetEvent().GetChangedRefs(); !slices.Contains(refs, "refs/tags/web/1.1.0") {
		t.Errorf("got changed refs %v (%v), want the new version", refs, stream.Err())
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if got := r.resolve(t, chart("web", semver("1.x"))); got.GetCommit() != second || got.GetVersion() != "1.1.0" {
		t.Errorf("got %v, want 1.1.0 at %s", got, second)
	}
}

// TestPipelineReportsChart calls the generic webhook after a publication: the version is there
// without a poll.
func TestPipelineReportsChart(t *testing.T) {
	t.Parallel()
	const webhookSecret = "the secret of the pipeline"
	repo, redis := charttest.New(t), redistest.Start(t)
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	r := start(t, redis.URL(), t.TempDir())
	def := charts(repo.URL()) // polled once an hour
	def.WebhookSecret = webhookSecret
	r.put(t, def)
	r.state(t, "charts", ready)
	second := repo.Publish(t, "web", "1.1.0", charttest.Files("web", "1.1.0", "two"))
	body, now := `{"url":"`+repo.URL()+`"}`, strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	mac.Write([]byte(now + "." + body))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/webhooks/generic/charts", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Leat-Timestamp", now)
	req.Header.Set("X-Leat-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("got %d, want 202", resp.StatusCode)
	}
	r.state(t, "charts", func(*gitcachev1.RepositoryState) bool { return r.resolve(t, chart("web", nil)).GetCommit() == second })
}

// TestChartPublishedAgain follows other content under the same version, or holds it back.
func TestChartPublishedAgain(t *testing.T) {
	t.Parallel()
	repo, redis := charttest.New(t), redistest.Start(t)
	publish := func(text string) string {
		return repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", text))
	}
	publish("one")
	r := start(t, redis.URL(), t.TempDir())
	def := charts(repo.URL())
	r.put(t, def)
	r.state(t, "charts", ready)
	before := r.resolve(t, chart("web", tag("1.0.0")))
	second := publish("two")
	r.refresh(t, "charts")
	after := r.resolve(t, chart("web", tag("1.0.0")))
	if after.GetCommit() != second || after.GetDigest() == before.GetDigest() {
		t.Errorf("got %v, want the new content", after)
	}
	def.Version, def.Immutable = 2, true
	r.put(t, def)
	third := publish("three")
	state := r.refresh(t, "charts")
	if got := state.GetProblem().GetReason(); got != errorsv1.Reason_REASON_UPSTREAM_REPUBLISHED || !slices.Equal(state.GetHeldRefs(), []string{"refs/tags/web/1.0.0"}) {
		t.Errorf("got %s and held refs %q, want that it was published again", got, state.GetHeldRefs())
	}
	for _, word := range []string{"refs/tags/web/1.0.0", third, second, "immutable"} {
		if !strings.Contains(state.GetProblem().GetMessage(), word) {
			t.Errorf("got the problem %q, want it to hold %q", state.GetProblem().GetMessage(), word)
		}
	}
	if got := r.resolve(t, chart("web", tag("1.0.0"))); got.GetCommit() != second || got.GetDigest() != after.GetDigest() {
		t.Errorf("got %v, want %v: the repository is immutable", got, after)
	}
	def.Version, def.Immutable = 3, false
	r.put(t, def)
	r.state(t, "charts", untroubled)
	await.Success(t, "the content that was published last", func(context.Context) error {
		if got := r.resolve(t, chart("web", tag("1.0.0"))); got.GetCommit() != third {
			return fmt.Errorf("got %s, want %s", got.GetCommit(), third)
		}
		return nil
	})
}

// TestRealHelmRepository serves a folder that the real Helm has written, as any file server does. It
// also shows that the index which other tests make is like Helm's.
func TestRealHelmRepository(t *testing.T) {
	t.Parallel()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	helm := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binaries.Helm, args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "HOME="+work, "XDG_CACHE_HOME="+work, "XDG_CONFIG_HOME="+work, "XDG_DATA_HOME="+work)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	served := filepath.Join(work, "repo")
	for _, version := range []string{"0.9.0", "1.0.0", "1.1.0-beta.1+build.7"} {
		for name, text := range charttest.Files("web", version, "by helm") {
			path := filepath.Join(work, "web", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		helm("package", "web", "--destination", served)
	}
	helm("repo", "index", served)
	server := httptest.NewServer(http.StripPrefix("/stable", http.FileServer(http.Dir(served))))
	t.Cleanup(server.Close)

	redis := redistest.Start(t)
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, charts(server.URL+"/stable"))
	r.state(t, "charts", ready)
	snap := r.resolve(t, chart("web", nil))
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "charts", Digest: snap.GetDigest()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(charttest.Files("web", "1.0.0", "by helm"), unpack(t, snap.GetDigest(), stored)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	r.resolve(t, chart("web", tag("1.1.0-beta.1+build.7")))

	// The fixture's files have the same lines as Helm's, apart from the times.
	made := charttest.New(t)
	made.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "by helm"))
	path := filepath.Join(made.Dir(), "index.yaml")
	ours := lines(t, path)
	helm("repo", "index", made.Dir())
	if diff := cmp.Diff(lines(t, path), ours); diff != "" {
		t.Errorf("index (-helm's +ours):\n%s", diff)
	}
}

// lines returns the lines of a file without the ones that have a time.
func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return strings.Contains(line, "created:") || strings.Contains(line, "generated:")
	})
}
