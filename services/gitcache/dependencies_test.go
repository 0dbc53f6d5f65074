// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache"
)

// helmProgram runs the real Helm in a folder, and returns what it prints.
type helmProgram struct{ path, dir string }

func newHelm(t *testing.T) *helmProgram {
	t.Helper()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		t.Fatal(err)
	}
	return &helmProgram{path: binaries.Helm, dir: t.TempDir()}
}

func (h *helmProgram) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), h.path, args...)
	home := filepath.Join(h.dir, "home")
	cmd.Dir, cmd.Env = h.dir, append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, errs.String())
	}
	return string(out)
}

// write writes files below a folder.
func (h *helmProgram) write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(h.dir, folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the files below a folder but those in its folder charts, with names that begin with it.
func (h *helmProgram) read(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(h.dir), folder, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name == folder+"/charts":
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// shopOf returns the chart of docs/guides/chart-dependencies.md, with repositories that exist. It
// has dependencies of every kind.
func shopOf(t *testing.T, stable, registry string) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/chart-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml shop/Chart.yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no chart")
	}
	return map[string]string{
		"Chart.yaml":         strings.NewReplacer("https://charts.example.com/stable", stable, "registry.example.com", registry).Replace(text),
		"values.yaml":        "old: {text: from the parent}\nnew: {enabled: true}\n",
		"templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\ndata:\n  text: {{ include \"lib.text\" . }}\n",
		".helmignore":        "tests/\n*.md\n",
	}
}

func webWithTest(version, text string) map[string]string {
	files := charttest.Files("web", version, text)
	files["templates/map.yaml"] = strings.ReplaceAll(files["templates/map.yaml"], "{{ .Release.Name }}", "{{ .Release.Name }}-{{ .Chart.Name }}")
	files["templates/tests/check.yaml"] = "apiVersion: v1\nkind: Pod\nmetadata: {name: check-{{ .Chart.Name }}}\n"
	return files
}

