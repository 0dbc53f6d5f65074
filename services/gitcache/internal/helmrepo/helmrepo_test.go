// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/services/gitcache/internal/artifactstore"
	"github.com/leatdev/leat/services/gitcache/internal/helmrepo"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

const uid = "uid-1"

// fixture is a mirror of one repository, as its owner has it.
type fixture struct {
	*helmrepo.Upstream
	store *artifactstore.Store
	dir   string // the store's
	// temporary is where an index is while it is read.
	temporary string
	def       mirror.Definition
	have      mirror.Content
	guard     func() error
	received  int
	now       time.Time
}

// newFixture returns a mirror that was not fetched yet. Local addresses that no administrator wrote
// are refused if isGuarded is set, as they are in production.
func newFixture(t *testing.T, url string, isGuarded bool) *fixture {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	dir, temporary := t.TempDir(), t.TempDir()
	store, err := artifactstore.New(artifactstore.Params{Dir: dir, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		store: store, dir: dir, temporary: temporary, now: time.Now(),
		def: mirror.Definition{
			Name: "charts", UID: uid, Version: 1, Definition: upstream.Definition{Type: upstream.TypeHelm, URL: url},
		},
		guard: func() error { return nil },
	}
	f.Upstream = helmrepo.New(helmrepo.Params{
		Carriers: uploadpack.New(uploadpack.Config{Dir: t.TempDir(), Guard: dialguard.Guard{AllowLocal: !isGuarded}}),
		Mirrors:  store, MaxIndex: 1 << 20, TempDir: temporary, Logger: logger, Now: func() time.Time { return f.now },
	})
	return f
}

func (f *fixture) params() mirror.FetchParams {
	return mirror.FetchParams{
		Definition: f.def, Have: f.have, Epoch: 7, Guard: func() error { return f.guard() }, Received: func(bytes int) { f.received += bytes },
	}
}

// tryFetch polls.
func (f *fixture) tryFetch(t *testing.T) error {
	t.Helper()
	c, err := f.Fetch(t.Context(), f.params())
	if err == nil {
		f.have = c
	}
	return err
}

func (f *fixture) fetch(t *testing.T) {
	t.Helper()
	if err := f.tryFetch(t); err != nil {
		t.Fatal(err)
	}
}

// tryFill fetches the archives with those ids.
func (f *fixture) tryFill(t *testing.T, ids ...string) error {
	t.Helper()
	c, err := f.Fill(t.Context(), f.params(), ids)
	if err == nil {
		f.have = c
	}
	return err
}

func (f *fixture) fill(t *testing.T, ids ...string) {
	t.Helper()
	if err := f.tryFill(t, ids...); err != nil {
		t.Fatal(err)
	}
}

// wantRefs compares the delivered versions: chart/version → commit.
func (f *fixture) wantRefs(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, ref := range f.have.Refs {
		got[strings.TrimPrefix(ref.Name, mirror.TagPrefix)] = ref.Delivered()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
}

// wantText reads values.yaml of an artifact.
func (f *fixture) wantText(t *testing.T, id, want string) {
	t.Helper()
	r, err := f.store.Open(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file, err := r.File(t.Context(), id, "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(file)
	if err != nil || !strings.Contains(string(body), want) {
		t.Errorf("got %q (%v), want %q", body, err, want)
	}
}

func wantReason(t *testing.T, err error, want reason.Reason, words ...string) *mirror.UpstreamError {
	t.Helper()
	got, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || got.Reason != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("got the message %q, want it to have %q", got.Message, word)
		}
	}
	return got
}

// wantArtifact wants an error that is about one artifact alone, and not about the upstream.
func wantArtifact(t *testing.T, err error, want reason.Reason, words ...string) {
	t.Helper()
	got, ok := errors.AsType[*mirror.ArtifactError](err)
	if _, isUpstream := errors.AsType[*mirror.UpstreamError](err); !ok || isUpstream || got.Reason != want {
		t.Fatalf("got %v, want %s of an artifact", err, want)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("got the message %q, want it to have %q", got.Message, word)
		}
	}
}

// TestPollsAreConditional fetches an index that does not change with one small answer a poll, and one
// that does at once. A server that does not know is asked for all of it, and its hash decides.
func TestPollsAreConditional(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL()+"/", false)
	if err := f.Check(f.def); err != nil {
		t.Fatal(err)
	}
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": one})
	if !f.have.Partial || f.have.Epoch != 7 || f.received == 0 {
		t.Errorf("got %+v after %d bytes, want a partial mirror of this epoch", f.have, f.received)
	}
	fresh := f.have.FreshAt
	f.fetch(t)
	if s := repo.Stats(); s.Index != 2 || s.NotModified != 1 || s.Archives != 0 || !f.have.FreshAt.After(fresh) {
		t.Errorf("got %+v and fresh at %s, want the second poll answered with 304", s, f.have.FreshAt)
	}
	two := repo.Publish(t, "web", "1.1.0+build.5", charttest.Files("web", "1.1.0+build.5", "two"))
	api := repo.Publish(t, "api", "0.1.0", charttest.Files("api", "0.1.0", "api"))
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": one, "web/1.1.0+build.5": two, "api/0.1.0": api})
	f.have = mirror.Content{} // the mirror was found damaged
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": one, "web/1.1.0+build.5": two, "api/0.1.0": api})
	repo.Withdraw(t, "api", "0.1.0")
	repo.WithoutETag()
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": one, "web/1.1.0+build.5": two})
	before := f.have
	f.fetch(t)
	if !f.have.FreshAt.After(before.FreshAt) || !f.have.ChangedAt.Equal(before.ChangedAt) {
		t.Errorf("got %+v, want it found unchanged after %+v", f.have, before)
	}
	f.def.Charts = upstream.NewList([]string{"a*"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{})
}

// TestTimesAreTrustedOnceTheyHaveSettled sends a time back only where the file cannot have changed
// again within its second.
func TestTimesAreTrustedOnceTheyHaveSettled(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	repo.WithoutETag()
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	now := time.Now().UTC()
	var modified time.Time
	var asked []string
	repo.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		asked = append(asked, r.Header.Get("If-Modified-Since"))
		w.Header().Set("Date", now.Format(http.TimeFormat))
		w.Header().Set("Last-Modified", modified.Format(http.TimeFormat))
		if r.Header.Get("If-Modified-Since") == modified.Format(http.TimeFormat) {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
		return false
	})
	f := newFixture(t, repo.URL(), false)
	modified = now
	f.fetch(t)
	two := repo.Publish(t, "web", "2.0.0", charttest.Files("web", "2.0.0", "two")) // within the same second
	modified = now.Add(-time.Minute)
	f.fetch(t)
	f.fetch(t)
	if want := []string{"", "", modified.Format(http.TimeFormat)}; !slices.Equal(asked, want) {
		t.Errorf("got the conditions %q, want %q", asked, want)
	}
	if ref, _ := f.have.Refs.Get("refs/tags/web/2.0.0"); ref.Commit != two {
		t.Errorf("got %+v, want the version that was published within a second", f.have.Refs)
	}
}

