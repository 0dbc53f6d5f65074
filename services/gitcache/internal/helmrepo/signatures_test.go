// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrepo_test

import (
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// newSignedFixture mirrors a repository whose charts have to be signed.
func newSignedFixture(t *testing.T, url string, signer *signtest.ChartSigner) *fixture {
	t.Helper()
	f := newFixture(t, url, false)
	f.def.Verification = upstream.Verification{Mode: upstream.ModeArtifact, ProvenanceKeys: signer.PublicKey(t)}
	if err := f.def.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// publish publishes a version of web, signed unless signer is nil.
func publish(t *testing.T, repo *charttest.Repo, version, text string, signer *signtest.ChartSigner) string {
	t.Helper()
	digest := repo.Publish(t, "web", version, charttest.Files("web", version, text))
	if signer != nil {
		repo.PublishProvenance(t, "web", version, signer.Sign(t, "web", version, repo.Archive(t, "web", version)))
	}
	return digest
}

// wantVersion resolves a version of web, and wants what it delivers: a digest, or nothing with
// words of the reason.
func (f *fixture) wantVersion(t *testing.T, version, want string, words ...string) {
	t.Helper()
	selector := mirror.Selector{Kind: mirror.SelectTag, Value: version, Within: mirror.ChartPrefix("web")}
	got, err := f.have.Resolve(selector)
	if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
		if f.have, err = f.Pin(t.Context(), f.params(), unpinned.Names); err != nil {
			t.Fatal(err)
		}
		got, err = f.have.Resolve(selector)
	}
	if got != want || (want == "") != (err != nil) {
		t.Errorf("%s: got %q (%v), want %q", version, got, err, want)
	}
	ref, _ := f.have.Refs.Get(mirror.ChartPrefix("web") + version)
	for _, word := range words {
		if !strings.Contains(ref.Held, word) {
			t.Errorf("%s: got it held for %q, want that to have %q", version, ref.Held, word)
		}
	}
}

// TestProvenance delivers signed versions only, and asks for each provenance file when its version is
// first resolved.
func TestProvenance(t *testing.T) {
	t.Parallel()
	repo, mine, other := charttest.New(t), signtest.NewChartSigner(t), signtest.NewChartSigner(t)
	signed := publish(t, repo, "1.0.0", "signed", mine)
	publish(t, repo, "2.0.0", "by another", other)
	late := publish(t, repo, "3.0.0", "not yet", nil)
	publish(t, repo, "4.0.0", "before", mine)
	replaced := publish(t, repo, "4.0.0", "after", nil) // the provenance file is the former one
	f := newSignedFixture(t, repo.URL(), mine)
	f.fetch(t)
	if s := repo.Stats(); s.Provenances != 0 {
		t.Errorf("got %+v, want no provenance file before somebody resolves", s)
	}
	f.wantRefs(t, map[string]string{"web/1.0.0": "", "web/2.0.0": "", "web/3.0.0": "", "web/4.0.0": ""})
	f.wantVersion(t, "1.0.0", signed)
	f.wantVersion(t, "2.0.0", "", "may not sign here")
	f.wantVersion(t, "3.0.0", "", "has no provenance file by a key of provenance_keys")
	f.wantVersion(t, "4.0.0", "", "names another archive")
	if s := repo.Stats(); s.Provenances != 4 || s.Archives != 0 {
		t.Errorf("got %+v, want one request for each version", s)
	}
	f.fill(t, signed)
	f.wantText(t, signed, "signed")
	repo.ResetStats()
	f.wantVersion(t, "1.0.0", signed)
	before := f.have
	f.fetch(t)
	if s := repo.Stats(); s.Index != 1 || s.NotModified != 1 || s.Provenances != 3 {
		t.Errorf("got %+v of a poll, want one request for the index, and one for each missing signature", s)
	}
	if changed := before.Changed(f.have); len(changed) != 0 {
		t.Errorf("got %q changed, want nothing", changed)
	}

	// Signatures arrive, while the index stays as it is.
	repo.PublishProvenance(t, "web", "3.0.0", mine.Sign(t, "web", "3.0.0", repo.Archive(t, "web", "3.0.0")))
	repo.PublishProvenance(t, "web", "4.0.0", mine.Sign(t, "web", "4.0.0", repo.Archive(t, "web", "4.0.0")))
	f.now = f.now.Add(2 * time.Hour)
	before = f.have
	f.fetch(t)
	if changed := before.Changed(f.have); !strings.Contains(strings.Join(changed, " "), "refs/tags/web/3.0.0 refs/tags/web/4.0.0") {
		t.Errorf("got %q changed, want the versions that have been signed", changed)
	}
	f.wantVersion(t, "3.0.0", late)
	f.wantVersion(t, "4.0.0", replaced)

	// A version is published again: unsigned first, and then signed.
	again := publish(t, repo, "1.0.0", "again", nil)
	f.fetch(t)
	f.wantVersion(t, "1.0.0", signed, "names another archive")
	repo.PublishProvenance(t, "web", "1.0.0", mine.Sign(t, "web", "1.0.0", repo.Archive(t, "web", "1.0.0")))
	f.now = f.now.Add(2 * time.Hour)
	f.fetch(t)
	f.wantVersion(t, "1.0.0", again)

	f.def.Verification = upstream.Verification{}
	f.fetch(t)
	if f.have.Policy != "" {
		t.Errorf("got the policy %q, want none", f.have.Policy)
	}
	for _, ref := range f.have.Refs {
		if ref.Held != "" {
			t.Errorf("got %+v without a verification", ref)
		}
	}
}

// TestRequestedFetchesAskAgain publishes a provenance file late. A poll waits for its time, and a
// requested fetch asks at once, although the index is the same.
func TestRequestedFetchesAskAgain(t *testing.T) {
	t.Parallel()
	repo, mine := charttest.New(t), signtest.NewChartSigner(t)
	late := publish(t, repo, "1.0.0", "not yet", nil)
	f := newSignedFixture(t, repo.URL(), mine)
	f.fetch(t)
	f.wantVersion(t, "1.0.0", "", "has no provenance file")
	f.now = f.now.Add(time.Hour)
	f.fetch(t)
	repo.PublishProvenance(t, "web", "1.0.0", mine.Sign(t, "web", "1.0.0", repo.Archive(t, "web", "1.0.0")))
	f.now = f.now.Add(time.Second)
	f.fetch(t)
	f.wantVersion(t, "1.0.0", "", "has no provenance file")
	p := f.params()
	p.IsRequested = true
	var err error
	if f.have, err = f.Fetch(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	f.wantVersion(t, "1.0.0", late)
}

// TestProvenanceWithoutDigests lets the provenance file decide which archive an entry without a
// digest has.
func TestProvenanceWithoutDigests(t *testing.T) {
	t.Parallel()
	repo, signer := charttest.New(t), signtest.NewChartSigner(t)
	repo.WithoutDigests()
	publish(t, repo, "1.0.0", "one", signer)
	f := newSignedFixture(t, repo.URL(), signer)
	f.fetch(t)
	id := f.have.Refs[0].Commit
	f.wantVersion(t, "1.0.0", id)
	repo.Replace(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "another"))
	wantArtifact(t, f.tryFill(t, id), reason.UpstreamRepublished)
	repo.Replace(t, "web", "1.0.0", charttest.Files("web", "1.0.0", "one"))
	f.fill(t, id)
	f.wantText(t, id, "one")
}

// TestImmutableProvenance holds back other content, however well that is signed.
func TestImmutableProvenance(t *testing.T) {
	t.Parallel()
	repo, signer := charttest.New(t), signtest.NewChartSigner(t)
	first := publish(t, repo, "1.0.0", "first", signer)
	f := newSignedFixture(t, repo.URL(), signer)
	f.def.Immutable = true
	f.fetch(t)
	f.wantVersion(t, "1.0.0", first)
	f.fill(t, first)
	publish(t, repo, "1.0.0", "second", signer)
	f.fetch(t)
	f.wantVersion(t, "1.0.0", first, mirror.Republished)
}

// TestSecHostileProvenanceServers bounds the reading, and takes no failure for a signature.
func TestSecHostileProvenanceServers(t *testing.T) {
	t.Parallel()
	repo, signer := charttest.New(t), signtest.NewChartSigner(t)
	good := publish(t, repo, "1.0.0", "one", signer)
	provenance := string(signer.Sign(t, "web", "1.0.0", repo.Archive(t, "web", "1.0.0")))
	f := newSignedFixture(t, repo.URL(), signer)
	f.fetch(t)
	answer := func(handle func(w http.ResponseWriter)) {
		repo.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if path.Ext(r.URL.Path) != ".prov" {
				return false
			}
			handle(w)
			return true
		})
	}
	names := []string{"refs/tags/web/1.0.0"}
	for status, want := range map[int]reason.Reason{
		http.StatusBadGateway: reason.UpstreamUnreachable, http.StatusUnauthorized: reason.UpstreamAuthRejected,
		http.StatusNoContent: reason.UpstreamProtocol,
	} {
		answer(func(w http.ResponseWriter) { w.WriteHeader(status) })
		_, err := f.Pin(t.Context(), f.params(), names)
		wantReason(t, err, want)
	}
	for _, body := range []string{"", "<html>", strings.Repeat("x", 1<<20), provenance + strings.Repeat("\nfiles: {}", 10)} {
		fresh := newSignedFixture(t, repo.URL(), signer)
		answer(func(w http.ResponseWriter) { _, _ = io.WriteString(w, body) })
		fresh.fetch(t)
		fresh.wantVersion(t, "1.0.0", "", "has no provenance file")
	}
	for _, status := range []int{http.StatusNotFound, http.StatusGone, http.StatusForbidden} {
		fresh := newSignedFixture(t, repo.URL(), signer)
		answer(func(w http.ResponseWriter) { w.WriteHeader(status) })
		fresh.fetch(t)
		fresh.wantVersion(t, "1.0.0", "", "has no provenance file")
	}
	repo.Intercept(nil)
	f.wantVersion(t, "1.0.0", good)

	gone := errors.New("lease lost")
	f = newSignedFixture(t, repo.URL(), signer)
	f.fetch(t)
	repo.ResetStats()
	f.guard = func() error { return gone }
	if _, err := f.Pin(t.Context(), f.params(), names); !errors.Is(err, gone) || repo.Stats().Provenances != 0 {
		t.Errorf("got %v and %+v, want the lease's error and no request", err, repo.Stats())
	}
}
