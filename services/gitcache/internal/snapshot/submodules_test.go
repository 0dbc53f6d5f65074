// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// modules are repositories by the URLs that .gitmodules has for them. Upstream ones are mirrored
// when asked for.
type modules struct {
	mirrored, upstream map[string]*repo // the one that is bundled is mirrored as "uid"

	mu      sync.Mutex
	asked   []string
	givenUp []string
}

func (m *modules) Open(ctx context.Context, uid string) (content.Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.mirrored[uid]
	if !ok {
		return nil, mirror.ErrNoMirror
	}
	return r.Open(ctx, uid)
}

func (m *modules) Locate(l submodule.Link) (string, error) {
	if l.URL == "" {
		return "", &submodule.UnavailableError{Path: l.Path}
	}
	return l.URL, nil
}

func (m *modules) Obtain(_ context.Context, l submodule.Link) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, r := range m.mirrored {
		if n := r.unclosed.Load(); n != 0 {
			return fmt.Errorf("%d readers of %s are open while a submodule is fetched", n, uid)
		}
	}
	m.asked = append(m.asked, l.Parent+" "+l.Path)
	if m.upstream[l.URL] == nil {
		return &submodule.NotReadyError{Path: l.Path}
	}
	m.mirrored[l.URL] = m.upstream[l.URL]
	return nil
}

func (m *modules) Discard(uid string) { m.givenUp = append(m.givenUp, uid) }

// with adds submodules to a commit, by path.
func with(c commit, links map[string]string) commit {
	var config strings.Builder
	for path, url := range links {
		c[path] = file{kind: content.KindSubmodule, text: "c"}
		fmt.Fprintf(&config, "[submodule %q]\npath = %s\nurl = %s\n", path, path, url)
	}
	c[".gitmodules"] = file{text: config.String()}
	return c
}

func single(c commit) *repo { return &repo{commits: map[string]commit{"c": c}} }