// TestDependenciesOfCharts packs what a chart in Git lacks, so that Helm makes of the bundle what it
// makes of the folder after helm dependency build. Then the repositories of charts go, and the content
// of a version changes.
func TestDependenciesOfCharts(t *testing.T) {
	t.Parallel()
	helm, stable, registry := newHelm(t), charttest.New(t), registrytest.Start(t, registrytest.Config{})
	git, redis := gittest.New(t), redistest.Start(t)
	stable.Publish(t, "web", "1.0.0", webWithTest("1.0.0", "older"))
	stable.Publish(t, "web", "1.4.0", webWithTest("1.4.0", "one"))
	stable.Publish(t, "web", "2.1.0", webWithTest("2.1.0", "two"))
	api := charttest.Files("api", "0.3.0", "api")
	api["templates/map.yaml"] = strings.ReplaceAll(api["templates/map.yaml"], "{{ .Release.Name }}", "api")
	registry.Push(t, "team/api", "0.3.0", registrytest.ChartType,
		registrytest.Layer{MediaType: registrytest.ChartLayerType, Data: charttest.Pack(t, "api", api)})
	helm.write(t, "shop", shopOf(t, stable.URL(), registry.Addr))
	helm.write(t, "lib", map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: lib, version: 0.1.0, type: library}\n", "templates/_text.tpl": "{{ define \"lib.text\" }}of the library{{ end }}\n",
	})
	helm.run(t, "dependency", "update", "shop", "--plain-http")

	repo := git.Repo(t, "demo")
	commitAll := func() string {
		files := helm.read(t, "shop")
		for name, text := range helm.read(t, "lib") {
			files[name] = text
		}
		return repo.Commit(t, "main", files)
	}
	commitAll()
	first, second := start(t, redis.URL(), t.TempDir()), start(t, redis.URL(), t.TempDir())
	demo, oci := definition("demo", repo.URL()), definition("api", "oci+http://"+registry.Addr+"/team/api")
	demo.ChartRepositories, oci.Type = []string{"charts", "api", "not-there"}, gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI
	first.put(t, charts(stable.URL()+"/"))
	first.put(t, oci)
	first.put(t, demo)
	for _, name := range []string{"charts", "api", "demo"} {
		first.state(t, name, ready)
	}
	shop := source("demo", "main", "shop")
	// The first question has the charts fetched that it depends on, unless the mirror has done so.
	await.Success(t, "the charts that it depends on", func(context.Context) error { return first.tryResolve(t, shop) })
	got := first.resolve(t, shop)
	_, stored, err := second.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: got.GetDigest(), Commit: got.GetCommit(), Source: shop})
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, got.GetDigest(), stored)
	packed := 0
	for name := range files {
		if strings.Contains(name, ".tgz.unpacked/") {
			packed++
		}
	}
	if packed == 0 {
		t.Fatalf("got %d files, want packed dependencies", len(files))
	}
	// Helm applies the chart's .helmignore to folders in charts, which the renderer does not do for
	// packed ones. Here the file stays out, to compare the rest.
	delete(files, ".helmignore")
	helm.write(t, "bundle", files)
	want, made := helm.run(t, "template", "r", "shop"), helm.run(t, "template", "r", "bundle")
	if made != want || !strings.Contains(want, "from the parent") || !strings.Contains(want, "check-new") {
		t.Errorf("Helm makes of the bundle:\n%s\nand of the folder after helm dependency update:\n%s", made, want)
	}
	await.Success(t, "the same bundle from the other replica", func(context.Context) error {
		if other := second.resolve(t, shop); other.GetDigest() != got.GetDigest() {
			return fmt.Errorf("got %s from another replica, want %s", other.GetDigest(), got.GetDigest())
		}
		return nil
	})

	stable.Publish(t, "web", "1.4.0", webWithTest("1.4.0", "published again"))
	first.refresh(t, "charts")
	var again *typev1.Snapshot
	await.Success(t, "the content that was published again", func(context.Context) error { // its owner may follow the repository of charts
		if again = first.resolve(t, shop); again.GetCommit() != got.GetCommit() || again.GetDigest() == got.GetDigest() {
			return fmt.Errorf("got %v after a version was published again, want another digest than %v", again, got)
		}
		return nil
	})
	await.Success(t, "the same bundle from the other replica", func(context.Context) error {
		if other := second.resolve(t, shop); other.GetDigest() != again.GetDigest() {
			return fmt.Errorf("got %s from another replica, want %s", other.GetDigest(), again.GetDigest())
		}
		return nil
	})

	stable.Stop()
	helm.write(t, "shop", map[string]string{"values.yaml": "old: {text: later}\nnew: {enabled: false}\n"})
	commitAll()
	first.refresh(t, "demo")
	later := first.resolve(t, shop)
	if later.GetDigest() == again.GetDigest() || later.GetFileCount() != again.GetFileCount() {
		t.Errorf("got %v while the repository of charts is away, want new values and the same dependencies as %v", later, again)
	}
}

