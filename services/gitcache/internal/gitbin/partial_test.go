// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// partial is a back end with the mirror of one repository.
type partial struct {
	*gitbin.Git
	dir  string
	repo *gittest.Repo
	def  mirror.Definition
	have mirror.Content
}

func newPartial(t *testing.T, server *gittest.Server) *partial {
	t.Helper()
	repo := server.Repo(t, "demo")
	repo.Git(t, "config", "uploadpack.allowFilter", "true")
	p := &partial{dir: t.TempDir(), repo: repo, def: mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL(), PartialClone: true}}}
	p.reopen(t)
	return p
}

func (p *partial) reopen(t *testing.T) {
	t.Helper()
	g, err := gitbin.New(gitbin.Config{Dir: p.dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p.Git = g
}

func (p *partial) params(guard func() error) mirror.FetchParams {
	return mirror.FetchParams{Definition: p.def, Have: p.have, Epoch: 1, Guard: guard}
}

func (p *partial) fetch(t *testing.T) {
	t.Helper()
	c, err := p.Fetch(t.Context(), p.params(allowed))
	if err != nil {
		t.Fatal(err)
	}
	p.have = c
}

func (p *partial) fill(t *testing.T, ids ...string) {
	t.Helper()
	c, err := p.Fill(t.Context(), p.params(allowed), ids)
	if err != nil {
		t.Fatal(err)
	}
	p.have = c
}

// blob is the id of what a revision holds at a path.
func (p *partial) blob(t *testing.T, at string) string {
	t.Helper()
	return strings.TrimSpace(p.repo.Git(t, "rev-parse", at))
}

// open returns a reader, which is closed with the test.
func (p *partial) open(t *testing.T) content.Reader {
	t.Helper()
	r, err := p.Open(t.Context(), p.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// read returns a file; absent means that a partial mirror lacks it.
func (p *partial) read(t *testing.T, commit, path string) (text string, absent bool) {
	t.Helper()
	r, err := p.Open(t.Context(), p.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	f, err := r.File(t.Context(), commit, path)
	if lacks, ok := errors.AsType[*content.AbsentError](err); ok && len(lacks.IDs) == 1 {
		return "", true
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), false
}

func (p *partial) wantAbsent(t *testing.T, commit string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if text, absent := p.read(t, commit, path); !absent {
			t.Errorf("got %q at %s, want it absent", text, path)
		}
	}
}

func (p *partial) wantFile(t *testing.T, commit, path, want string) {
	t.Helper()
	if got, absent := p.read(t, commit, path); got != want || absent {
		t.Errorf("got %q (absent %v) at %s, want %q", got, absent, path, want)
	}
}

// TestPartialClone mirrors history and trees alone, reads them, and adds the content of files when
// it is asked for.
func TestPartialClone(t *testing.T) {
	t.Parallel()
	p := newPartial(t, gittest.New(t))
	files := map[string]string{
		"app/a": "1\n", "app/deep/b": "2\n", "other/c": "3\n", ".gitattributes": "* text\n",
		".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ../x\n",
	}
	first := p.repo.Commit(t, "main", files)
	second := p.repo.Commit(t, "main", map[string]string{"app/a": "4\n"})
	p.repo.AnnotatedTag(t, "v1", "main")
	p.fetch(t)
	if !p.have.Partial || p.have.Head != second {
		t.Errorf("got partial %v at %s, want a partial mirror at %s", p.have.Partial, p.have.Head, second)
	}
	for path := range files {
		p.wantAbsent(t, second, path)
	}
	r := p.open(t)
	log, err := r.Log(t.Context(), content.LogParams{From: second, Path: "app", Limit: 10})
	if err != nil || len(log.Commits) != 2 {
		t.Errorf("got %d commits, %v, want both", len(log.Commits), err)
	}
	changes, err := r.Compare(t.Context(), content.CompareParams{Base: first, Head: second, Limit: 10})
	if diff := cmp.Diff([]content.Change{{Path: "app/a", Kind: content.Modified}}, changes); diff != "" {
		t.Errorf("changes (-want +got, %v):\n%s", err, diff)
	}

	a, b, c := p.blob(t, "main:app/a"), p.blob(t, "main:app/deep/b"), p.blob(t, "main:other/c")
	absent, err := r.Absent(t.Context(), []string{a, b, a})
	if err != nil || len(absent) != 2 {
		t.Errorf("got %v, %v absent, want two", absent, err)
	}
	p.repo.ResetStats()
	for range 2 { // the second time there is nothing to do
		p.fill(t, a, b)
	}
	if got := p.repo.Stats().Fetches; got != 1 {
		t.Errorf("got %d requests for two blobs, twice, want one", got)
	}
	p.wantFile(t, second, "app/a", "4\n")
	p.wantFile(t, second, "app/deep/b", "2\n")
	p.wantAbsent(t, second, "other/c")

	third := p.repo.Commit(t, "main", map[string]string{"app/a": "5\n"})
	filled := p.have.FilledAt
	p.fetch(t)
	if filled.IsZero() || !p.have.FilledAt.Equal(filled) {
		t.Errorf("got filled at %v after a fetch, want %v as before", p.have.FilledAt, filled)
	}
	p.wantAbsent(t, third, "app/a", "other/c")
	p.wantFile(t, third, "app/deep/b", "2\n")
	p.reopen(t)
	loaded, err := p.Load(t.Context(), p.def.UID)
	if err != nil || loaded.Fingerprint() != p.have.Fingerprint() || !loaded.Partial {
		t.Errorf("got %+v, %v after a restart, want %+v", loaded, err, p.have)
	}
	p.wantFile(t, second, "app/a", "4\n")
	p.fill(t, c)
	if p.have.Fingerprint() == loaded.Fingerprint() {
		t.Error("got the same fingerprint with more content, so that followers would not copy it")
	}
}

// TestPartialCloneIsSwitched gets what lacks from an upstream when the mirror shall be whole, and
// serves meanwhile what it had.
func TestPartialCloneIsSwitched(t *testing.T) {
	t.Parallel()
	p := newPartial(t, gittest.New(t))
	commit := p.repo.Commit(t, "main", map[string]string{"a": "1\n", "b": "2\n"})
	p.fetch(t)
	p.fill(t, p.blob(t, "main:a"))
	before := p.open(t)
	p.def.PartialClone = false
	p.fetch(t)
	p.wantFile(t, commit, "b", "2\n")
	if f, err := before.File(t.Context(), commit, "a"); err != nil || f.Size != 2 {
		t.Errorf("got %v from a reader that was open, want it to go on", err)
	}
	if p.have.Partial || !p.have.FilledAt.IsZero() {
		t.Errorf("got %+v, want a whole mirror", p.have)
	}
	p.def.PartialClone = true
	p.fetch(t)
	p.wantAbsent(t, commit, "a", "b")
}

// TestPartialCloneTakesAFilter mirrors everything from an upstream that cannot leave content out,
// and once only.
func TestPartialCloneTakesAFilter(t *testing.T) {
	t.Parallel()
	p := newPartial(t, gittest.New(t))
	p.repo.Git(t, "config", "uploadpack.allowFilter", "false")
	commit := p.repo.Commit(t, "main", map[string]string{"a": "1\n"})
	p.fetch(t)
	p.fetch(t)
	p.wantFile(t, commit, "a", "1\n")
	if got := p.repo.Stats().Fetches; p.have.Partial || got != 1 {
		t.Errorf("got partial %v after %d fetches, want a whole mirror after one", p.have.Partial, got)
	}
	p.repo.Git(t, "config", "uploadpack.allowFilter", "true")
	p.fetch(t)
	p.wantAbsent(t, commit, "a")
}

// TestFillAsksTheGuard loses the lease while blobs arrive.
func TestFillAsksTheGuard(t *testing.T) {
	t.Parallel()
	p := newPartial(t, gittest.New(t))
	p.repo.Commit(t, "main", map[string]string{"a": "1\n"})
	p.fetch(t)
	p.repo.ResetStats()
	gone := errors.New("lease is gone")
	_, err := p.Fill(t.Context(), p.params(func() error { return gone }), []string{p.blob(t, "main:a")})
	if stats := p.repo.Stats(); !errors.Is(err, gone) || stats.Refs+stats.Fetches > 0 {
		t.Errorf("got %v and %+v without the lease, want nothing sent", err, stats)
	}
	_, err = p.Fill(t.Context(), p.params(func() error {
		if p.repo.Stats().Fetches > 0 {
			return gone
		}
		return nil
	}), []string{p.blob(t, "main:a")})
	loaded, failed := p.Load(t.Context(), p.def.UID)
	if !errors.Is(err, gone) || failed != nil || !loaded.FilledAt.IsZero() {
		t.Errorf("got %v, then filled at %v (%v), want the guard's error and nothing that counts", err, loaded.FilledAt, failed)
	}
}

// TestFillOfUnknownBlobs is the upstream's failure.
func TestFillOfUnknownBlobs(t *testing.T) {
	t.Parallel()
	p := newPartial(t, gittest.New(t))
	p.repo.Commit(t, "main", map[string]string{"a": "1\n"})
	p.fetch(t)
	_, err := p.Fill(t.Context(), p.params(allowed), []string{strings.Repeat("1", 40)})
	if _, ok := errors.AsType[*mirror.UpstreamError](err); !ok {
		t.Errorf("got %v, want a failure of the upstream", err)
	}
}

// TestPartialCloneWantsAllTrees meets a server that leaves out more than it was asked to.
func TestPartialCloneWantsAllTrees(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	p := newPartial(t, server)
	var greedy atomic.Bool
	p.def.URL = strings.Replace(p.def.URL, server.URL(), leaveOutTrees(t, server.URL(), &greedy), 1)
	for i := range 2 { // a clone, then a fetch
		commit := p.repo.Commit(t, "main", map[string]string{"app/a": strings.Repeat("1\n", i+1)})
		greedy.Store(true)
		for range 2 { // what came first must not be taken for complete
			_, err := p.Fetch(t.Context(), p.params(allowed))
			if failed, ok := errors.AsType[*mirror.UpstreamError](err); !ok || failed.Reason != reason.UpstreamProtocol {
				t.Errorf("got %v, want a broken protocol", err)
			}
		}
		greedy.Store(false)
		p.fetch(t)
		p.wantAbsent(t, commit, "app/a")
	}
}

// leaveOutTrees is a proxy before a server, and asks it for less than it is asked for itself.
func leaveOutTrees(t *testing.T, server string, greedy *atomic.Bool) (address string) {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Error(err)
		}
		if greedy.Load() {
			body = bytes.Replace(body, []byte("filter blob:none"), []byte("filter tree:0000"), 1)
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// TestPartialMirrorIsCompacted keeps what was added through merges of packs.
func TestPartialMirrorIsCompacted(t *testing.T) {
	t.Parallel()
	p := newPartial(t, gittest.New(t))
	files := map[string]string{}
	for i := range 24 {
		files[fmt.Sprintf("f%d", i)] = fmt.Sprintf("%d\n", i)
	}
	files["never"] = "asked for\n"
	commit := p.repo.Commit(t, "main", files)
	p.fetch(t)
	for i := range 24 {
		p.fill(t, p.blob(t, fmt.Sprintf("main:f%d", i)))
	}
	done, err := p.Compact(t.Context(), p.def.UID, func(context.Context) (func(), error) { return func() {}, nil })
	if err != nil || done.PacksBefore != 25 || done.PacksAfter >= 10 {
		t.Fatalf("got %+v, %v, want fewer packs", done, err)
	}
	loaded, err := p.Load(t.Context(), p.def.UID)
	if err != nil || loaded.Fingerprint() != p.have.Fingerprint() {
		t.Errorf("got %+v, %v, want %+v", loaded, err, p.have)
	}
	for i := range 24 {
		p.wantFile(t, commit, fmt.Sprintf("f%d", i), fmt.Sprintf("%d\n", i))
	}
	p.wantAbsent(t, commit, "never")
}
