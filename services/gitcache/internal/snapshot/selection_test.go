// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// names builds the bundle of a selection, and returns the names in it.
func names(t *testing.T, c commit, spec selection.Spec) []string {
	t.Helper()
	store := casmem.New(casmem.Config{})
	b := newBuilder(t, &repo{commits: map[string]commit{"c": c}}, store, snapshot.NewIndex())
	s, err := b.Resolve(t.Context(), folder(t, "c", spec))
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	blob, err := b.Stored(t.Context(), s.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blob.Close() }()
	compressed, err := io.ReadAll(blob)
	if err != nil {
		t.Fatal(err)
	}
	tarred, err := bundle.Decompress(bytes.NewReader(compressed), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tarred.Close() }()
	var got []string
	r := bundle.NewReader(tarred, bundle.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name)
	}
}

func TestWhatIsSelected(t *testing.T) {
	t.Parallel()
	c := plain(map[string]string{
		"VERSION": "1", "README.md": "", ".leatignore": "*.tmp\n/apps/web/drafts/\nsecret\n!kept.tmp\n",
		"apps/web/a.yaml": "", "apps/web/b.tmp": "", "apps/web/kept.tmp": "", "apps/web/README.md": "", "apps/web/drafts/a.yaml": "",
		"apps/web/drafts/.leatignore": "!a.yaml\n", "apps/web/sub/.leatignore": "a.yaml\n!b.tmp\n", "apps/web/sub/a.yaml": "",
		"apps/web/sub/b.tmp": "", "apps/web/sub/c.yaml": "", "apps/base/base.yaml": "", "apps/base/secret": "", "apps/.leatignore": "!secret\n/base/test\n",
		"apps/base/test/x.yaml": "", "lib/x.yaml": "", "lib/secret": "",
	})
	for name, test := range map[string]struct {
		spec selection.Spec
		want string
	}{
		"a folder": {selection.Spec{Path: "apps/web"}, "README.md a.yaml kept.tmp sub/b.tmp sub/c.yaml"},
		"root": {
			selection.Spec{Path: "apps/web", Root: "apps"},
			"base/base.yaml base/secret web/README.md web/a.yaml web/kept.tmp web/sub/b.tmp web/sub/c.yaml",
		},
		"folders": {
			selection.Spec{Path: "apps/web/sub", Folders: []string{"lib", "apps/base"}},
			"apps/base/base.yaml apps/base/secret apps/web/sub/b.tmp apps/web/sub/c.yaml lib/x.yaml",
		},
		"files": {
			selection.Spec{Path: "lib", Files: []string{"VERSION", "apps/web/drafts/a.yaml", "lib/secret"}, Include: []string{"x.yaml"}, Exclude: []string{"VERSION", "drafts"}},
			"VERSION apps/web/drafts/a.yaml lib/secret lib/x.yaml",
		},
		"exclude":          {selection.Spec{Path: "apps/web", Exclude: []string{"*.md", "/apps/web/sub"}}, "a.yaml kept.tmp"},
		"exclude again":    {selection.Spec{Path: "apps/web", Exclude: []string{"/apps/web/*", "!*.md", "!sub", "b.*"}}, "README.md sub/c.yaml"},
		"include":          {selection.Spec{Path: "apps/web", Include: []string{"*.yaml", "*.tmp"}}, "a.yaml kept.tmp sub/b.tmp sub/c.yaml"},
		"include folder":   {selection.Spec{Path: "apps/web", Include: []string{"sub/"}}, "sub/b.tmp sub/c.yaml"},
		"include anchored": {selection.Spec{Path: "apps/web", Include: []string{"/apps/web/*.yaml"}}, "a.yaml"},
		"include above":    {selection.Spec{Path: "apps/web", Include: []string{"apps"}, Exclude: []string{"sub"}}, "README.md a.yaml kept.tmp"},
		"include but":      {selection.Spec{Path: "apps/web", Include: []string{"*.yaml", "!c.yaml"}}, "a.yaml"},
		"everything": {
			selection.Spec{},
			"README.md VERSION apps/base/base.yaml apps/base/secret apps/web/README.md apps/web/a.yaml apps/web/kept.tmp apps/web/sub/b.tmp apps/web/sub/c.yaml lib/x.yaml",
		},
	} {
		if diff := cmp.Diff(strings.Fields(test.want), names(t, c, test.spec)); diff != "" {
			t.Errorf("%s: names (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatIsLeftOutIsNotLookedAt selects around everything that a bundle cannot carry.
func TestWhatIsLeftOutIsNotLookedAt(t *testing.T) {
	t.Parallel()
	c := commit{
		"a":          {text: "a"},
		"link":       {kind: content.KindSymlink, text: "vendor/gone"},
		"run":        {kind: content.KindExecutable, text: "#!"},
		"vendor/lib": {kind: content.KindSubmodule, text: "commit"},
		"up":         {kind: content.KindSymlink, text: "../etc"},
		"big":        {text: strings.Repeat("x", 2001)},
		"lfs":        {text: extendedPointer()},
	}
	if got := names(t, c, selection.Spec{Exclude: []string{"lib/", "up", "big", "lfs"}}); !slices.Equal(got, []string{"a", "link", "run"}) {
		t.Errorf("got %q, want the link kept though its target is not", got)
	}
	for name, spec := range map[string]selection.Spec{
		"vendor/lib": {Exclude: []string{"up", "big", "lfs"}},
		"up":         {Exclude: []string{"vendor", "big", "lfs"}},
		"lfs":        {Files: []string{"lfs"}, Exclude: []string{"up", "vendor", "big", "lfs"}},
	} {
		b := newBuilder(t, &repo{commits: map[string]commit{"c": c}}, casmem.New(casmem.Config{}), snapshot.NewIndex())
		_, err := b.Resolve(t.Context(), folder(t, "c", spec))
		if bad, ok := errors.AsType[*leaves.UnsupportedError](err); !ok || bad.Path != name {
			t.Errorf("got %v, want %q refused", err, name)
		} else if name == "up" && (!strings.Contains(bad.Reason, "root") || !strings.Contains(bad.Reason, "exclude")) {
			t.Errorf("got %q, want it to say what helps against a link that leads out", bad.Reason)
		}
	}
}

func TestIgnoreFilesThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]file{
		"a symbolic link": {kind: content.KindSymlink, text: "a"},
		"too long":        {text: strings.Repeat("x\n", 129<<10)},
	} {
		for _, at := range []string{".leatignore", "app/.leatignore", "app/sub/.leatignore"} {
			c := commit{"app/a": {text: "a"}, "app/sub/b": {text: "b"}, at: bad}
			b := newBuilder(t, &repo{commits: map[string]commit{"c": c}}, casmem.New(casmem.Config{}), snapshot.NewIndex())
			_, err := b.Resolve(t.Context(), app(t, "c"))
			if refused, ok := errors.AsType[*leaves.UnsupportedError](err); !ok || refused.Path != at {
				t.Errorf("%s at %s: got %v, want it refused", name, at, err)
			}
		}
	}
	odd := commit{"a": {text: "a"}, ".leatignore/b": {text: "b"}}
	if diff := cmp.Diff([]string{".leatignore/b", "a"}, names(t, odd, selection.Spec{})); diff != "" {
		t.Errorf("a folder of that name (-want +got):\n%s", diff)
	}
}

func TestWhatIsNamedMustExist(t *testing.T) {
	t.Parallel()
	c := plain(map[string]string{"app/a": "", "lib/b": "", "tmp/c": ".", "tmp/.leatignore": "*"})
	c["link"] = file{kind: content.KindSymlink, text: "app"}
	c["sub"] = file{kind: content.KindSubmodule, text: "commit"}
	b := newBuilder(t, &repo{commits: map[string]commit{"c": c}}, casmem.New(casmem.Config{}), snapshot.NewIndex())
	for _, test := range []struct {
		spec selection.Spec
		want error
	}{
		{selection.Spec{Path: "app", Folders: []string{"gone"}}, &content.PathError{Path: "gone", Want: "folder"}},
		{selection.Spec{Path: "app", Folders: []string{"lib/b"}}, &content.PathError{Path: "lib/b", Want: "folder"}},
		{selection.Spec{Path: "app", Folders: []string{"link"}}, &content.PathError{Path: "link", Want: "folder"}},
		{selection.Spec{Path: "app", Files: []string{"lib"}}, &content.PathError{Path: "lib", Want: "file"}},
		{selection.Spec{Path: "app", Files: []string{"app/a/b"}}, &content.PathError{Path: "app/a/b", Want: "file"}},
		{selection.Spec{Path: "app", Files: []string{"sub"}}, &content.PathError{Path: "sub", Want: "file"}},
		{selection.Spec{Path: "app/sub", Root: "app"}, &content.PathError{Path: "app/sub", Want: "folder"}},
		{selection.Spec{Path: "app", Exclude: []string{"a"}}, &snapshot.EmptyError{Folder: "app"}},
		{selection.Spec{Path: "app", Exclude: []string{"/app"}}, &snapshot.EmptyError{Folder: "app"}},
		{selection.Spec{Path: "app", Root: ".", Include: []string{"lib"}, Exclude: []string{"sub"}}, &snapshot.EmptyError{Folder: "app"}},
		{selection.Spec{Path: "app", Folders: []string{"tmp"}}, &snapshot.EmptyError{Folder: "tmp"}},
		{selection.Spec{Path: "app", Folders: []string{"tmp"}, Files: []string{"tmp/c"}}, nil},
		{selection.Spec{Path: "app", Files: []string{"link"}}, nil},
	} {
		_, err := b.Resolve(t.Context(), folder(t, "c", test.spec))
		if diff := cmp.Diff(test.want, err); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.spec, diff)
		}
	}
	empty := newBuilder(t, &repo{commits: map[string]commit{"c": {}}}, casmem.New(casmem.Config{}), snapshot.NewIndex())
	if s, err := empty.Resolve(t.Context(), folder(t, "c", selection.Spec{Exclude: []string{"x"}})); err != nil || s.FileCount != 0 {
		t.Errorf("got %+v, %v for an empty commit, want an empty bundle", s, err)
	}
}

