// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/leatdev/leat/test/charts"
	"github.com/leatdev/leat/test/release"
	"github.com/leatdev/leat/test/release/recipe"
	"github.com/leatdev/leat/test/supply"
)

// top is the root of the tree.
const top = "../.."

// version is the version that the tests release.
const version = "v1.2.3-rc.1"

// committed is the time of the commit that the tests release.
const committed = "2026-03-01T11:00:00Z"

// tunnel stands for the program of the service. It is small, and prints what the real one does, by the
// same package.
const tunnel = `package main

import "github.com/leatdev/leat/internal/runtime/app"

func main() { println(app.Build().Version, app.Build().Commit) }
`

// checkout returns a repository with the tree's own Dockerfile, charts and package of versions, and
// a small program. Everything is committed.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"Dockerfile", "LICENSE", supply.NoticesFile, "README.md", "deploy/image/ca-certificates.crt", "deploy/images.env", "internal/runtime/app/build.go"} {
		content, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, string(content))
	}
	for _, chart := range []string{charts.Hub, charts.Agent} {
		name := filepath.Join("deploy", "helm", chart)
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(top, name))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, ".gitignore", "/dist/\n")
	write(t, dir, "internal/go.mod", "module github.com/leatdev/leat/internal\n\ngo 1.26.0\n")
	write(t, dir, "services/tunnel/cmd/tunnel/main.go", tunnel)
	write(t, dir, "services/tunnel/go.mod", `module github.com/leatdev/leat/services/tunnel

go 1.26.0

require github.com/leatdev/leat/internal v0.0.0

replace github.com/leatdev/leat/internal => ../../internal
`)
	git(t, dir, "init", "--quiet")
	commit(t, dir)
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// git runs git apart from the machine's settings, and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_AUTHOR_DATE="+committed, "GIT_COMMITTER_DATE="+committed)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--allow-empty", "--message", "x")
}

// own returns how the images of this checkout are named.
func own(t *testing.T) supply.Own {
	t.Helper()
	o, err := supply.ReadOwn(top)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// params are the parameters of a small release: one program, for the platform on which the test can
// run it.
func params(t *testing.T, dir string) release.Params {
	t.Helper()
	parsed, err := release.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return release.Params{
		Top: dir, Out: filepath.Join(dir, "dist"), Version: parsed, Programs: []string{"tunnel"},
		Platforms: []release.Platform{{OS: "linux", Arch: runtime.GOARCH}},
	}
}

// made makes a release and returns its folder.
func made(t *testing.T, p release.Params) string {
	t.Helper()
	if err := release.Make(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p.Out
}

// contents returns the content of each file in a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = string(content)
	}
	return found
}

// Names of the files of the small release.
var (
	program    = "leat-tunnel_1.2.3-rc.1_linux_" + runtime.GOARCH
	image      = "leat-tunnel_1.2.3-rc.1_image"
	statements = []string{"leat_1.2.3-rc.1_charts.intoto.jsonl", "leat_1.2.3-rc.1_images.intoto.jsonl", "leat_1.2.3-rc.1_programs.intoto.jsonl"}
)

// TestRelease makes a small release and reads everything in it.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	git(t, dir, "tag", version)
	folder := made(t, params(t, dir))
	files := contents(t, folder)
	want := slices.Concat(statements, []string{
		release.Sums, program + ".tar.gz", program + ".cdx.json", image + ".oci.tar", image + ".cdx.json",
		"leat-1.2.3-rc.1.tgz", "leat-agent-1.2.3-rc.1.tgz",
	})
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Fatalf("files of the release (-want +got):\n%s", diff)
	}
	revision := git(t, dir, "rev-parse", "HEAD")
	checkProgram(t, filepath.Join(folder, program+".tar.gz"), revision)
	checkSums(t, folder, len(files)-1)
	for name, about := range map[string]string{program: "tunnel", image: own(t).Name("tunnel")} {
		checkInventory(t, files[name+".cdx.json"], about)
	}
	index := checkImage(t, dir, filepath.Join(folder, image+".oci.tar"), revision)
	checkProvenance(t, files, revision, index)
	for _, name := range []string{charts.Hub, charts.Agent} {
		checkChart(t, folder, name)
	}
}

