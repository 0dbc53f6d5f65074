// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// shelf is a Git repository and repositories of charts, whose artifacts are mirrored when they are
// fetched. It implements the ports for all of them.
type shelf struct {
	git   *repo
	store *casmem.Store

	mu sync.Mutex
	// published are the artifacts of each repository by name and version: their commits in it.
	published map[string]map[string]string
	charts    map[string]*repo
	mirrored  map[string]bool // by repository and artifact
	finds     int
	fetched   []string
	givenUp   []string
	away      error // what fetching ends with
}

func newShelf(files commit) *shelf {
	return &shelf{
		git: &repo{commits: map[string]commit{"c": files}}, store: casmem.New(casmem.Config{}), published: map[string]map[string]string{},
		charts: map[string]*repo{}, mirrored: map[string]bool{},
	}
}

// publish makes a version of a chart what the files are.
func (s *shelf) publish(repository, name, version string, files commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.charts[repository] == nil {
		s.charts[repository] = &repo{commits: map[string]commit{}}
		s.published[repository] = map[string]string{}
	}
	id := fmt.Sprintf("%s %s %d", name, version, len(s.charts[repository].commits))
	s.charts[repository].commits[id] = files
	s.published[repository][name+" "+version] = id
}

func (s *shelf) Find(_ context.Context, n chartdep.Need) (chartdep.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finds++
	if err := s.unclosed(); err != nil {
		return chartdep.Artifact{}, err
	}
	if n.Root != "uid" {
		return chartdep.Artifact{}, fmt.Errorf("got root %q", n.Root)
	}
	id, ok := s.published[n.Repository][n.Name+" "+n.Version]
	if !ok || !slices.Contains(n.Allowed.Names(), n.Repository) {
		return chartdep.Artifact{}, n.Unavailable("It is not there.")
	}
	return chartdep.Artifact{UID: n.Repository, ID: id}, nil
}

// unclosed returns an error while a mirror is open, which nothing that takes long may happen with.
func (s *shelf) unclosed() error {
	for uid, r := range s.charts {
		if n := r.unclosed.Load(); n != 0 {
			return fmt.Errorf("%d readers of %s are open", n, uid)
		}
	}
	if n := s.git.unclosed.Load(); n != 0 {
		return fmt.Errorf("%d readers of the Git repository are open", n)
	}
	return nil
}

func (s *shelf) Discard(uid string) { s.givenUp = append(s.givenUp, uid) }

func (s *shelf) FetchBlobs(_ context.Context, uid string, ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unclosed(); err != nil {
		return err
	}
	if s.away != nil {
		return s.away
	}
	for _, id := range ids {
		s.fetched = append(s.fetched, uid+": "+id)
		s.mirrored[uid+id] = true
	}
	return nil
}

func (s *shelf) Open(ctx context.Context, uid string) (content.Reader, error) {
	if uid == "uid" {
		return s.git.Open(ctx, uid)
	}
	r, err := s.charts[uid].Open(ctx, uid)
	return &shelfReader{Reader: r, shelf: s, uid: uid}, err
}

// shelfReader reads artifacts that are mirrored.
type shelfReader struct {
	content.Reader
	shelf *shelf
	uid   string
}

func (r *shelfReader) Tree(ctx context.Context, id, folder string) (string, error) {
	r.shelf.mu.Lock()
	isMirrored := r.shelf.mirrored[r.uid+id]
	r.shelf.mu.Unlock()
	if !isMirrored {
		return "", &content.AbsentError{IDs: []string{id}}
	}
	return r.Reader.Tree(ctx, id, folder)
}

