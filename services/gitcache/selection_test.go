// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// TestSelectionTravels selects on one replica, and has the bundle built again by another that has a
// mirror of its own.
func TestSelectionTravels(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	commit := repo.CommitFiles(t, "main", map[string]gittest.File{
		"VERSION": gittest.Text("1\n"), ".leatignore": gittest.Text("*.bak\n/apps/*/drafts/\n"),
		"apps/web/a.yaml": gittest.Text("a: 1\n"), "apps/web/a.yaml.bak": gittest.Text("old"), "apps/web/drafts/d.yaml": gittest.Text("d: 1\n"),
		"apps/web/test/t.yaml": gittest.Text("t: 1\n"), "apps/web/run.sh": gittest.Executable("#!/bin/sh\n"),
		"apps/web/link": gittest.Symlink("test/t.yaml"), "apps/web/out": gittest.Symlink("/etc"),
		"apps/base/.leatignore": gittest.Text("!*.bak\n"), "apps/base/b.bak": gittest.Text("kept"), "apps/base/b.yaml": gittest.Text("b: 1\n"), "apps/other/x": gittest.Text("x"),
	})
	src := source("demo", "main", "apps/web")
	src.Folders, src.Files = []string{"apps/base"}, []string{"VERSION"}
	src.Include, src.Exclude = []string{"*.yaml", "*.bak", "*.sh", "link", "out"}, []string{"test/", "out"}
	want := map[string]string{
		"VERSION": "1\n", "apps/web/a.yaml": "a: 1\n", "apps/web/run.sh*": "#!/bin/sh\n", "apps/web/link": "test/t.yaml",
		"apps/base/b.bak": "kept", "apps/base/b.yaml": "b: 1\n",
	}
	replicas := make([]*replica, 2) // of two hubs, which share nothing but the upstream
	for i := range replicas {
		replicas[i] = start(t, redistest.Start(t).URL(), t.TempDir())
		replicas[i].put(t, definition("demo", repo.URL()))
		replicas[i].state(t, "demo", ready)
	}
	snap := replicas[0].resolve(t, src)
	if snap.GetCommit() != commit || int(snap.GetFileCount()) != len(want) {
		t.Errorf("got %v, want %d files of %s", snap, len(want), commit)
	}
	other := replicas[1]
	_, _, err := other.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: snap.GetDigest(), Commit: commit, Path: "apps/base"})
	wantReason(t, err, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND)
	rebuild := &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: snap.GetDigest(), Commit: commit, Source: src}
	_, stored, err := other.download(t, rebuild)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, unpack(t, snap.GetDigest(), stored)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	if again := other.resolve(t, src); again.GetDigest() != snap.GetDigest() {
		t.Errorf("got digest %s on the other replica, want %s", again.GetDigest(), snap.GetDigest())
	}
	repo.Commit(t, "main", map[string]string{"apps/web/test/t.yaml": "t: 2\n", "apps/web/new.bak": "new", "apps/other/x": "y"})
	other.refresh(t, "demo")
	if again := other.resolve(t, src); again.GetDigest() != snap.GetDigest() || again.GetCommit() == commit {
		t.Errorf("got %v after a commit to what is left out, want digest %s at a new commit", again, snap.GetDigest())
	}
}

func TestSelectionThatIsRefused(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redistest.Start(t).URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	refused := func(change func(*typev1.Source)) error {
		src := source("demo", "main", "app")
		change(src)
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: src})
		return err
	}
	wantField(t, refused(func(s *typev1.Source) { s.Folders = []string{"a", "../b"} }), "source.folders[1]")
	wantField(t, refused(func(s *typev1.Source) { s.Files = []string{"a/"} }), "source.files[0]")
	wantField(t, refused(func(s *typev1.Source) { s.Include = []string{"#x"} }), "source.include[0]")
	wantField(t, refused(func(s *typev1.Source) { s.Exclude = []string{"x", "a\nb"} }), "source.exclude[1]")
	wantReason(t, refused(func(s *typev1.Source) { s.Folders = []string{"gone"} }), errorsv1.Reason_REASON_PATH_NOT_FOUND)
	wantReason(t, refused(func(s *typev1.Source) { s.Files = []string{"gone"} }), errorsv1.Reason_REASON_PATH_NOT_FOUND)
	wantReason(t, refused(func(s *typev1.Source) { s.Exclude = []string{"*.yaml"} }), errorsv1.Reason_REASON_PATH_NOT_FOUND)

	digest := r.resolve(t, source("demo", "main", "app")).GetDigest()
	for field, req := range map[string]*gitcachev1.DownloadBundleRequest{
		"path":              {Digest: digest, Path: "app", Source: source("demo", "main", "app")},
		"source.exclude[0]": {Digest: digest, Source: &typev1.Source{Exclude: []string{"!"}}},
	} {
		req.Repository = "demo"
		_, _, err := r.download(t, req)
		wantField(t, err, field)
	}
}

// sample is a random tree with a random selection of it.
type sample struct {
	files  map[string]string
	source *typev1.Source
}

// The files that hold a sample's patterns, for the git command to read.
const (
	ignoreFile  = ".leatignore"
	includeFile = ".include"
	excludeFile = ".exclude"
)