// unpack unpacks a tar into a folder, and returns a line for each entry.
func unpack(t *testing.T, file, folder string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := io.Reader(f)
	if !strings.HasSuffix(file, ".tar") {
		if content, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		info := header.FileInfo()
		lines = append(lines, fmt.Sprintf("%v %d:%d %s", info.Mode(), header.Uid, header.Gid, header.Name))
		if got := header.ModTime.UTC().Format("2006-01-02T15:04:05Z"); got != committed {
			t.Errorf("%s: %s has the time %s, want the commit's", filepath.Base(file), header.Name, got)
		}
		target := filepath.Join(folder, filepath.FromSlash(header.Name))
		text, err := io.ReadAll(reader)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o755)); err == nil && !info.IsDir() {
			err = os.WriteFile(target, text, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkProgram runs the program of an archive.
func checkProgram(t *testing.T, file, revision string) {
	t.Helper()
	folder := t.TempDir()
	want := []string{
		"drwxr-xr-x 0:0 " + program + "/", "-rw-r--r-- 0:0 " + program + "/LICENSE", "-rw-r--r-- 0:0 " + program + "/README.md",
		"-rw-r--r-- 0:0 " + program + "/" + supply.NoticesFile, "-rwxr-xr-x 0:0 " + program + "/leat-tunnel",
	}
	if diff := cmp.Diff(want, unpack(t, file, folder)); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	checkLinks(t, filepath.Join(folder, program, "README.md"), "docs/README.md", "LICENSE", supply.NoticesFile)
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, program, "leat-tunnel")).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "1.2.3-rc.1 "+revision {
		t.Errorf("the program says that its version and commit are %q, %v, want the release's", got, err)
	}
}

// checkLinks requires that what a README links to, such as the page, is at the release's tag, or
// beside it.
func checkLinks(t *testing.T, file, page string, beside ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "](https://github.com/leatdev/leat/blob/" + version + "/" + page; !strings.Contains(string(text), want) {
		t.Errorf("%s has no link to %s of the tag", file, page)
	}
	if picture := regexp.MustCompile(`!\[[^]]*\]\(https://github\.com/leatdev/leat/blob/`).Find(text); picture != nil {
		t.Errorf("%s shows the page of a picture in place of it: %s", file, picture)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(string(text), -1) {
		if target := link[1]; !strings.HasPrefix(target, "https://") && !slices.Contains(beside, target) {
			t.Errorf("%s links to %s, which its reader does not have", file, target)
		}
	}
}

// checkSums verifies the checksums with sha256sum, as on the pages.
func checkSums(t *testing.T, folder string, count int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", release.Sums)
	command.Dir = folder
	out, err := command.CombinedOutput()
	if lines := strings.Count(string(out), ": OK\n"); err != nil || lines != count {
		t.Errorf("got %v and %d files that fit, want all %d:\n%s", err, lines, count, out)
	}
}

// inventory holds the fields that the tests read of an SBOM.
type inventory struct {
	BOMFormat string
	Metadata  struct{ Component component }
	// Components contain both the programs of an image and the modules in them.
	Components []component
}

type component struct {
	Type, Name, Version string
	Hashes              []struct{ Content string }
}

func checkInventory(t *testing.T, text, name string) {
	t.Helper()
	var got inventory
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	about := got.Metadata.Component
	if got.BOMFormat != "CycloneDX" || about.Name != name || about.Version != "1.2.3-rc.1" || len(about.Hashes) != 1 {
		t.Errorf("got an inventory in %q about %+v, want one about %s in this version", got.BOMFormat, about, name)
	}
	names := map[string]string{}
	for _, c := range got.Components {
		names[c.Name] = c.Type
		if c.Name == "github.com/leatdev/leat/internal" && c.Version != version {
			t.Errorf("inventory of %s: its own module has the version %q, want the release's", name, c.Version)
		}
	}
	want := map[string]string{"std": "library", "github.com/leatdev/leat/internal": "library"}
	if about.Type == "container" {
		want["tunnel"], want["/etc/ssl/certs/ca-certificates.crt"] = "application", "file"
		want["/licenses/LICENSE"], want["/licenses/"+supply.NoticesFile] = "file", "file"
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("inventory of %s (-want +got):\n%s", name, diff)
	}
}

// checkImage compares an image with the Dockerfile, and returns the digest of its index.
func checkImage(t *testing.T, dir, file, revision string) v1.Hash {
	t.Helper()
	folder := t.TempDir()
	unpack(t, file, folder)
	list, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(list); err != nil {
		t.Errorf("the layout is not valid: %v", err)
	}
	manifest, err := list.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("got %+v, %v, want one image", manifest, err)
	}
	charted := own(t).Name("tunnel") + ":1.2.3-rc.1" // which the chart of the release runs
	if name := manifest.Manifests[0].Annotations["io.containerd.image.name"]; name != charted {
		t.Errorf("containerd imports the image as %s, want %s", name, charted)
	}
	id := manifest.Manifests[0].Digest
	index, err := list.ImageIndex(id)
	if err != nil {
		t.Fatal(err)
	}
	variants, err := index.IndexManifest()
	if err != nil || len(variants.Manifests) != 1 || variants.Manifests[0].Platform.String() != "linux/"+runtime.GOARCH {
		t.Fatalf("got %+v, %v, want one variant", variants, err)
	}
	variant, err := index.Image(variants.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := variant.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := recipe.Read(string(dockerfile), "", map[string]string{"SERVICE": "tunnel", "VERSION": "1.2.3-rc.1", "REVISION": revision})
	if err != nil {
		t.Fatal(err)
	}
	if got.Config.User != "65532:65532" || got.Config.User != want.Config.User || got.Config.WorkingDir != want.Config.WorkingDir || len(got.Config.Volumes) > 0 {
		t.Errorf("got the user %s and volumes %v, want the Dockerfile's", got.Config.User, got.Config.Volumes)
	}
	for part, pair := range map[string][2]any{
		"labels": {want.Config.Labels, got.Config.Labels}, "entry point": {want.Config.Entrypoint, got.Config.Entrypoint},
		"environment": {want.Config.Env, got.Config.Env}, "health check": {want.Config.Healthcheck.Test, got.Config.Healthcheck.Test},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", part, diff)
		}
	}
	if got.Config.Labels["org.opencontainers.image.revision"] != revision || got.Config.Labels["org.opencontainers.image.version"] != "1.2.3-rc.1" {
		t.Errorf("got the labels %v, want this commit and version", got.Config.Labels)
	}
	return id
}