func (s *shelf) builder(t *testing.T) *snapshot.Builder {
	t.Helper()
	p := params(t, nil, s.store, snapshot.NewIndex())
	p.Mirrors, p.Blobs, p.Charts = s, s, s
	b, err := snapshot.NewBuilder(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// charts selects a folder, with dependencies from the repository "shared".
func charts(t *testing.T, path string) snapshot.Folder {
	t.Helper()
	f := folder(t, "c", selection.Spec{Path: path})
	f.CompletesCharts, f.ChartRepositories = true, upstream.NewList([]string{"shared"})
	return f
}

// contents returns the files of a bundle.
func (s *shelf) contents(t *testing.T, d digest.Digest) map[string]string {
	t.Helper()
	blob, err := s.store.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blob.Close() }()
	plain, err := bundle.Decompress(blob, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	r, files := bundle.NewReader(plain, bundle.Limits{}), map[string]string{}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if _, err := io.Copy(&text, r); err != nil {
			t.Fatal(err)
		}
		files[e.Name] = text.String()
	}
}

// dependency is one of a chart: name, accepted versions, pinned version, repository.
type dependency struct{ name, within, version, repository string }

// chartOf returns a chart's own files, with the lock file that Helm would make.
func chartOf(t *testing.T, name, version string, all ...dependency) map[string]string {
	t.Helper()
	declared, pinned := []*chartdep.Dependency{}, []*chartdep.Dependency{}
	for _, d := range all {
		declared = append(declared, &chartdep.Dependency{Name: d.name, Version: d.within, Repository: d.repository})
		pinned = append(pinned, &chartdep.Dependency{Name: d.name, Version: d.version, Repository: d.repository})
	}
	sum, err := json.Marshal([2][]*chartdep.Dependency{declared, pinned})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v2", "name": name, "version": version, "dependencies": declared})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := json.Marshal(map[string]any{"dependencies": pinned, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(sum))})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"Chart.yaml": string(text), "Chart.lock": string(lock)}
}

// at returns files in a folder.
func at(folder string, files map[string]string, more ...string) commit {
	c := commit{}
	for name, text := range files {
		c[folder+name] = file{text: text}
	}
	for i := 0; i < len(more); i += 2 {
		c[folder+more[i]] = file{text: more[i+1]}
	}
	return c
}

func join(all ...commit) commit {
	joined := commit{}
	for _, c := range all {
		maps.Copy(joined, c)
	}
	return joined
}

func texts(c commit) map[string]string {
	all := map[string]string{}
	for name, f := range c {
		all[name] = f.text
	}
	return all
}

// TestChartsAreCompleted packs what charts lack, wherever it comes from, as if it had been committed.
func TestChartsAreCompleted(t *testing.T) {
	t.Parallel()
	web1, web2 := at("", chartOf(t, "web", "1.2.0"), "templates/a.yaml", "one"), at("", chartOf(t, "web", "2.0.0"), "templates/a.yaml", "two")
	lib := at("lib/", chartOf(t, "lib", "0.1.0", dependency{"base", "~1", "1.0.0", "shared"}), "_helpers.tpl", "lib")
	base := at("", chartOf(t, "base", "1.0.0"), "values.yaml", "b: 1")
	shop := at("shop/", chartOf(t, "shop", "0.1.0",
		dependency{"web", "^1", "1.2.0", "shared"}, dependency{"web", "2.x", "2.0.0", "shared"},
		dependency{"lib", ">=0.1.0", "0.1.0", "file://../lib"}, dependency{"here", "*", "3.0.0", "nowhere"}, dependency{"old", "*", "1.0.0", "nowhere"},
	), "values.yaml", "a: 1", "charts/here/Chart.yaml", "{name: here, version: 3.0.0}", "charts/old-1.0.0.tgz", "packed")
	s := newShelf(join(shop, lib))
	s.publish("shared", "web", "1.2.0", web1)
	s.publish("shared", "web", "2.0.0", web2)
	s.publish("shared", "base", "1.0.0", base)
	b := s.builder(t)
	got, err := b.Resolve(t.Context(), charts(t, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	inside := func(prefix string, c commit) commit { return at(prefix, texts(c)) }
	want := join(
		inside("charts/web-1.2.0.tgz.unpacked/", web1), inside("charts/web-2.0.0.tgz.unpacked/", web2),
		inside("charts/lib-0.1.0.tgz.unpacked/charts/base-1.0.0.tgz.unpacked/", base),
	)
	for name, f := range shop {
		want[strings.TrimPrefix(name, "shop/")] = f
	}
	for name, f := range lib {
		want["charts/lib-0.1.0.tgz.unpacked/"+strings.TrimPrefix(name, "lib/")] = f
	}
	if diff := cmp.Diff(texts(want), s.contents(t, got.Digest)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	committed := newShelf(want)
	same, err := committed.builder(t).Resolve(t.Context(), folder(t, "c", selection.Spec{}))
	if err != nil || same != got {
		t.Errorf("got %+v, want %+v (%v) as from a commit with the same files", got, same, err)
	}
	slices.Sort(s.fetched)
	if diff := cmp.Diff([]string{"shared: base 1.0.0 2", "shared: web 1.2.0 0", "shared: web 2.0.0 1"}, s.fetched); diff != "" {
		t.Errorf("fetched (-want +got):\n%s", diff)
	}
	s.git.reads()
	again, err := b.Resolve(t.Context(), charts(t, "shop"))
	if lists, blobs := s.git.reads(); err != nil || again != got || lists != 0 || blobs != 0 {
		t.Errorf("got %+v (%v) after %d listings and %d files, want the same from memory", again, err, lists, blobs)
	}
	if err := s.store.Delete(t.Context(), got.Digest); err != nil {
		t.Fatal(err)
	}
	blob, err := b.Open(t.Context(), got.Digest, charts(t, "shop"))
	if err != nil {
		t.Fatal(err)
	}
	if err := blob.Close(); err != nil {
		t.Error(err)
	}
}

// TestDependenciesAreOfTheDigest follows what dependencies are: another artifact under a version, and
// another folder of the repository that the source does not select, make another digest.
func TestDependenciesAreOfTheDigest(t *testing.T) {
	t.Parallel()
	shop := at("shop/", chartOf(t, "shop", "0.1.0", dependency{"web", "^1", "1.2.0", "shared"}, dependency{"lib", "*", "0.1.0", "file://../lib"}))
	lib := chartOf(t, "lib", "0.1.0")
	s := newShelf(join(shop, at("lib/", lib, "a", "1")))
	s.publish("shared", "web", "1.2.0", at("", chartOf(t, "web", "1.2.0"), "a", "1"))
	b := s.builder(t)
	digests := map[digest.Digest]bool{}
	resolve := func() digest.Digest {
		t.Helper()
		got, err := b.Resolve(t.Context(), charts(t, "shop"))
		if err != nil {
			t.Fatal(err)
		}
		digests[got.Digest] = true
		return got.Digest
	}
	first := resolve()
	s.publish("shared", "web", "1.2.0", at("", chartOf(t, "web", "1.2.0"), "a", "2"))
	resolve()
	s.git.commits["c2"] = join(shop, at("lib/", lib, "a", "2"))
	f := charts(t, "shop")
	f.Commit = "c2"
	got, err := b.Resolve(t.Context(), f)
	digests[got.Digest] = true
	if err != nil || len(digests) != 3 {
		t.Errorf("got %d digests (%v), want another one for each content", len(digests), err)
	}
	s.published["shared"]["web 1.2.0"] = "web 1.2.0 0"
	if got := resolve(); got != first {
		t.Errorf("got %s, want %s for the content of the beginning", got, first)
	}
	// A replica that knows nothing comes to the same.
	if got, err := s.builder(t).Resolve(t.Context(), charts(t, "shop")); err != nil || got.Digest != first {
		t.Errorf("got %s (%v) from a new builder, want %s", got.Digest, err, first)
	}
}

// TestDependenciesThatCannotBePacked are errors that name the file and the dependency.
func TestDependenciesThatCannotBePacked(t *testing.T) {
	t.Parallel()
	web := dependency{"web", "^1", "1.2.0", "shared"}
	good := at("", chartOf(t, "web", "1.2.0"))
	for name, test := range map[string]struct {
		shop, other, web commit
		word             string
	}{
		"unknown version": {shop: at("shop/", chartOf(t, "shop", "1.0.0", dependency{"web", "^1", "1.9.0", "shared"})), web: good, word: "not there"},
		"not allowed":     {shop: at("shop/", chartOf(t, "shop", "1.0.0", dependency{"web", "^1", "1.2.0", "private"})), web: good, word: "not there"},
		"another chart":   {shop: at("shop/", chartOf(t, "shop", "1.0.0", web)), web: at("", chartOf(t, "evil", "1.2.0")), word: `holds the chart "evil"`},
		"another version": {shop: at("shop/", chartOf(t, "shop", "1.0.0", web)), web: at("", chartOf(t, "web", "1.3.0")), word: "holds the version 1.3.0"},
		"no chart":        {shop: at("shop/", chartOf(t, "shop", "1.0.0", web)), web: plain(map[string]string{"a": ""}), word: "cannot be read"},
		"lacks its own":   {shop: at("shop/", chartOf(t, "shop", "1.0.0", web)), web: at("", chartOf(t, "web", "1.2.0", dependency{"base", "*", "1.0.0", "shared"})), word: "own dependencies: base"},
		"no folder":       {shop: at("shop/", chartOf(t, "shop", "1.0.0", dependency{"lib", "*", "1.0.0", "file://../lib"})), word: `no folder "lib"`},
		"no chart there":  {shop: at("shop/", chartOf(t, "shop", "1.0.0", dependency{"lib", "*", "1.0.0", "file://../lib"})), other: plain(map[string]string{"lib/x": ""}), word: "no Chart.yaml"},
		"other lib":       {shop: at("shop/", chartOf(t, "shop", "1.0.0", dependency{"lib", "*", "1.0.0", "file://../lib"})), other: at("lib/", chartOf(t, "lib", "1.1.0")), word: "holds the version 1.1.0"},
		"a link out": {
			shop:  at("shop/", chartOf(t, "shop", "1.0.0", dependency{"lib", "*", "1.0.0", "file://../lib"})),
			other: join(at("lib/", chartOf(t, "lib", "1.0.0")), commit{"lib/x": {kind: content.KindSymlink, text: "../secret"}}), word: "leaves the folder",
		},
		"taken": {shop: at("shop/", chartOf(t, "shop", "1.0.0", web), "charts/web-1.2.0.tgz.unpacked/x", ""), web: good, word: "remove it"},
	} {
		s := newShelf(join(test.shop, test.other))
		if test.web != nil {
			s.publish("shared", "web", "1.2.0", test.web)
		}
		_, err := s.builder(t).Resolve(t.Context(), charts(t, "shop"))
		if err == nil || !strings.Contains(err.Error(), test.word) || !strings.Contains(err.Error(), "shop/") {
			t.Errorf("%s: got %v, want an error about shop with %q", name, err, test.word)
		}
	}
}

// TestRefusedChartsAreLookedAtAgain does not hold what was wrong elsewhere against the commit.
func TestRefusedChartsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	s := newShelf(at("shop/", chartOf(t, "shop", "1.0.0", dependency{"web", "^1", "1.2.0", "shared"})))
	many := chartOf(t, "web", "1.2.0")
	s.publish("shared", "web", "1.2.0", join(at("", many), commit{"out": {kind: content.KindSymlink, text: "../../../../../x"}}))
	b := s.builder(t)
	if _, err := b.Resolve(t.Context(), charts(t, "shop")); !errors.Is(err, leaves.ErrUnsupported) {
		t.Errorf("got %v, want the link refused", err)
	}
	s.publish("shared", "web", "1.2.0", at("", many))
	if _, err := b.Resolve(t.Context(), charts(t, "shop")); err != nil {
		t.Errorf("got %v, want the corrected chart packed", err)
	}
	away := &mirror.UpstreamError{Message: "It is away."}
	s.publish("shared", "web", "1.2.0", at("", many, "a", "new"))
	s.away = away
	_, err := b.Resolve(t.Context(), charts(t, "shop"))
	if failed, ok := errors.AsType[*chartdep.FetchError](err); !ok || failed.Name != "web" || !errors.Is(err, away) {
		t.Errorf("got %v, want a failure that names the dependency", err)
	}
	s.away = nil
	if _, err := b.Resolve(t.Context(), charts(t, "shop")); err != nil {
		t.Errorf("got %v, want it fetched now", err)
	}
}

// TestDamagedDependency gives up the mirror of the charts, instead of the Git repository's.
func TestDamagedDependency(t *testing.T) {
	t.Parallel()
	s := newShelf(at("shop/", chartOf(t, "shop", "1.0.0", dependency{"web", "^1", "1.2.0", "shared"})))
	s.publish("shared", "web", "1.2.0", at("", chartOf(t, "web", "1.2.0")))
	s.charts["shared"].damage = true
	_, err := s.builder(t).Resolve(t.Context(), charts(t, "shop"))
	if _, ok := errors.AsType[*chartdep.FetchError](err); !ok || errors.Is(err, content.ErrDamaged) || !slices.Equal(s.givenUp, []string{"shared"}) {
		t.Errorf("got %v and %v given up, want the mirror of the charts fetched again", err, s.givenUp)
	}
}

// TestWhichChartsCount completes the chart at the source's path, and others only where the
// repository lists repositories. A chart without dependencies costs nothing, and a source that
// renders no chart is not refused.
func TestWhichChartsCount(t *testing.T) {
	t.Parallel()
	lacking := chartOf(t, "shop", "1.0.0", dependency{"web", "^1", "1.2.0", "shared"})
	s := newShelf(join(at("a/shop/", lacking), at("a/shop/charts/sub/", lacking), at("b/", chartOf(t, "b", "1.0.0")), plain(map[string]string{"bad/Chart.yaml": ":"})))
	b := s.builder(t)
	none := charts(t, "a")
	none.ChartRepositories = ""
	if _, err := b.Resolve(t.Context(), none); err != nil || s.finds != 0 {
		t.Errorf("got %v after %d lookups, want a chart further down left as it is", err, s.finds)
	}
	none = charts(t, "a/shop")
	none.ChartRepositories = ""
	if _, err := b.Resolve(t.Context(), none); err == nil || s.finds == 0 {
		t.Error("got no error for a dependency from nowhere")
	}
	artifact := charts(t, "a/shop")
	artifact.CompletesCharts = false
	for name, f := range map[string]snapshot.Folder{"an artifact": artifact, "without dependencies": charts(t, "b"), "no YAML": charts(t, "bad")} {
		if _, err := b.Resolve(t.Context(), f); err != nil {
			t.Errorf("%s: got %v, want it as it is", name, err)
		}
	}
	s.publish("shared", "web", "1.2.0", at("", chartOf(t, "web", "1.2.0")))
	got, err := b.Resolve(t.Context(), charts(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	var packed []string
	for name := range s.contents(t, got.Digest) {
		if strings.Contains(name, ".unpacked/") {
			packed = append(packed, name)
		}
	}
	slices.Sort(packed)
	if diff := cmp.Diff([]string{"shop/charts/web-1.2.0.tgz.unpacked/Chart.lock", "shop/charts/web-1.2.0.tgz.unpacked/Chart.yaml"}, packed); diff != "" {
		t.Errorf("packed (-want +got):\n%s", diff)
	}
}

// TestSecDependenciesOfCommitters are bounded, and stay in their repository and in their folder.
func TestSecDependenciesOfCommitters(t *testing.T) {
	t.Parallel()
	local := func(name, to string) dependency { return dependency{name, "*", "1.0.0", "file://" + to} }
	deep := commit{}
	for i := range 9 {
		maps.Copy(deep, at(fmt.Sprintf("deep/%d/", i), chartOf(t, fmt.Sprint("c", i), "1.0.0", local(fmt.Sprint("c", i+1), fmt.Sprintf("../%d", i+1)))))
	}
	wide := commit{}
	for i := range 5 {
		var all []dependency
		for j := range 60 {
			name := fmt.Sprintf("w%d-%d", i, j)
			all = append(all, local(name, "../../leaf/"+name))
			maps.Copy(wide, at("leaf/"+name+"/", chartOf(t, name, "1.0.0")))
		}
		maps.Copy(wide, at(fmt.Sprintf("wide/%d/", i), chartOf(t, fmt.Sprint("w", i), "1.0.0", all...)))
	}
	long := commit{}
	for i := range 70 {
		maps.Copy(long, at(fmt.Sprintf("long/%02d/", i), map[string]string{"Chart.yaml": "name: x\n#" + strings.Repeat("x", 250<<10)}))
	}
	charted := commit{}
	for i := range 1001 {
		maps.Copy(charted, at(fmt.Sprintf("many/%04d/", i), map[string]string{"Chart.yaml": "{name: x}"}))
	}
	aliased := chartOf(t, "aliased", "1.0.0")
	aliased["Chart.yaml"] = `{apiVersion: v2, name: aliased, version: 1.0.0, dependencies: [{name: lib, version: "*", repository: "file://../lib", alias: "../../../x"}]}`
	delete(aliased, "Chart.lock")
	for path, test := range map[string]struct {
		files commit
		word  string
	}{
		"etc":     {at("etc/", chartOf(t, "etc", "1.0.0", local("x", "../../../etc"))), "stays in the repository"},
		"abs":     {at("abs/", chartOf(t, "abs", "1.0.0", local("x", "/etc"))), "stays in the repository"},
		"self":    {at("self/", chartOf(t, "self", "1.0.0", local("self", "."))), "of itself"},
		"up/in":   {join(at("up/in/", chartOf(t, "in", "1.0.0", local("up", ".."))), at("up/", chartOf(t, "up", "1.0.0"))), "of itself"},
		"ring/a":  {join(at("ring/a/", chartOf(t, "a", "1.0.0", local("b", "../b"))), at("ring/b/", chartOf(t, "b", "1.0.0", local("a", "../a")))), "of itself"},
		"deep/0":  {deep, "nested deeper than 5"},
		"wide":    {wide, "one too many"},
		"many":    {charted, "a chart too many"},
		"long":    {long, "too many charts with long files"},
		"version": {join(at("version/", chartOf(t, "version", "1.0.0", local("evil", "../evil"))), at("evil/", map[string]string{"Chart.yaml": `{name: evil, version: "1.0.0/../../../x"}`})), "not one of Semantic Versioning"},
		"module": {join(at("module/", chartOf(t, "module", "1.0.0", local("linked", "../linked"))), at("linked/", chartOf(t, "linked", "1.0.0")),
			commit{"linked/sub": {kind: content.KindSubmodule, text: "c"}}), "is a submodule"},
	} {
		if _, err := newShelf(test.files).builder(t).Resolve(t.Context(), charts(t, path)); err == nil || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%s: got %v, want it refused with %q", path, err, test.word)
		}
	}
	s := newShelf(join(at("lib/", chartOf(t, "lib", "1.0.0")), at("aliased/", aliased)))
	b := s.builder(t)
	got, err := b.Resolve(t.Context(), charts(t, "aliased"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Chart.yaml", "charts/lib-1.0.0.tgz.unpacked/Chart.lock", "charts/lib-1.0.0.tgz.unpacked/Chart.yaml"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.contents(t, got.Digest)))); diff != "" {
		t.Errorf("names with an alias that leads upwards (-want +got):\n%s", diff)
	}
}
