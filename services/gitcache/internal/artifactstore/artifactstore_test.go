// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/artifactstore"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const uid = "uid-1"

func digest(text string) string { return strings.Repeat("0", 64-len(text)) + text }

func allowed() error { return nil }

// subject is a store with one mirror.
type subject struct {
	*artifactstore.Store
	dir  string
	have mirror.Content
}

func open(t *testing.T, dir string, change ...func(*artifactstore.Params)) *subject {
	t.Helper()
	p := artifactstore.Params{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range change {
		change(&p)
	}
	s, err := artifactstore.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return &subject{Store: s, dir: dir}
}

func (s *subject) params() mirror.FetchParams {
	return mirror.FetchParams{Definition: mirror.Definition{Name: "web", UID: uid}, Have: s.have, Epoch: 7, Guard: allowed}
}

// accept makes the tags lead to their digests.
func (s *subject) accept(t *testing.T, memo string, tags map[string]string) {
	t.Helper()
	var refs []mirror.Ref
	for name, d := range tags {
		refs = append(refs, mirror.Ref{Name: mirror.TagPrefix + name, Object: d, Commit: d})
	}
	var write func(io.Writer) error
	if memo != "" {
		write = func(w io.Writer) error { _, err := io.WriteString(w, memo); return err }
	}
	c, err := s.Accept(t.Context(), s.params(), mirror.Content{Refs: mirror.NewRefs(refs)}, write)
	if err != nil {
		t.Fatal(err)
	}
	s.have = c
}

// keep stores an artifact of name → content, in an order that is not theirs.
func (s *subject) keep(t *testing.T, id artifact.ID, files map[string]string) error {
	t.Helper()
	staged, err := s.Stage(t.Context(), uid, id, func(sink artifact.Sink) error {
		for name, text := range files {
			e := bundle.Entry{Name: name, Size: int64(len(text)), Executable: strings.HasPrefix(text, "#!")}
			if target, ok := strings.CutPrefix(text, "-> "); ok {
				e = bundle.Entry{Name: name, Target: target}
			}
			if err := sink.Add(e, strings.NewReader(text)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer staged.Discard()
	return staged.Keep()
}

func (s *subject) amend(t *testing.T) {
	t.Helper()
	c, err := s.Amend(s.params(), s.have, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.have = c
}

// files reads all that an artifact holds.
func (s *subject) files(t *testing.T, commit string) (map[string]string, error) {
	t.Helper()
	r, err := s.Open(t.Context(), uid)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	tree, err := r.Tree(t.Context(), commit, "")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	return all, readTree(t.Context(), r, tree, "", all)
}

func readTree(ctx context.Context, r content.Reader, tree, prefix string, into map[string]string) error {
	entries, err := r.List(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			if err := readTree(ctx, r, e.ID, prefix+e.Name+"/", into); err != nil {
				return err
			}
			continue
		}
		text, err := readBlob(ctx, r, e.ID)
		if err != nil {
			return err
		}
		if e.Kind == content.KindSymlink {
			text = "-> " + text
		}
		into[prefix+e.Name] = text
	}
	return nil
}

func readBlob(ctx context.Context, r content.Reader, id string) (string, error) {
	f, err := r.Blob(ctx, id)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(f)
	if err == nil && int64(len(data)) != f.Size {
		err = fmt.Errorf("got %d bytes, want %d", len(data), f.Size)
	}
	return string(data), errors.Join(err, f.Close())
}

var (
	web    = artifact.ID{Digest: digest("1")}
	layer  = artifact.ID{Digest: digest("1"), Layer: artifact.Layer{Files: true}}
	chart  = map[string]string{"Chart.yaml": "name: web", "templates/a.yaml": "a", "templates/b.yaml": "a", "run": "#!/bin/sh", "x": "-> run", "e": ""}
	single = map[string]string{"module.wasm": strings.Repeat("wasm", 1000)}
)

// filled returns a subject with two artifacts and a memo.
func filled(t *testing.T) *subject {
	t.Helper()
	s := open(t, t.TempDir())
	s.accept(t, "etag", map[string]string{"1.0.0": web.Digest})
	if err := errors.Join(s.keep(t, web, chart), s.keep(t, layer, single)); err != nil {
		t.Fatal(err)
	}
	s.amend(t)
	return s
}

func (s *subject) wantAll(t *testing.T) {
	t.Helper()
	for id, want := range map[artifact.ID]map[string]string{web: chart, layer: single} {
		got, err := s.files(t, id.String())
		if diff := cmp.Diff(want, got); diff != "" || err != nil || !s.Has(uid, id) {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	memo, err := s.Memo(uid)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(memo)
	if err = errors.Join(err, memo.Close()); err != nil || string(text) != "etag" {
		t.Errorf("got the memo %q (%v)", text, err)
	}
}

func TestReadsWhatWasKept(t *testing.T) {
	t.Parallel()
	s := filled(t)
	s.wantAll(t)
	if !s.have.Partial || s.have.Packs != 2 || s.have.DiskBytes == 0 || s.have.Epoch != 7 || s.have.FilledAt.IsZero() {
		t.Errorf("got %+v", s.have)
	}
	_, err := s.files(t, digest("2"))
	if absent, ok := errors.AsType[*content.AbsentError](err); !ok || !slices.Equal(absent.IDs, []string{digest("2")}) {
		t.Errorf("got %v, want the artifact absent", err)
	}
	if _, err := s.files(t, "main"); !errors.Is(err, content.ErrCommitNotFound) {
		t.Errorf("got %v, want no commit of that name", err)
	}
	r, err := s.Open(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if f, err := r.File(t.Context(), web.Digest, "templates/a.yaml"); err != nil || f.Size != 1 {
		t.Errorf("got %v (%v)", f.Size, err)
	}
	if _, err := r.File(t.Context(), web.Digest, "templates"); !errors.Is(err, content.ErrPathNotFound) {
		t.Errorf("got %v, want no file", err)
	}
	if _, err := r.Tree(t.Context(), web.Digest, "run"); !errors.Is(err, content.ErrPathNotFound) {
		t.Errorf("got %v, want no folder", err)
	}
	changes, err := r.Compare(t.Context(), content.CompareParams{Base: web.String(), Head: layer.String(), Limit: 100})
	if err != nil || len(changes) != 7 || changes[2] != (content.Change{Path: "module.wasm", Kind: content.Added}) {
		t.Errorf("got %v (%v)", changes, err)
	}
	if id, err := r.Expand(t.Context(), digest("1")[:10]); err != nil || id != web.Digest {
		t.Errorf("got %s (%v)", id, err)
	}
	if log, err := r.Log(t.Context(), content.LogParams{From: web.Digest, Limit: 5}); err != nil || len(log.Commits) != 1 || log.Next != 0 {
		t.Errorf("got %v (%v)", log, err)
	}
}

// TestBlobsOfAnotherReader opens content by its id alone, in any order.
func TestBlobsOfAnotherReader(t *testing.T) {
	t.Parallel()
	s := filled(t)
	ids := map[string]string{}
	first, err := s.Open(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := first.Tree(t.Context(), web.Digest, "")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := first.List(t.Context(), tree)
	if err = errors.Join(err, first.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, e := range slices.Backward(entries) {
		if e.Kind != content.KindFolder {
			if ids[e.Name], err = readBlob(t.Context(), r, e.ID); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"Chart.yaml": "name: web", "run": "#!/bin/sh", "x": "run", "e": ""}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := r.Blob(t.Context(), digest("9")); !errors.Is(err, content.ErrDamaged) {
		t.Errorf("got %v of an id that nothing has", err)
	}
}

// TestAnotherTextIsNoChange accepts the same refs again, as from a server that writes its index again at
// each request.
func TestAnotherTextIsNoChange(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	s.accept(t, "one", map[string]string{"1.0": digest("a")})
	first := s.have
	s.accept(t, "two", map[string]string{"1.0": digest("a")})
	if !s.have.ChangedAt.Equal(first.ChangedAt) || !s.have.FreshAt.After(first.FreshAt) {
		t.Errorf("got a change at %v, fresh at %v; want that of %v, and fresh later", s.have.ChangedAt, s.have.FreshAt, first.ChangedAt)
	}
	s.accept(t, "three", map[string]string{"1.0": digest("b")})
	if !s.have.ChangedAt.After(first.ChangedAt) {
		t.Errorf("a ref moved: got a change at %v, want a later one than %v", s.have.ChangedAt, first.ChangedAt)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := filled(t)
	if err := s.Confirm(t.Context(), uid, mirror.Content{FreshAt: s.have.FreshAt.Add(time.Hour), Epoch: 8}); err != nil {
		t.Fatal(err)
	}
	// Files that a crash leaves do not count.
	for _, name := range []string{"tmp-1", "art-" + digest("5") + ".zst"} {
		if err := os.WriteFile(filepath.Join(s.dir, uid, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, s.dir)
	if !again.Holds(uid) || again.Stored()[0].Bytes == 0 {
		t.Errorf("got %v before loading", again.Stored())
	}
	c, err := again.Load(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	want := s.have
	want.FreshAt, want.Epoch = want.FreshAt.Add(time.Hour), 8
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again.wantAll(t)
	if entries, _ := os.ReadDir(filepath.Join(s.dir, uid)); len(entries) != 5 {
		t.Errorf("got %v, want state, freshness, memo and two artifacts", entries)
	}
	if err := again.Remove(t.Context(), uid); err != nil || again.Holds(uid) {
		t.Error("not removed", err)
	}
	if _, err := again.Load(t.Context(), uid); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want no mirror", err)
	}
}

// TestDamage finds it when content is read, and drops damaged files when the mirror is fetched from
// the beginning.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := filled(t)
	path := filepath.Join(s.dir, uid, "art-"+web.Digest+".zst")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) - 1; i > 20; i -= 7 {
		bad := bytes.Clone(data)
		bad[i] ^= 0x10
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		fresh := open(t, s.dir)
		if _, err := fresh.Load(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
		if got, err := fresh.files(t, web.String()); err != nil && !errors.Is(err, content.ErrDamaged) || err == nil && !cmp.Equal(got, chart) {
			t.Fatalf("byte %d: got %v (%v), want damage found", i, got, err)
		}
	}
	again := open(t, s.dir)
	if _, err := again.Load(t.Context(), uid); err != nil {
		t.Fatal(err)
	}
	again.accept(t, "", map[string]string{"1.0.0": web.Digest})
	if again.Has(uid, web) || !again.Has(uid, layer) {
		t.Errorf("got %t, %t, want the damaged artifact alone dropped", again.Has(uid, web), again.Has(uid, layer))
	}
	// A file that lost bytes is left out, and the others stay.
	if err := os.Truncate(filepath.Join(s.dir, uid, onlyArtifact(t, s.dir)), 10); err != nil {
		t.Fatal(err)
	}
	if c, err := again.Load(t.Context(), uid); err != nil || c.Packs != 0 {
		t.Errorf("got %+v (%v), want the mirror without the artifact", c, err)
	}
}

func onlyArtifact(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, uid, "art-*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got %v (%v), want one", names, err)
	}
	return filepath.Base(names[0])
}

func TestNothingWithoutTheRight(t *testing.T) {
	t.Parallel()
	s := filled(t)
	before, gone := s.have, errors.New("lease lost")
	p := s.params()
	p.Guard = func() error { return gone }
	_, errAccept := s.Accept(t.Context(), p, mirror.Content{}, nil)
	_, errAmend := s.Amend(p, mirror.Content{}, nil)
	_, errUnchanged := s.Unchanged(p)
	if !errors.Is(errAccept, gone) || !errors.Is(errAmend, gone) || !errors.Is(errUnchanged, gone) {
		t.Errorf("got %v, %v, %v", errAccept, errAmend, errUnchanged)
	}
	again := open(t, s.dir)
	if c, err := again.Load(t.Context(), uid); err != nil || !cmp.Equal(c, before) {
		t.Errorf("got %+v (%v), want %+v", c, err, before)
	}
}

// TestRefusedArtifactsLeaveNothing holds added artifacts to the limits of bundles.
func TestRefusedArtifactsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), func(p *artifactstore.Params) { p.Limits = bundle.Limits{Bytes: 100, Files: 2, FileBytes: 60} })
	s.accept(t, "", map[string]string{"1.0.0": web.Digest})
	for name, files := range map[string]map[string]string{
		"too many": {"1": "", "2": "", "3": ""}, "too long": {"1": strings.Repeat("x", 61)}, "climbs": {"../x": ""},
		"too much": {"1": strings.Repeat("x", 60), "2": strings.Repeat("x", 60)}, "below a file": {"a": "", "a/b": ""}, "link out": {"l": "-> ../x"},
	} {
		if _, ok := errors.AsType[*mirror.ArtifactError](artifact.Unusable(s.keep(t, web, files))); !ok || s.Has(uid, web) {
			t.Errorf("%s: got no error, or it was kept", name)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(s.dir, uid)); len(entries) != 1 {
		t.Errorf("got %v, want the state alone", entries)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	others := int64(0)
	s := open(t, t.TempDir(), func(p *artifactstore.Params) { p.DiskBytes, p.Others = 4096, func() int64 { return others } })
	s.accept(t, "etag", map[string]string{"1.0.0": web.Digest})
	if err := s.keep(t, web, chart); err != nil {
		t.Fatal(err)
	}
	others = 4000
	err := s.keep(t, layer, single)
	if full, ok := errors.AsType[*mirror.UpstreamError](err); !ok || full.Reason != reason.StorageFull || s.Has(uid, layer) {
		t.Errorf("got %v, want the disk full", err)
	}
	others = 0
	if err := s.keep(t, layer, single); err != nil {
		t.Error(err)
	}
	s.amend(t)
	s.wantAll(t)
}

// copyOf copies a mirror to another replica, and returns the names of what was sent.
func copyOf(t *testing.T, from, to *subject, change func(*mirror.Copy), tamper func(name string, body []byte) []byte) ([]string, error) {
	t.Helper()
	generation, files, err := from.Export(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	c := mirror.Copy{Fingerprint: from.have.Fingerprint(), Content: from.have, Generation: generation, Files: files}
	if change != nil {
		change(&c)
	}
	var sent []string
	adopted, err := to.Adopt(t.Context(), uid, c, func(ctx context.Context, f mirror.File) (io.ReadCloser, error) {
		body, err := from.OpenFile(ctx, uid, generation, f.Name)
		if err != nil {
			return nil, err
		}
		sent = append(sent, f.Name)
		data, err := io.ReadAll(body)
		if tamper != nil {
			data = tamper(f.Name, data)
		}
		return io.NopCloser(bytes.NewReader(data)), errors.Join(err, body.Close())
	})
	if err == nil {
		to.have = adopted
	}
	return sent, err
}

func TestCopies(t *testing.T) {
	t.Parallel()
	owner, follower := filled(t), open(t, t.TempDir())
	if sent, err := copyOf(t, owner, follower, nil, nil); err != nil || len(sent) != 3 {
		t.Fatalf("got %v (%v), want everything", sent, err)
	}
	follower.wantAll(t)
	if diff := cmp.Diff(owner.have, follower.have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other := artifact.ID{Digest: digest("2")}
	if err := owner.keep(t, other, chart); err != nil {
		t.Fatal(err)
	}
	before := owner.have
	owner.amend(t)
	if !owner.have.Newer(before) || owner.have.Fingerprint() == before.Fingerprint() {
		t.Error("followers do not see that there is more")
	}
	if sent, err := copyOf(t, owner, follower, nil, nil); err != nil || len(sent) != 1 || !follower.Has(uid, other) {
		t.Errorf("got %v (%v), want what was new", sent, err)
	}
	// A follower's own mirror is doubted: every byte of it is checked.
	path := filepath.Join(follower.dir, uid, "art-"+web.Digest+".zst")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	sent, err := copyOf(t, owner, follower, func(c *mirror.Copy) { c.Doubted = true }, nil)
	if err != nil || !slices.Equal(sent, []string{filepath.Base(path)}) {
		t.Errorf("got %v (%v), want the damaged one", sent, err)
	}
	follower.wantAll(t)
	// Artifacts that the owner dropped are removed.
	if _, err := copyOf(t, owner, follower, func(c *mirror.Copy) { c.Files = c.Files[:1] }, nil); err != nil || follower.Has(uid, other) {
		t.Errorf("got %v, want the others gone", err)
	}
}

func TestBadCopiesChangeNothing(t *testing.T) {
	t.Parallel()
	owner, follower := filled(t), open(t, t.TempDir())
	if _, err := copyOf(t, owner, follower, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := owner.keep(t, artifact.ID{Digest: digest("2")}, chart); err != nil {
		t.Fatal(err)
	}
	owner.amend(t)
	names := []string{"../../x", "state.json", "art-x.zst", "art-" + digest("1") + ".zst/../../x"}
	for _, name := range names {
		if _, err := copyOf(t, owner, follower, func(c *mirror.Copy) { c.Files[0].Name = name }, nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	for name, tamper := range map[string]func([]byte) []byte{
		"short": func(b []byte) []byte { return b[:len(b)-1] }, "long": func(b []byte) []byte { return append(b, 0) },
		"other": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	} {
		if _, err := copyOf(t, owner, follower, nil, func(_ string, b []byte) []byte { return tamper(b) }); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	follower.wantAll(t)
	again := open(t, follower.dir)
	if c, err := again.Load(t.Context(), uid); err != nil || !cmp.Equal(c, follower.have) {
		t.Errorf("got %+v (%v), want what it was", c, err)
	}
	if _, err := follower.OpenFile(t.Context(), uid, artifact.Generation, "../"+uid+"/state.json"); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want no such file", err)
	}
}

// TestWhatNobodyNeedsGoes drops artifacts that no ref delivers after a week without a reader.
func TestWhatNobodyNeedsGoes(t *testing.T) {
	t.Parallel()
	s := filled(t)
	old := artifact.ID{Digest: digest("2")}
	read := artifact.ID{Digest: digest("3")}
	if err := errors.Join(s.keep(t, old, chart), s.keep(t, read, chart)); err != nil {
		t.Fatal(err)
	}
	s.amend(t)
	entered := 0
	enter := func(context.Context) (func(), error) { entered++; return func() {}, nil }
	if done, err := s.Compact(t.Context(), uid, enter); err != nil || entered != 0 || done != (mirror.Compaction{}) {
		t.Errorf("got %+v (%v), want nothing to do", done, err)
	}
	week := time.Now().Add(-8 * 24 * time.Hour)
	for _, path := range []string{"art-" + web.Digest + ".zst", "art-" + old.Digest + ".zst", "art-" + read.Digest + ".zst"} {
		if err := os.Chtimes(filepath.Join(s.dir, uid, path), week, week); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.files(t, read.String()); err != nil {
		t.Fatal(err)
	}
	done, err := s.Compact(t.Context(), uid, enter)
	if err != nil || entered != 1 || done.PacksBefore != 4 || done.PacksAfter != 3 || done.BytesAfter >= done.BytesBefore {
		t.Errorf("got %+v (%v), want one dropped", done, err)
	}
	if s.Has(uid, old) || !s.Has(uid, web) || !s.Has(uid, read) {
		t.Error("want the one gone that no ref and no reader named")
	}
	again := open(t, s.dir)
	if c, err := again.Load(t.Context(), uid); err != nil || c.Packs != 3 {
		t.Errorf("got %+v (%v)", c, err)
	}
	again.wantAll(t)
}
