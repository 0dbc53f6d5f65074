// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package worktree_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/worktree"
)

// folder makes a folder with these files. A content that begins with "->" means a link.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(text, "->"); isLink {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// read returns the entries of a bundle with their content, and the folder of the source's path.
func read(t *testing.T, root string, source *typev1.Source) (map[string]string, string) {
	t.Helper()
	b, err := worktree.Read(t.Context(), root, source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Tar.Close() }()
	found, r := map[string]string{}, bundle.NewReader(b.Tar, bundle.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, b.Folder
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name] = string(text)
		if e.IsSymlink() {
			found[e.Name] = "->" + e.Target
		}
		if e.Executable {
			found[e.Name] += " (executable)"
		}
	}
}

func TestFoldersAreBundledLikeCommits(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		".leatignore": "*.tmp\n", "app/a.yaml": "a", "app/b.tmp": "b", "app/run": "#!", "app/link": "->a.yaml",
		"app/sub/.leatignore": "/c.yaml\n", "app/sub/c.yaml": "c", "app/sub/d.yaml": "d", "app-x.yaml": "x", "base/e.yaml": "e",
		"app/.gitignore": "*.secret\n", "app/f.secret": "f", "app/sub/g.secret": "g",
	}
	root := folder(t, files)
	if err := os.Chmod(filepath.Join(root, "app/run"), 0o700); err != nil {
		t.Fatal(err)
	}
	app := map[string]string{
		".gitignore": "*.secret\n", "a.yaml": "a", "run": "#! (executable)", "link": "->a.yaml", "sub/d.yaml": "d", "f.secret": "f", "sub/g.secret": "g",
	}
	got, at := read(t, root, &typev1.Source{Path: "app"})
	if diff := cmp.Diff(app, got); diff != "" || at != "" {
		t.Errorf("at %q, a folder outside of a repository (-want +got):\n%s", at, diff)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	delete(app, "f.secret")
	delete(app, "sub/g.secret")
	if err := os.WriteFile(filepath.Join(root, "app/sub/.git"), []byte("gitdir: elsewhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, _ = read(t, root, &typev1.Source{Path: "app"})
	if diff := cmp.Diff(app, got); diff != "" {
		t.Errorf("a folder of a repository (-want +got):\n%s", diff)
	}
	got, at = read(t, root, &typev1.Source{Path: "app/sub", Root: "app", Folders: []string{"base"}, Exclude: []string{"run", ".gitignore"}})
	want := map[string]string{"app/a.yaml": "a", "app/link": "->a.yaml", "app/sub/d.yaml": "d", "base/e.yaml": "e"}
	if diff := cmp.Diff(want, got); diff != "" || at != "app/sub" {
		t.Errorf("at %q, a selection (-want +got):\n%s", at, diff)
	}
}

func TestErrorsHaveReasons(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{
		"a/out": "->../../etc/passwd", "b/x": "x", "c/x.yaml": "x", "big/x": strings.Repeat("x", 33<<20),
		"lfs/x": "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 12\n", "file": "x",
	})
	for _, test := range []struct {
		source *typev1.Source
		want   reason.Reason
		says   string
	}{
		{&typev1.Source{Path: "a"}, reason.ContentUnsupported, `"a/out" links to outside the bundle`},
		{&typev1.Source{Path: "big"}, reason.BundleTooLarge, "33554432 file bytes"},
		{&typev1.Source{Path: "lfs"}, reason.ContentUnsupported, "is a Git LFS pointer"},
		{&typev1.Source{Path: "gone"}, reason.PathNotFound, `no folder "gone"`},
		{&typev1.Source{Path: "file"}, reason.PathNotFound, `no folder "file"`},
		{&typev1.Source{Path: "c", Exclude: []string{"*"}}, reason.PathNotFound, `leave nothing of the folder "c"`},
		{&typev1.Source{Path: "../x"}, reason.FieldInvalid, "path:"},
	} {
		_, err := worktree.Read(t.Context(), root, test.source)
		problem, ok := errors.AsType[*reason.Problem](err)
		if !ok || problem.Reason != test.want || !strings.Contains(problem.Message, test.says) {
			t.Errorf("%v: got %v, want %v with %q", test.source, err, test.want, test.says)
		}
	}
}

// TestLinksAreNotFollowed makes sure that nothing outside of the folder is read.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	outside := folder(t, map[string]string{"x.yaml": "secret", ".gitignore": "a.yaml"})
	root := folder(t, map[string]string{"a.yaml": "a", "in/b.yaml": "b", "up": "->" + outside, ".gitignore": "->" + filepath.Join(outside, ".gitignore"), ".git/x": ""})
	if _, err := worktree.Read(t.Context(), root, &typev1.Source{Path: "up"}); err == nil {
		t.Error("got the content behind a link, want an error")
	}
	got, _ := read(t, root, &typev1.Source{Exclude: []string{"up", ".gitignore"}})
	if diff := cmp.Diff(map[string]string{"a.yaml": "a", "in/b.yaml": "b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(folder(t, map[string]string{"app/web/a.yaml": "a", "file": ""}))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(root, "app", "web")
	if got, path, err := worktree.Locate(at); err != nil || got != at || path != "" {
		t.Errorf("got %s, %q, %v, want the folder itself", got, path, err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, path, err := worktree.Locate(at); err != nil || got != root || path != "app/web" {
		t.Errorf("got %s, %q, %v, want the repository", got, path, err)
	}
	for _, name := range []string{"file", "gone"} {
		if _, _, err := worktree.Locate(filepath.Join(root, name)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestDependenciesOfCharts packs a dependency of the same repository, counts what helm dependency
// build has put into charts although Git ignores it, and names the command for missing ones.
func TestDependenciesOfCharts(t *testing.T) {
	t.Parallel()
	const chart = "{apiVersion: v2, name: shop, version: 1.0.0, dependencies: [{name: web, version: 1.0.0, repository: \"https://charts.example.com\"}]}"
	files := map[string]string{
		".git/HEAD": "", ".gitignore": "charts/\n*.tgz\n", "shop/Chart.yaml": chart, "shop/charts/web-1.0.0.tgz": "packed", "other/charts/x.tgz": "no chart's",
		"local/Chart.yaml": "{apiVersion: v2, name: local, version: 1.0.0, dependencies: [{name: lib, version: \"*\", repository: \"file://../lib\"}]}",
		"lib/Chart.yaml":   "{apiVersion: v2, name: lib, version: 0.1.0}", "lib/x.tgz": "ignored",
		"gone/Chart.yaml": chart,
	}
	root := folder(t, files)
	for path, want := range map[string]map[string]string{
		"shop":  {"Chart.yaml": chart, "charts/web-1.0.0.tgz": "packed"},
		"local": {"Chart.yaml": files["local/Chart.yaml"], "charts/lib-0.1.0.tgz.unpacked/Chart.yaml": files["lib/Chart.yaml"]},
	} {
		got, _ := read(t, root, &typev1.Source{Path: path})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	_, err := worktree.Read(t.Context(), root, &typev1.Source{Path: "gone"})
	problem, ok := errors.AsType[*reason.Problem](err)
	if !ok || problem.Reason != reason.ContentUnsupported || !strings.Contains(problem.Message, "gone/Chart.yaml") || !strings.Contains(problem.Message, "helm dependency update") {
		t.Errorf("got %v, want the lock file asked for", err)
	}
	if err := os.WriteFile(filepath.Join(root, "gone", "Chart.lock"), []byte(
		"{dependencies: [{name: web, version: 1.0.0, repository: \"https://charts.example.com\"}], "+
			"digest: \"sha256:4fe9e88b3fb7f5c6ec880c62dc70554beaaf598fe60fc9282e56568f6f61f836\"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = worktree.Read(t.Context(), root, &typev1.Source{Path: "gone"})
	problem, ok = errors.AsType[*reason.Problem](err)
	if !ok || problem.Reason != reason.ChartDependencyUnavailable || !strings.Contains(problem.Message, "helm dependency build") {
		t.Errorf("got %v, want the command that packs the dependency", err)
	}
}