// TestSelectionEqualsGit holds random selections of random commits against what the git command
// ignores.
func TestSelectionEqualsGit(t *testing.T) {
	t.Parallel()
	const count = 40
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	repo, dir := gittest.New(t).Repo(t, "demo"), t.TempDir()
	samples := make([]sample, count)
	for i := range samples {
		samples[i] = randomSample(random)
		samples[i].source.Ref = &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: caseName(i)}}
		repo.Commit(t, caseName(i), samples[i].files)
		writeSample(t, filepath.Join(dir, caseName(i)), samples[i])
	}
	ignored := listGit(t, dir, "--exclude-per-directory="+ignoreFile)
	included := listGit(t, dir, "--exclude-per-directory="+includeFile)
	excluded := listGit(t, dir, "--exclude-per-directory="+excludeFile)

	r := start(t, redistest.Start(t).URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	empty := 0
	for i, s := range samples {
		var want []string
		folders := append([]string{s.source.GetPath()}, s.source.GetFolders()...)
		for file := range s.files {
			at := caseName(i) + "/" + file
			kept := inAny(file, folders) && !ignored[at] && !excluded[at] && (len(s.source.GetInclude()) == 0 || included[at])
			if path.Base(file) != ignoreFile && (kept || slices.Contains(s.source.GetFiles(), file)) {
				want = append(want, file)
			}
		}
		slices.Sort(want)
		if slices.ContainsFunc(folders, func(folder string) bool {
			return !slices.ContainsFunc(want, func(file string) bool { return inAny(file, []string{folder}) })
		}) {
			want, empty = nil, empty+1
		}
		if diff := cmp.Diff(want, selected(t, r, s)); diff != "" {
			t.Errorf("%v of %v (-git +ours):\n%s", s.source, s.files, diff)
		}
	}
	if empty == 0 || empty == count {
		t.Errorf("got %d of %d samples with nothing left of a folder, want some", empty, count)
	}
}

func inAny(file string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return folder == "" || strings.HasPrefix(file, folder+"/") })
}

func caseName(i int) string { return fmt.Sprintf("case-%02d", i) }

// selected returns the repository's paths of what the bundle of a sample holds; none where nothing
// is left of a folder.
func selected(t *testing.T, r *replica, s sample) []string {
	t.Helper()
	resp, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: s.source})
	if err != nil {
		wantReason(t, err, errorsv1.Reason_REASON_PATH_NOT_FOUND)
		return nil
	}
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: resp.GetSnapshot().GetDigest()})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(unpack(t, resp.GetSnapshot().GetDigest(), stored)))
}

func writeSample(t *testing.T, dir string, s sample) {
	t.Helper()
	files := maps.Clone(s.files)
	files[includeFile] = strings.Join(s.source.GetInclude(), "\n")
	files[excludeFile] = strings.Join(s.source.GetExclude(), "\n")
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// listGit returns the files below dir that git ignores by such patterns.
func listGit(t *testing.T, dir, patterns string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, args := range [][]string{{"init", "-q"}, {"ls-files", "-z", "-o", "-i", patterns}} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir, command.Env = dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
		out, err := command.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		for file := range strings.SplitSeq(string(out), "\x00") {
			found[file] = true
		}
	}
	return found
}

func randomSample(r *rand.Rand) sample {
	names := []string{"a", "b", "ab", "foo", "x.md", "y.yaml", "[a]", "d", "!e", "#f"}
	patterns := []string{
		"a", "b", "*.md", "*.yaml", "/a", "a/", "/d/", "d/*", "**/a", "d/**", "!a", "!*.md", "!d/", "[!a]", "?", "\\#f", "\\!e", "*", "foo/**/a", "/*/b", "\\[a\\]",
	}
	pick := func(from []string, most int) (some []string) {
		for range r.IntN(most + 1) {
			some = append(some, from[r.IntN(len(from))])
		}
		return some
	}
	files := map[string]string{"d/y.yaml": "", "a/d/x.md": "", "foo/a/b": "", "top": ""}
	for range 25 {
		folder := [...]string{"", "d/", "a/", "a/d/", "foo/", "foo/a/", "foo/[a]/"}[r.IntN(7)]
		name := names[r.IntN(len(names))]
		if name == "a" || name == "d" || name == "foo" || name == "[a]" {
			name += "/" + names[4+r.IntN(2)]
		}
		files[folder+name] = ""
	}
	for _, folder := range []string{"", "d/", "a/", "a/d/", "foo/"} {
		if r.IntN(3) == 0 {
			files[folder+ignoreFile] = strings.Join(pick(patterns, 3), "\n")
		}
	}
	src := &typev1.Source{Repository: "demo", Path: [...]string{"", "", "a", "foo/a"}[r.IntN(4)], Include: pick(patterns, 2), Exclude: pick(patterns, 2)}
	if src.GetPath() != "" { // top keeps names relative to the repository's root
		src.Files = []string{"top"}
	}
	if src.GetPath() != "" && r.IntN(2) == 0 {
		src.Folders = []string{"d"}
	}
	return sample{files: files, source: src}
}