// TestArchivesAreFetchedOnce fills twice, and after an outage serves what it has.
func TestArchivesAreFetchedOnce(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	two := repo.Publish(t, "web", "2.0.0", charttest.Files("web", "2.0.0", "two"))
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	f.fill(t, one, one, two)
	f.fill(t, two, one)
	f.wantText(t, one, "one")
	f.wantText(t, two, "two")
	if s := repo.Stats(); s.Archives != 2 || s.Index != 1 {
		t.Errorf("got %+v, want two archives", s)
	}
	repo.Stop()
	f.fill(t, one)
	f.wantText(t, one, "one")
	wantReason(t, f.tryFetch(t), reason.UpstreamUnreachable)
	wantArtifact(t, f.tryFill(t, strings.Repeat("a", 64)), reason.RefNotFound, "no longer lists")
	if err := f.tryFill(t, "not an id"); err == nil {
		t.Error("got no error for what is not an id")
	}
	if err := f.tryFill(t, one+":copy:a/b"); err == nil {
		t.Error("got no error for a layer of a chart")
	}
}

// TestCutDownloads leaves nothing of a download that broke off, and keeps what came whole before it.
func TestCutDownloads(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	two := repo.Publish(t, "web", "2.0.0", charttest.Files("web", "2.0.0", strings.Repeat("long ", 100)))
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	archives := 0
	repo.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			if archives++; archives == 2 {
				repo.CutArchives(100)
			}
		}
		return false
	})
	wantReason(t, f.tryFill(t, one, two), reason.UpstreamProtocol, "broke off")
	f.wantText(t, one, "one")
	repo.CutArchives(0)
	f.fill(t, one, two)
	f.wantText(t, two, "long")
	if s := repo.Stats(); s.Archives != 3 {
		t.Errorf("got %d requests for archives, want three", s.Archives)
	}
	// An index that breaks off is not an index with fewer charts.
	repo.Publish(t, "web", "3.0.0", charttest.Files("web", "3.0.0", "three"))
	repo.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "apiVersion: v1\nentries: {}\n")
		return true
	})
	wantReason(t, f.tryFetch(t), reason.UpstreamProtocol, "broke off")
}

