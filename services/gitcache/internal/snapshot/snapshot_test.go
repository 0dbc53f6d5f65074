// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

func params(t *testing.T, r *repo, store cas.Store, index *snapshot.Index) snapshot.Params {
	t.Helper()
	return snapshot.Params{
		Mirrors: r, Objects: &objects{}, Store: store, Index: index, TempDir: t.TempDir(), Limits: bundle.Limits{FileBytes: 2000},
		Logger: slog.New(slog.DiscardHandler), Tracer: tracenoop.NewTracerProvider().Tracer(""),
		Meter: metricnoop.NewMeterProvider().Meter(""),
	}
}

func newBuilder(t *testing.T, r *repo, store cas.Store, index *snapshot.Index) *snapshot.Builder {
	t.Helper()
	b, err := snapshot.NewBuilder(params(t, r, store, index))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newRepo() *repo {
	first := commit{
		"app/a.yaml": {text: "a: 1\n"}, "app/run": {kind: content.KindExecutable, text: "#!"},
		"app/link": {kind: content.KindSymlink, text: "a.yaml"}, "other": {text: "1"},
	}
	second := maps.Clone(first)
	second["other"] = file{text: "2"}
	return &repo{commits: map[string]commit{"c1": first, "c2": second, "c3": plain(map[string]string{"app/a.yaml": "a: 3\n"})}}
}

// folder selects by a spec.
func folder(t *testing.T, commit string, spec selection.Spec) snapshot.Folder {
	t.Helper()
	s, err := selection.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.Folder{UID: "uid", Commit: commit, Selection: s}
}

func app(t *testing.T, commit string) snapshot.Folder {
	t.Helper()
	return folder(t, commit, selection.Spec{Path: "app"})
}

// canonical is the digest as documented: of the canonical tar, here written by hand.
func canonical(t *testing.T) digest.Digest {
	t.Helper()
	h := digest.NewHasher()
	w := bundle.NewWriter(h, bundle.DefaultLimits())
	err := errors.Join(w.WriteFile("a.yaml", false, 5, strings.NewReader("a: 1\n")), w.WriteSymlink("link", "a.yaml"),
		w.WriteFile("run", true, 2, strings.NewReader("#!")), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return h.Digest()
}

func TestDigestIsOfTheCanonicalTar(t *testing.T) {
	t.Parallel()
	r := newRepo()
	b := newBuilder(t, r, casmem.New(casmem.Config{}), snapshot.NewIndex())
	got, err := b.Resolve(t.Context(), app(t, "c1"))
	if err != nil || got.Digest != canonical(t) || got.FileCount != 3 || got.StoredSize == 0 {
		t.Fatalf("got %+v (%v), want digest %s of 3 files", got, err, canonical(t))
	}
	again, err := b.Resolve(t.Context(), app(t, "c2")) // another commit, the same folder
	if _, blobs := r.reads(); err != nil || again != got || blobs != 3 {
		t.Errorf("got %+v (%v) after %d blobs, want the same from memory", again, err, blobs)
	}
	opens := r.opens.Load()
	if _, err := b.Resolve(t.Context(), app(t, "c2")); err != nil || r.opens.Load() != opens {
		t.Errorf("got %d opens (%v), want none for a folder asked for before", r.opens.Load()-opens, err)
	}
	if _, err := b.Resolve(t.Context(), folder(t, "c1", selection.Spec{Path: "gone", Root: "."})); !errors.Is(err, content.ErrPathNotFound) {
		t.Errorf("got %v for a path that is not in its root, want ErrPathNotFound", err)
	}
}

func TestEvictedBundleIsBuiltAgain(t *testing.T) {
	t.Parallel()
	store := casmem.New(casmem.Config{})
	b := newBuilder(t, newRepo(), store, snapshot.NewIndex())
	s, err := b.Resolve(t.Context(), app(t, "c1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), s.Digest); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stored(t.Context(), s.Digest); !errors.Is(err, snapshot.ErrBundleNotFound) {
		t.Errorf("got %v for an evicted bundle, want ErrBundleNotFound", err)
	}
	for _, other := range []string{"c3", "c3"} { // built the first time, remembered the second
		if _, err := b.Open(t.Context(), s.Digest, app(t, other)); !errors.Is(err, snapshot.ErrBundleNotFound) {
			t.Errorf("got %v from a folder with another digest, want ErrBundleNotFound", err)
		}
	}
	blob, err := b.Open(t.Context(), s.Digest, app(t, "c1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := blob.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatABundleCannotCarry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file file
		path string
		want error
	}{
		"lfs, extended":   {file{text: extendedPointer()}, "x", leaves.ErrUnsupported},
		"lfs, too large":  {file{text: gittest.LFSPointer(strings.Repeat("x", 2001))}, "x", bundle.ErrTooLarge},
		"lfs, no pointer": {file{text: "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"}, "x", nil},
		"escaping":        {file{kind: content.KindSymlink, text: "../../etc"}, "a/x", leaves.ErrUnsupported},
		"absolute":        {file{kind: content.KindSymlink, text: "/etc"}, "x", leaves.ErrUnsupported},
		"backslash":       {file{text: "x"}, `a\b`, leaves.ErrUnsupported},
		"too large":       {file{text: strings.Repeat("x", 2001)}, "x", bundle.ErrTooLarge},
		"upward":          {file{kind: content.KindSymlink, text: "../b"}, "a/x", nil},
		"large fits":      {file{text: strings.Repeat("x", 2000)}, "x", nil},
	} {
		r := &repo{commits: map[string]commit{"c1": {"app/" + test.path: test.file}}}
		b := newBuilder(t, r, casmem.New(casmem.Config{}), snapshot.NewIndex())
		for range 2 {
			_, err := b.Resolve(t.Context(), app(t, "c1"))
			if !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", name, err, test.want)
			}
			if bad, ok := errors.AsType[*leaves.UnsupportedError](err); ok && bad.Path != "app/"+test.path {
				t.Errorf("%s: got path %q, want it in the repository", name, bad.Path)
			}
		}
		if _, blobs := r.reads(); blobs > 2 { // a pointer is read once more for its size
			t.Errorf("%s: got %d blobs read, want the verdict remembered", name, blobs)
		}
	}
}

func TestBuildOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRepo()
		r.takes = 10 * time.Second
		b := newBuilder(t, r, casmem.New(casmem.Config{}), snapshot.NewIndex())
		var callers sync.WaitGroup
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := b.Resolve(ctx, app(t, "c1")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v for the impatient caller, want its deadline", err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			callers.Go(func() {
				if _, err := b.Resolve(t.Context(), app(t, "c2")); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if _, blobs := r.reads(); blobs != 3 {
			t.Errorf("got %d blobs read for eleven callers, want the 3 of one build", blobs)
		}
	})
}

func TestIndexSurvives(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "digests.log")
	open := func() *snapshot.Index {
		x, err := snapshot.OpenIndex(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
	want := snapshot.Snapshot{Digest: digest.FromBytes([]byte("1")), ContentSize: 1, StoredSize: 2, FileCount: 3}
	x := open()
	if err := errors.Join(x.Put("uid", "tree1", want), x.Put("uid", "tree2", want), x.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-5], 0o600); err != nil { // a crash cut the last line
		t.Fatal(err)
	}
	x = open()
	if got, ok := x.Get("uid", "tree1"); !ok || got != want {
		t.Errorf("got %+v, %t for the whole line, want %+v", got, ok, want)
	}
	if _, ok := x.Get("uid", "tree2"); ok {
		t.Error("got an answer from a line that was cut off")
	}
	if _, ok := x.Get("other", "tree1"); ok {
		t.Error("got an answer for another repository")
	}
	if err := errors.Join(x.Put("uid", "tree3", want), x.Close()); err != nil {
		t.Fatal(err)
	}
	if _, ok := open().Get("uid", "tree3"); !ok {
		t.Error("got nothing for what was put after the damage")
	}
}