func TestLimitsCountWhatIsSelected(t *testing.T) {
	t.Parallel()
	c := commit{}
	for _, name := range "abcdefgh" {
		c[string(name)] = file{text: "x"}
	}
	params := params(t, &repo{commits: map[string]commit{"c": c}}, casmem.New(casmem.Config{}), snapshot.NewIndex())
	params.Limits = bundle.Limits{Files: 3}
	b, err := snapshot.NewBuilder(params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resolve(t.Context(), folder(t, "c", selection.Spec{Include: []string{"[a-c]"}})); err != nil {
		t.Errorf("got %v for as many as allowed, want none", err)
	}
	_, err = b.Resolve(t.Context(), folder(t, "c", selection.Spec{Include: []string{"[a-d]"}}))
	if limit, ok := errors.AsType[*bundle.LimitError](err); !ok || limit.Limit != bundle.LimitFiles || limit.Name != "d" {
		t.Errorf("got %v, want the limit of files at d", err)
	}
}

// TestEndlessTreesEnd walks a tree that no other limit stops.
func TestEndlessTreesEnd(t *testing.T) {
	t.Parallel()
	params := params(t, nil, casmem.New(casmem.Config{}), snapshot.NewIndex())
	params.Mirrors, params.Visits = bomb{}, 10_000
	b, err := snapshot.NewBuilder(params)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Resolve(t.Context(), folder(t, "c", selection.Spec{}))
	if bad, ok := errors.AsType[*leaves.UnsupportedError](err); !ok || !strings.HasPrefix(bad.Path, "l/l/l/") {
		t.Errorf("got %v, want a refusal that names a folder", err)
	}
}

// TestUnchangedSelectionReadsNoBlob commits again and again, and counts the reads of each commit.
func TestUnchangedSelectionReadsNoBlob(t *testing.T) {
	t.Parallel()
	now := plain(map[string]string{
		"other": "1", ".leatignore": "*.tmp\n", "app/a.yaml": "a", "app/b.yaml": "b", "app/.leatignore": "/drafts\n",
		"app/x.tmp": "1", "app/docs/x.md": "1", "app/drafts/x": "1",
	})
	r := &repo{commits: map[string]commit{}}
	path := filepath.Join(t.TempDir(), "digests.log")
	open := func() *snapshot.Builder {
		index, err := snapshot.OpenIndex(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = index.Close() })
		return newBuilder(t, r, casmem.New(casmem.Config{}), index)
	}
	b, spec := open(), selection.Spec{Path: "app", Exclude: []string{"*.md"}}
	var first snapshot.Snapshot
	for i, step := range []struct {
		name, change, to string
		lists, blobs     int64
		restart          bool
	}{
		{name: "first build", lists: 4, blobs: 4}, // root twice, app, app/docs; two ignore files and two manifests
		{name: "nothing", lists: 1},
		{name: "beside", change: "other", to: "2", lists: 1},
		{name: "ignored file", change: "app/x.tmp", to: "2", lists: 4},
		{name: "ignored folder", change: "app/drafts/x", to: "2", lists: 4},
		{name: "excluded file", change: "app/docs/x.md", to: "2", lists: 4},
		{name: "rules without effect", change: ".leatignore", to: "*.tmp\n*.bak\n", lists: 4, blobs: 1},
		{name: "nested rules without effect", change: "app/.leatignore", to: "drafts\n", lists: 4, blobs: 1},
		{name: "beside, after a restart", change: "other", to: "3", lists: 1, restart: true},
		{name: "ignored file, after a restart", change: "app/x.tmp", to: "3", lists: 4, blobs: 2, restart: true},
	} {
		if step.change != "" {
			now[step.change] = file{text: step.to}
		}
		if step.restart {
			b = open()
		}
		id := string(rune('a' + i))
		r.commits[id] = maps.Clone(now)
		got, err := b.Resolve(t.Context(), folder(t, id, spec))
		if i == 0 {
			first = got
		}
		if err != nil || got != first {
			t.Errorf("%s: got %+v, %v, want %+v", step.name, got, err, first)
		}
		if lists, blobs := r.reads(); lists != step.lists || blobs != step.blobs {
			t.Errorf("%s: got %d trees and %d blobs read, want %d and %d", step.name, lists, blobs, step.lists, step.blobs)
		}
		if again, err := b.Resolve(t.Context(), folder(t, id, spec)); err != nil || again != first {
			t.Errorf("%s: got %+v, %v when asked again", step.name, again, err)
		}
		if lists, blobs := r.reads(); lists+blobs != 0 {
			t.Errorf("%s: got %d trees and %d blobs read when asked again, want none", step.name, lists, blobs)
		}
	}
	now["app/.leatignore"] = file{text: "drafts\nb.yaml\n"}
	r.commits["z"] = maps.Clone(now)
	if got, err := b.Resolve(t.Context(), folder(t, "z", spec)); err != nil || got.Digest == first.Digest || got.FileCount != 1 {
		t.Errorf("got %+v, %v after rules that leave out more, want another digest", got, err)
	}
	r.reads()
	same := selection.Spec{Path: "app", Include: []string{"a.yaml"}}
	if got, err := b.Resolve(t.Context(), folder(t, "z", same)); err != nil || got.FileCount != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, blobs := r.reads(); blobs != 0 {
		t.Errorf("got %d blobs read for another selection of the same files, want none", blobs)
	}
}

// TestEvictedSelectionIsBuiltAgain makes sure that a digest which is only remembered does not pass
// for a bundle.
func TestEvictedSelectionIsBuiltAgain(t *testing.T) {
	t.Parallel()
	store := casmem.New(casmem.Config{})
	b := newBuilder(t, newRepo(), store, snapshot.NewIndex())
	spec := selection.Spec{Path: "app", Exclude: []string{"run"}}
	s, err := b.Resolve(t.Context(), folder(t, "c1", spec))
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range []string{"c1", "c2"} {
		if err := store.Delete(t.Context(), s.Digest); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Open(t.Context(), s.Digest, app(t, commit)); !errors.Is(err, snapshot.ErrBundleNotFound) {
			t.Errorf("got %v from the whole folder, want ErrBundleNotFound", err)
		}
		blob, err := b.Open(t.Context(), s.Digest, folder(t, commit, spec))
		if err != nil {
			t.Fatal(err)
		}
		_ = blob.Close()
	}
}