// TestPublishedAgain follows a version with other content, unless the repository is immutable and the
// content before has been delivered.
func TestPublishedAgain(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	publish := func(version, text string) string {
		return repo.Publish(t, "web", version, charttest.Files("web", version, text))
	}
	first, other := publish("1.0.0", "first"), publish("2.0.0", "first")
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	f.fill(t, first)
	second := publish("1.0.0", "second")
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": second, "web/2.0.0": other})
	f.fill(t, second)
	f.wantText(t, second, "second")

	f.def.Immutable = true
	f.fetch(t)
	third, unseen := publish("1.0.0", "third"), publish("2.0.0", "third")
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": second, "web/2.0.0": unseen}) // the other one was never delivered
	held, _ := f.have.Refs.Get("refs/tags/web/1.0.0")
	if held.Commit != third || held.Held == "" {
		t.Errorf("got %+v, want it held back at %s", held, third)
	}
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": second, "web/2.0.0": unseen})
	publish("1.0.0", "fourth")
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": second, "web/2.0.0": unseen})
	f.wantText(t, second, "second")
	if got := publish("1.0.0", "second"); got != second {
		t.Fatalf("got %s, want the same archive again", got)
	}
	f.fetch(t)
	if ref, _ := f.have.Refs.Get("refs/tags/web/1.0.0"); ref.Held != "" || ref.Commit != second {
		t.Errorf("got %+v, want it delivered as it is", ref)
	}
	third = publish("1.0.0", "third")
	f.fetch(t)
	f.def.Immutable = false
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": third, "web/2.0.0": unseen})

	repo.Replace(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "fifth"))
	wantArtifact(t, f.tryFill(t, third), reason.UpstreamRepublished, third, "web-1.0.0.tgz")
}

// TestImmutableContentIsGone delivers nothing rather than other content where the first content was
// lost.
func TestImmutableContentIsGone(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	first := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "first"))
	f := newFixture(t, repo.URL(), false)
	f.def.Immutable = true
	f.fetch(t)
	f.fill(t, first)
	repo.Withdraw(t, "web", "1.0.0")
	f.fetch(t)
	f.damage(t)
	f.have = mirror.Content{}
	f.fetch(t) // finds the damage, and drops the artifact
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "second"))
	f.fetch(t)
	if ref, _ := f.have.Refs.Get("refs/tags/web/1.0.0"); ref.Held == "" || ref.Delivered() != "" {
		t.Errorf("got %+v, want it held back, with nothing delivered", ref)
	}
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "first"))
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": first})
	f.fill(t, first)
	f.wantText(t, first, "first")
}

// TestEntriesWithoutDigest are named by their text in the index, and keep the digest that their
// archive had the first time.
func TestEntriesWithoutDigest(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	repo.WithoutDigests()
	digest := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), false)
	f.def.Immutable = true
	f.fetch(t)
	ref, _ := f.have.Refs.Get("refs/tags/web/1.0.0")
	if len(ref.Commit) != 64 || ref.Commit == digest {
		t.Fatalf("got %+v, want an id that is not the digest", ref)
	}
	f.fill(t, ref.Commit)
	f.wantText(t, ref.Commit, "one")
	f.fetch(t)
	if again, _ := f.have.Refs.Get("refs/tags/web/1.0.0"); again != ref {
		t.Errorf("got %+v, want %+v: nothing has changed", again, ref)
	}
	// The index learns the digest: it is the archive that was delivered.
	repo.WithDigests()
	repo.WriteIndex(t)
	f.fetch(t)
	f.wantRefs(t, map[string]string{"web/1.0.0": digest})
}

// TestArchiveWithoutDigestChanges fetches an archive again without a digest in the index.
func TestArchiveWithoutDigestChanges(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	repo.WithoutDigests()
	repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	ref, _ := f.have.Refs.Get("refs/tags/web/1.0.0")
	f.fill(t, ref.Commit)
	f.damage(t)
	f.have = mirror.Content{}
	f.fetch(t) // finds the damage, and drops the artifact
	repo.Replace(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "two"))
	wantArtifact(t, f.tryFill(t, ref.Commit), reason.UpstreamRepublished)
	repo.Replace(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f.fill(t, ref.Commit)
	f.wantText(t, ref.Commit, "one")
}