// checkProvenance requires that the statements are about all other files, by their checksums, and
// about the image by the digest that registries know.
func checkProvenance(t *testing.T, files map[string]string, revision string, index v1.Hash) {
	t.Helper()
	want, got := map[string]string{own(t).Name("tunnel"): index.Hex}, map[string]string{}
	for line := range strings.Lines(files[release.Sums]) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !slices.Contains(statements, name) {
			want[name] = sum
		}
	}
	for _, name := range statements {
		var s struct {
			Type          string `json:"_type"`
			PredicateType string
			Subject       []struct {
				Name   string
				Digest struct{ SHA256 string }
			}
			Predicate struct {
				BuildDefinition struct {
					BuildType            string
					ExternalParameters   map[string]string
					ResolvedDependencies []struct {
						URI    string
						Digest map[string]string
					}
				}
				RunDetails struct{ Builder struct{ ID string } }
			}
		}
		if err := json.Unmarshal([]byte(files[name]), &s); err != nil || strings.Count(files[name], "\n") != 1 {
			t.Fatalf("%s: %v; want one statement on a line:\n%s", name, err, files[name])
		}
		definition := s.Predicate.BuildDefinition
		if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" || definition.BuildType == "" ||
			s.Predicate.RunDetails.Builder.ID == "" || definition.ExternalParameters["version"] != version {
			t.Errorf("%s: got %+v, want SLSA's provenance of this version", name, s)
		}
		if from := definition.ResolvedDependencies; len(from) != 1 || from[0].Digest["gitCommit"] != revision ||
			from[0].URI != "git+https://github.com/leatdev/leat@refs/tags/"+version {
			t.Errorf("%s: made from %+v, want the commit", name, from)
		}
		for _, subject := range s.Subject {
			got[subject.Name] = subject.Digest.SHA256
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subjects (-checksums +statements):\n%s", diff)
	}
}

// checkChart renders a chart from its package.
func checkChart(t *testing.T, folder, name string) {
	t.Helper()
	file, unpacked := filepath.Join(folder, name+"-1.2.3-rc.1.tgz"), t.TempDir()
	unpack(t, file, unpacked)
	checkLinks(t, filepath.Join(unpacked, name, "README.md"), "docs/operations/kubernetes.md")
	c, err := loader.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"database": map[string]any{"mode": "trial"}}
	programs := []string{"gitcache", "distributor", "tunnel"}
	if name == charts.Agent {
		programs = []string{"agent"}
		values = map[string]any{"hub": map[string]any{"url": "https://leat.example.com"}, "join": map[string]any{"token": "x"}}
	}
	if c.Metadata.Version != "1.2.3-rc.1" || c.Metadata.AppVersion != "1.2.3-rc.1" {
		t.Errorf("chart %s: got %+v, want the release's version", name, c.Metadata)
	}
	rendered, err := charts.Render(c, charts.Release{Name: name, Namespace: "leat"}, values)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(charts.Documents(rendered), "\n")
	for _, program := range programs {
		if image := own(t).Name(program) + ":1.2.3-rc.1"; !strings.Contains(text, "image: "+image+"\n") {
			t.Errorf("chart %s: does not run %s", name, image)
		}
	}
}