// TestSecDependenciesFromRepositoriesThatAreNotListed are refused: a committer cannot read another
// team's charts by naming their URL.
func TestSecDependenciesFromRepositoriesThatAreNotListed(t *testing.T) {
	t.Parallel()
	stable, git, redis := charttest.New(t), gittest.New(t), redistest.Start(t)
	stable.Publish(t, "web", "1.0.0", webWithTest("1.0.0", "one"))
	stable.Publish(t, "web", "1.1.0", webWithTest("1.1.0", "two"))
	helm, repo := newHelm(t), git.Repo(t, "demo")
	helm.write(t, "shop", map[string]string{
		"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: shop\nversion: 0.1.0\ndependencies:\n- {name: web, version: 1.0.0, repository: %q}\n", stable.URL()),
	})
	repo.Commit(t, "main", helm.read(t, "shop"))
	r := start(t, redis.URL(), t.TempDir())
	def := charts(stable.URL())
	def.Name, def.Uid = "secret-charts", "uid-secret-charts"
	r.put(t, def)
	demo := definition("demo", repo.URL())
	r.put(t, demo)
	r.state(t, "secret-charts", ready)
	r.state(t, "demo", ready)
	shop := source("demo", "main", "shop")
	err := r.tryResolve(t, shop)
	wantMessage(t, err, errorsv1.Reason_REASON_CONTENT_UNSUPPORTED, "helm dependency update")

	helm.run(t, "dependency", "update", "shop")
	repo.Commit(t, "main", helm.read(t, "shop"))
	r.refresh(t, "demo")
	stable.ResetStats()
	err = r.tryResolve(t, shop)
	for _, word := range []string{"shop/Chart.yaml", stable.URL(), "web 1.0.0", "chartRepositories"} {
		wantMessage(t, err, errorsv1.Reason_REASON_CHART_DEPENDENCY_UNAVAILABLE, word)
	}
	if strings.Contains(err.Error(), "secret-charts") {
		t.Errorf("got %v, which names a repository that is not listed", err)
	}
	if s := stable.Stats(); s.Archives != 0 {
		t.Errorf("got %+v, want nothing downloaded", s)
	}
	demo.Version, demo.ChartRepositories = 2, []string{"secret-charts"}
	r.put(t, demo)
	await.Success(t, "the chart with its dependencies", func(context.Context) error { return r.tryResolve(t, shop) })

	stable.Withdraw(t, "web", "1.0.0")
	r.refresh(t, "secret-charts")
	wantMessage(t, r.tryResolve(t, shop), errorsv1.Reason_REASON_CHART_DEPENDENCY_UNAVAILABLE, "1.1.0")
	def.Version, def.Charts = 2, []string{"api"}
	r.put(t, def)
	await.Success(t, "the refusal that names the list of charts", func(context.Context) error {
		if err := r.tryResolve(t, shop); !strings.Contains(rpcerr.Message(err), "under charts") {
			return fmt.Errorf("got %w, want the list of charts named", err)
		}
		return nil
	})
	demo.Version, demo.ChartRepositories = 3, nil
	r.put(t, demo)
	await.Success(t, "the end of the listing", func(context.Context) error {
		if err := r.tryResolve(t, shop); err == nil {
			return errors.New("the repository is not listed any more")
		}
		return nil
	})
}

// TestDependenciesAreThoseOfTheOwner publishes a version again while replicas that do not follow the
// owner of the charts hold copies of what it was. Soon after the owner's next fetch, every replica
// delivers the new content: a call waits two seconds for a newer copy.
func TestDependenciesAreThoseOfTheOwner(t *testing.T) {
	t.Parallel()
	stable, git, redis, helm := charttest.New(t), gittest.New(t), redistest.Start(t), newHelm(t)
	stable.Publish(t, "web", "1.0.0", webWithTest("1.0.0", "one"))
	helm.write(t, "shop", map[string]string{
		"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: shop\nversion: 0.1.0\ndependencies:\n- {name: web, version: 1.x, repository: %q}\n", stable.URL()),
	})
	helm.run(t, "dependency", "update", "shop")
	repo := git.Repo(t, "demo")
	repo.Commit(t, "main", helm.read(t, "shop"))
	noFollowers := func(c *gitcache.Config) { c.Followers = 0 }
	r := start(t, redis.URL(), t.TempDir(), noFollowers)
	start(t, redis.URL(), t.TempDir(), noFollowers)
	r.put(t, charts(stable.URL()))
	r.state(t, "charts", ready)
	var names []string
	for i := range 8 { // enough that both replicas own some
		name := fmt.Sprint("demo-", i)
		def := definition(name, repo.URL())
		def.ChartRepositories = []string{"charts"}
		r.put(t, def)
		r.state(t, name, ready)
		names = append(names, name)
	}
	resolve := func() map[string]bool {
		digests := map[string]bool{}
		for _, name := range names {
			digests[r.resolve(t, source(name, "main", "shop")).GetDigest()] = true
		}
		return digests
	}
	before := resolve()
	stable.Publish(t, "web", "1.0.0", webWithTest("1.0.0", "two"))
	r.refresh(t, "charts")
	if len(before) != 1 {
		t.Fatalf("got %v, want one digest", before)
	}
	await.Success(t, "one new digest from every replica", func(context.Context) error {
		after := resolve()
		for digest := range after {
			if len(after) != 1 || before[digest] {
				return fmt.Errorf("got %v, then %v, want one other digest", before, after)
			}
		}
		return nil
	})
}