func (m *modules) builder(t *testing.T) *snapshot.Builder {
	t.Helper()
	p := params(t, nil, casmem.New(casmem.Config{}), snapshot.NewIndex())
	p.Mirrors, p.Submodules = m, m
	b, err := snapshot.NewBuilder(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSubmodulesAreFolders makes the bundle that the same files make in one repository.
func TestSubmodulesAreFolders(t *testing.T) {
	t.Parallel()
	linked := with(plain(map[string]string{"a": "1", "lib-a": "2", "lib.x": "3", "z": "4"}), map[string]string{"lib": "lib", "unused/x": "gone"})
	m := &modules{
		mirrored: map[string]*repo{"uid": single(linked)},
		upstream: map[string]*repo{
			"lib":  single(with(plain(map[string]string{"b": "5", "docs/x": "6", "docs/.leatignore": "*.tmp", "docs/y.tmp": "7"}), map[string]string{"deep/er": "deep"})),
			"deep": single(plain(map[string]string{"c": "8"})),
		},
	}
	flat := plain(map[string]string{
		"a": "1", "lib-a": "2", "lib.x": "3", "z": "4", "lib/b": "5", "lib/docs/x": "6", "lib/docs/.leatignore": "*.tmp",
		"lib/docs/y.tmp": "7", "lib/deep/er/c": "8",
	})
	one := newBuilder(t, single(flat), casmem.New(casmem.Config{}), snapshot.NewIndex())
	for _, spec := range []selection.Spec{
		{Exclude: []string{".gitmodules", "unused"}},
		{Exclude: []string{".gitmodules", "unused", "/lib/docs/"}},
		{Include: []string{"/lib/**"}, Exclude: []string{".gitmodules", "unused"}},
		{Exclude: []string{".gitmodules", "unused", "lib/"}},
	} {
		want, err := one.Resolve(t.Context(), folder(t, "c", spec))
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.builder(t).Resolve(t.Context(), folder(t, "c", spec))
		if err != nil || got != want {
			t.Errorf("%+v: got %+v, %v, want %+v as from one repository", spec, got, err, want)
		}
	}
	if diff := cmp.Diff([]string{"uid lib", "lib lib/deep/er"}, m.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// TestEqualIDsOfOtherRepositories does not take one repository's objects for another's.
func TestEqualIDsOfOtherRepositories(t *testing.T) {
	t.Parallel()
	m := &modules{mirrored: map[string]*repo{
		"uid": {commits: map[string]commit{
			"c1": with(commit{}, map[string]string{"lib": "lib"}), "c2": with(commit{}, map[string]string{"lib": "evil"}),
		}},
		"lib": single(plain(map[string]string{"a": "good"})), "evil": single(plain(map[string]string{"a": "good"})),
	}}
	reader, err := m.mirrored["evil"].Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Tree(t.Context(), "c", ""); err != nil {
		t.Fatal(err)
	}
	b := m.builder(t)
	exclude := selection.Spec{Exclude: []string{".gitmodules"}}
	if _, err := b.Resolve(t.Context(), folder(t, "c1", exclude)); err != nil {
		t.Fatal(err)
	}
	m.mirrored["evil"].reads()
	if _, err := b.Resolve(t.Context(), folder(t, "c2", selection.Spec{Exclude: []string{".gitmodules", "x"}})); err != nil {
		t.Fatal(err)
	}
	if _, blobs := m.mirrored["evil"].reads(); blobs != 1 {
		t.Errorf("got %d files read of the other repository, want what it holds looked at", blobs)
	}
}

// TestSubmodulesWithoutEnd are refused.
func TestSubmodulesWithoutEnd(t *testing.T) {
	t.Parallel()
	m := &modules{mirrored: map[string]*repo{
		"uid": single(with(commit{}, map[string]string{"circle/a": "a", "well/0": "0", "none/x": ""})),
		"a":   single(with(commit{}, map[string]string{"b": "b"})), "b": single(with(commit{}, map[string]string{"a": "a"})),
	}}
	for i := range 10 {
		m.mirrored[fmt.Sprint(i)] = single(with(commit{}, map[string]string{"x": fmt.Sprint(i + 1)}))
	}
	b := m.builder(t)
	for path, want := range map[string]string{"circle": "circle/a/b/a", "well": "well/0/x/x/x/x/x/x/x/x", "none": "none/x"} {
		_, err := b.Resolve(t.Context(), folder(t, "c", selection.Spec{Path: path}))
		if bad, ok := errors.AsType[*submodule.UnavailableError](err); !ok || bad.Path != want {
			t.Errorf("got %v, want %s refused", err, want)
		}
	}
}

// TestDamagedSubmodules are given up themselves, instead of the repository that has them.
func TestDamagedSubmodules(t *testing.T) {
	t.Parallel()
	lib := single(plain(map[string]string{"a": "1"}))
	m := &modules{mirrored: map[string]*repo{"uid": single(with(commit{}, map[string]string{"lib": "lib"})), "lib": lib}}
	lib.damage = true
	_, err := m.builder(t).Resolve(t.Context(), folder(t, "c", selection.Spec{}))
	if _, ok := errors.AsType[*submodule.NotReadyError](err); !ok || errors.Is(err, content.ErrDamaged) || !slices.Equal(m.givenUp, []string{"lib"}) {
		t.Errorf("got %v and %v given up, want the submodule's mirror fetched anew", err, m.givenUp)
	}
}

// TestSecPlacesOfSubmodulesAreBounded links one submodule in more places of a commit than any
// bundle needs. For each place all of .gitmodules is read.
func TestSecPlacesOfSubmodulesAreBounded(t *testing.T) {
	t.Parallel()
	links := map[string]string{}
	for i := range 1001 {
		links[fmt.Sprintf("%04d", i)] = "lib"
	}
	m := &modules{mirrored: map[string]*repo{"uid": single(with(commit{}, links))}, upstream: map[string]*repo{}}
	_, err := m.builder(t).Resolve(t.Context(), folder(t, "c", selection.Spec{}))
	if _, ok := errors.AsType[*leaves.UnsupportedError](err); !ok || len(m.asked) != 0 {
		t.Errorf("got %v after %d submodules were asked for, want too many refused before any is", err, len(m.asked))
	}
}