// TestReleaseIsReproducible makes a release twice, of clones in other folders, and once more in place
// of the second one.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	dir, clone := checkout(t), filepath.Join(t.TempDir(), "clone")
	git(t, dir, "clone", "--quiet", ".", clone)
	first := contents(t, made(t, params(t, dir)))
	for range 2 {
		second := contents(t, made(t, params(t, clone)))
		for name, content := range first {
			if second[name] != content {
				t.Errorf("%s: differs in another checkout of the commit", name)
			}
		}
		if len(first) != len(second) {
			t.Errorf("got %d files and %d, want the same", len(first), len(second))
		}
	}
}

// TestReleaseReplacesAnother makes a release where another version is, keeps that one while the new
// one cannot be made, and refuses to delete files that are not part of a release.
func TestReleaseReplacesAnother(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	p := params(t, dir)
	folder := made(t, p)
	var err error
	if p.Version, err = release.ParseVersion("v1.2.3"); err != nil {
		t.Fatal(err)
	}
	before := contents(t, folder)
	source := filepath.Join("deploy", "helm", charts.Agent, "Chart.yaml")
	chart, err := os.ReadFile(filepath.Join(dir, source))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, source, "name: [")
	commit(t, dir)
	if err := release.Make(t.Context(), p); err == nil {
		t.Error("got no error for a chart that nobody can read")
	}
	if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
		t.Error("a release that failed changed the one before")
	}
	write(t, dir, source, string(chart))
	commit(t, dir)
	for name := range contents(t, made(t, p)) {
		if strings.Contains(name, "rc.1") {
			t.Errorf("%s: the release before is still there", name)
		}
	}
	write(t, folder, "mine", "x")
	if err := release.Make(t.Context(), p); err == nil || !strings.Contains(err.Error(), "mine") {
		t.Errorf("got %v, want a file of somebody else named", err)
	}
	if files := contents(t, folder); files["mine"] != "x" || files[release.Sums] == "" {
		t.Error("a release that was refused changed the folder")
	}
}

// TestRefusals requires that nothing is made of a checkout or a version that a release could not
// name.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"a file that is not committed": {func(t *testing.T, dir string) {
			git(t, dir, "config", "status.showUntrackedFiles", "no")
			write(t, dir, "services/tunnel/cmd/tunnel/more.go", "package main\n")
		}, "more.go"},
		"a file that changed":         {func(t *testing.T, dir string) { write(t, dir, "README.md", "x") }, "README.md"},
		"a commit of another version": {func(t *testing.T, dir string) { git(t, dir, "tag", "v1.2.3") }, "want v1.2.3,"},
		"a version of another commit": {func(t *testing.T, dir string) {
			git(t, dir, "tag", version)
			commit(t, dir)
		}, "another commit"},
		"an instruction that only an engine can carry out": {func(t *testing.T, dir string) {
			write(t, dir, "Dockerfile", "FROM scratch\nADD https://example.com /\n")
			commit(t, dir)
		}, "ADD"},
		"a program that does not compile": {func(t *testing.T, dir string) {
			write(t, dir, "services/tunnel/cmd/tunnel/main.go", "package main\n\nfunc main() { x }\n")
			commit(t, dir)
		}, "main.go:3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := checkout(t)
			test.change(t, dir)
			p := params(t, dir)
			if err := release.Make(t.Context(), p); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if entries, err := os.ReadDir(p.Out); err == nil && len(entries) > 0 {
				t.Errorf("got %v, want nothing left", entries)
			}
		})
	}
	for _, bad := range []string{"", "1.2.3", "v1", "v1.2", "v1.2.3+x", "v01.2.3", "v1.2.3-", "main", "v1.2.3 "} {
		if got, err := release.ParseVersion(bad); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, got)
		}
	}
	for name, change := range map[string]func(*release.Params){
		"program":  func(p *release.Params) { p.Programs = []string{"hub"} },
		"platform": func(p *release.Params) { p.Platforms = []release.Platform{{OS: "plan9", Arch: "amd64"}} },
	} {
		p := params(t, t.TempDir())
		change(&p)
		if err := release.Make(t.Context(), p); err == nil || !strings.Contains(err.Error(), name+": got") {
			t.Errorf("got %v, want the %s refused", err, name)
		}
	}
}