// TestUnusableArchives reports the defect of an archive that came as it was announced. It is not
// the upstream's failure.
func TestUnusableArchives(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	bare := repo.Publish(t, "bare", "1.0.0", map[string]string{"values.yaml": "a: 1\n"})
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	wantArtifact(t, f.tryFill(t, bare), reason.ContentUnsupported, "Chart.yaml")
	repo.Replace(t, "bare", "1.0.0", map[string]string{"values.yaml": "a: 2\n"})
	wantArtifact(t, f.tryFill(t, bare), reason.UpstreamRepublished) // that it is another archive comes first
	if err := os.Remove(filepath.Join(repo.Dir(), "bare-1.0.0.tgz")); err != nil {
		t.Fatal(err)
	}
	wantArtifact(t, f.tryFill(t, bare), reason.RefNotFound, "/bare-1.0.0.tgz")
}

// TestUnusableIndexes keeps what the mirror held.
func TestUnusableIndexes(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	var many strings.Builder
	many.WriteString(`{"apiVersion":"v1","entries":{"web":[`)
	for i := range 20_000 {
		if i > 0 {
			many.WriteByte(',')
		}
		many.WriteString(`{"version":"1.0.` + strings.Repeat("1", 1+i%9) + `","urls":["a"]}`)
	}
	many.WriteString("]}}")
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"web page":  {"<html>Log in</html>", []string{"index.yaml cannot be used"}},
		"broken":    {"apiVersion: v1\nentries: [", []string{"index.yaml cannot be used"}},
		"registry":  {"apiVersion: v1\nentries:\n  web:\n  - {version: 1.0.0, urls: ['oci://r/web:1.0.0']}\n", []string{"web: version 1.0.0 lies in an OCI registry"}},
		"too large": {many.String() + strings.Repeat(" ", 1<<20), []string{"more than 1048576 bytes"}},
	} {
		repo.SetIndex(t, test.text)
		wantReason(t, f.tryFetch(t), reason.UpstreamProtocol, test.want...)
		f.wantRefs(t, map[string]string{"web/1.0.0": one})
		_ = name
	}
	for status, want := range map[int]reason.Reason{
		http.StatusNotFound: reason.RepositoryNotFound, http.StatusGone: reason.RepositoryNotFound,
		http.StatusForbidden: reason.UpstreamAuthRejected, http.StatusUnauthorized: reason.UpstreamAuthRejected,
		http.StatusBadGateway: reason.UpstreamUnreachable, http.StatusNoContent: reason.UpstreamProtocol,
		http.StatusBadRequest: reason.UpstreamProtocol, http.StatusPartialContent: reason.UpstreamProtocol,
	} {
		repo.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		})
		if got := wantReason(t, f.tryFetch(t), want); strings.Contains(got.Message, "Git") {
			t.Errorf("status %d: got %q, which is about Git", status, got.Message)
		}
	}
	f.wantRefs(t, map[string]string{"web/1.0.0": one})
}

// TestHostsAreSpared obeys 429, for all that is asked of the host.
func TestHostsAreSpared(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	asked := 0
	repo.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		asked++
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	if got := wantReason(t, f.tryFetch(t), reason.UpstreamRateLimited); got.RetryAfter != time.Minute {
		t.Errorf("got %s, want a minute", got.RetryAfter)
	}
	if _, ok := errors.AsType[*mirror.QuietError](f.tryFill(t, one)); !ok {
		t.Error("got no QuietError, want the host left alone")
	}
	if _, err := f.Enter(t.Context(), f.def); err == nil || asked != 1 {
		t.Errorf("got %v after %d requests, want it refused after one", err, asked)
	}
}

// TestGuard sends nothing once the right to fetch is gone.
func TestGuard(t *testing.T) {
	t.Parallel()
	repo := charttest.New(t)
	one := repo.Publish(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f := newFixture(t, repo.URL(), false)
	f.fetch(t)
	repo.ResetStats()
	lost := errors.New("lease lost")
	f.guard = func() error { return lost }
	if err := f.tryFetch(t); !errors.Is(err, lost) {
		t.Errorf("got %v, want the guard's error", err)
	}
	if err := f.tryFill(t, one); !errors.Is(err, lost) {
		t.Errorf("got %v, want the guard's error", err)
	}
	if s := repo.Stats(); s.Index+s.Archives != 0 {
		t.Errorf("got %+v, want no request", s)
	}
}
