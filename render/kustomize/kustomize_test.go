// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/kustomize"
)

// configMap returns a manifest.
func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

// files returns a tree.
func files(content map[string]string) *render.Files {
	tree := map[string][]byte{}
	for name, text := range content {
		tree[name] = []byte(text)
	}
	return render.NewFiles(tree)
}

// build renders the kustomization of a folder after the steps before.
func build(t testing.TB, files *render.Files, folder string, before ...renderstep.Step) ([]render.Object, error) {
	t.Helper()
	engine := render.Engine{Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Kustomize: kustomize.Renderer{}}}
	step := renderstep.Step{Path: folder, Renderer: renderstep.Kustomize, FromPrevious: len(before) > 0}
	out, err := engine.Render(t.Context(), render.Input{Files: files, Steps: append(before, step)})
	return out.Objects, err
}

// listener starts a server that builds must not reach. It returns the server's URL and the number
// of its requests.
func listener(t testing.TB) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = fmt.Fprint(w, configMap("fetched"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/x", requests
}

// remoteFiles returns bundles that would make kustomize fetch URL.
func remoteFiles() map[string]map[string]string {
	one := func(fields string) map[string]string { return map[string]string{"kustomization.yaml": fields} }
	all := map[string]map[string]string{
		"JSON":                            one(`{"Resources": ["URL"]}`),
		"JSON, escaped":                   one(`{"\u0052esources": ["\u0068ttp` + `URLREST"]}`),
		"YAML, escaped":                   one("resources: [\"\\x68ttpURLREST\"]\n"),
		"scheme in capitals":              one("resources: ['HTTPURLREST']\n"),
		"Unicode folds to ASCII":          one("re\u017fources: ['URL']\n"),
		"Kelvin sign":                     one("configMapGenerator: [{name: g, file\u017f: [URL]}]\n"),
		"twice, the second counts":        one("resources: [a.yaml]\nResources: ['URL']\n"),
		"merge key":                       one("x: &x {resources: ['URL']}\n<<: *x\n"),
		"merge key with an anchor inside": one("openapi: &x {path: 'URL'}\npatches:\n- <<: *x\n"),
		"alias":                           one("nameSuffix: &x 'URL'\nresources: [*x]\n"),
		"second document":                 one("resources: ['URL']\n---\nresources: [a.yaml]\n"),
		"kustomization.yml":               {"kustomization.yml": "Resources: ['URL']\n"},
		"Kustomization":                   {"Kustomization": "Resources: ['URL']\n"},
		"nested":                          {"kustomization.yaml": "resources: [b]\n", "b/kustomization.yaml": "Resources: ['URL']\n"},
		"bases":                           {"kustomization.yaml": "bases: [b]\n", "b/kustomization.yml": "Bases: ['URL']\n"},
		"components": {
			"kustomization.yaml":   "components: [b]\n",
			"b/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nPatches: [{path: 'URL'}]\n",
		},
		"component's component": {
			"kustomization.yaml":   "components: [b]\n",
			"b/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncomponents: [../c]\n",
			"c/Kustomization":      "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nconfigurations: ['URL']\n",
		},
		"plugin in other spelling": {
			"kustomization.yaml": "generators: [g.yaml]\n",
			"g.yaml":             "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nFILES: ['a=URL']\n",
		},
		"inline plugin": one("transformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: g}\n  Path: 'URL'\n"),
		"tagged inline plugin": {
			"kustomization.yaml": "generators: ['!!map {apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: g}, files: [\"\\x68ttpURLREST\"]}']\n",
		},
		"plugin in a folder": {
			"kustomization.yaml":   "generators: [g]\n",
			"g/kustomization.yaml": "resources: [g.yaml]\n",
			"g/g.yaml":             "apiVersion: builtin\nkind: SecretGenerator\nmetadata: {name: g}\nEnvs: ['URL']\n",
		},
		"plugin put together": {
			"kustomization.yaml":   "generators: [g]\n",
			"g/kustomization.yaml": "resources: [g.yaml]\nconfigurations: [c.yaml]\nnamePrefix: 'httpURLREST'\n",
			"g/c.yaml":             "namePrefix: [{path: env}]\n",
			"g/g.yaml":             "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nenv: '#'\n",
		},
		"plugin behind unreadable document": {
			"kustomization.yaml": "generators: [g.yaml]\n",
			"g.yaml":             "apiVersion: builtin\r\nkind: ConfigMapGenerator\r\nmetadata: {name: g}\r\nfiles: ['a=URL']\r\n---\r\n",
		},
		"list of plugins": {
			"kustomization.yaml": "generators: [g.yaml]\n",
			"g.yaml":             "apiVersion: v1\nkind: List\nitems: [{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: g}, files: ['a=URL']}]\n",
		},
	}
	for _, field := range []string{"resources", "bases", "components", "crds", "configurations", "patchesStrategicMerge", "generators", "transformers", "validators"} {
		for spelling, key := range spellings(field) {
			all[field+" "+spelling] = one(key + ": ['URL']\n")
		}
	}
	for _, field := range []string{"patches", "patchesJson6902", "replacements"} {
		for spelling, key := range spellings(field) {
			all[field+" "+spelling] = one(key + ": [{path: 'URL', target: {kind: ConfigMap, name: a, version: v1}}]\n")
			all[field+" path "+spelling] = one(field + ": [{" + spellings("path")[spelling] + ": 'URL', target: {kind: ConfigMap, name: a, version: v1}}]\n")
		}
	}
	for spelling, key := range spellings("openapi") {
		all["openapi "+spelling] = one(key + ": {path: 'URL'}\n")
	}
	for _, generator := range []string{"configMapGenerator", "secretGenerator"} {
		for spelling, key := range spellings(generator) {
			all[generator+" "+spelling] = one(key + ": [{name: g, files: ['a=URL']}]\n")
			for _, field := range []string{"files", "envs"} {
				all[generator+" "+field+" "+spelling] = one(generator + ": [{name: g, " + spellings(field)[spelling] + ": ['URL']}]\n")
			}
			all[generator+" env "+spelling] = one(generator + ": [{name: g, " + spellings("env")[spelling] + ": 'URL'}]\n")
			all[generator+" named file "+spelling] = one(generator + ": [{name: g, " + spellings("files")[spelling] + ": ['a=URL']}]\n")
		}
	}
	return all
}

func spellings(key string) map[string]string {
	return map[string]string{"as it is": key, "with a capital": strings.ToUpper(key[:1]) + key[1:], "in capitals": strings.ToUpper(key)}
}

// withURL replaces URL in the files by url, and URLREST by the part of url after "http".
func withURL(content map[string]string, url string) map[string][]byte {
	files := map[string][]byte{"a.yaml": []byte(configMap("a"))}
	for name, text := range content {
		text = strings.ReplaceAll(text, "URLREST", strings.TrimPrefix(url, "http"))
		files[name] = []byte(strings.ReplaceAll(text, "URL", url))
	}
	return files
}

// TestSecKustomizeFetchesNothing names a real server in every field that makes kustomize load
// something, in every spelling. It tests the check alone: in this process HTTP works.
func TestSecKustomizeFetchesNothing(t *testing.T) {
	t.Parallel()
	url, requests := listener(t)
	for name, content := range remoteFiles() {
		before := requests.Load()
		_, err := build(t, render.NewFiles(withURL(content, url)), "")
		if invalid := new(render.Error); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want a *render.Error", name, err)
		} else if strings.Contains(err.Error(), "kustomize build") {
			t.Errorf("%s: the check let it through, and kustomize said %v", name, err)
		}
		if n := requests.Load() - before; n != 0 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// TestSecRepositoriesAreNotCloned names repositories in the ways that kustomize knows, including
// names that are also folders of the bundle.
func TestSecRepositoriesAreNotCloned(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"git@127.0.0.1:a/b", "user@127.0.0.1:a/b", "GIT::https://127.0.0.1/a/b", "git::./a/b", "file:///etc/b", "FILE:///etc/b", "ssh://127.0.0.1/a/b",
		"github.com/a/b", "GitHub.com/a/b", "github.com:a/b", "user@github.com:a/b", "user@host/a/b", "user@host/a.git", "http:/127.0.0.1/a/b",
	} {
		folder := strings.ReplaceAll(target, "//", "/")
		for _, field := range []string{"resources", "bases", "components"} {
			files := render.NewFiles(map[string][]byte{
				"kustomization.yaml":           fmt.Appendf(nil, "%s: ['%s']\n", field, target),
				folder + "/kustomization.yaml": []byte("resources: [a.yaml]\n"), folder + "/a.yaml": []byte(configMap("a")),
			})
			_, err := build(t, files, "")
			if err == nil || !strings.Contains(err.Error(), "remote references are not fetched") {
				t.Errorf("%s: %s: got %v, want it refused as remote", field, target, err)
			}
		}
	}
	files := render.NewFiles(map[string][]byte{
		"kustomization.yaml":                []byte("resources: [./github.com/a/b]\n"),
		"github.com/a/b/kustomization.yaml": []byte("resources: [a.yaml]\n"),
		"github.com/a/b/a.yaml":             []byte(configMap("a")),
	})
	if objects, err := build(t, files, ""); err != nil || len(objects) != 1 {
		t.Errorf("folder that is named like a repository, with ./ before it: got %d objects, %v", len(objects), err)
	}
}

// TestSecEveryFieldIsJudged fails if kustomize's type has a field that is not listed here. If the
// field makes kustomize load something, references must return it.
func TestSecEveryFieldIsJudged(t *testing.T) {
	t.Parallel()
	loading := []string{
		"OpenAPI", "PatchesStrategicMerge", "PatchesJson6902", "Patches", "Replacements", "Resources", "Components", "Crds", "Bases",
		"ConfigMapGenerator", "SecretGenerator", "HelmGlobals", "HelmCharts", "HelmChartInflationGenerator", "Configurations",
		"Generators", "Transformers", "Validators",
	}
	others := []string{
		"TypeMeta", "MetaData", "NamePrefix", "NameSuffix", "Namespace", "CommonLabels", "Labels", "CommonAnnotations", "Images", "ImageTags",
		"Replicas", "Vars", "SortOptions", "GeneratorOptions", "BuildMetadata",
	}
	var got []string
	for field := range reflect.TypeFor[types.Kustomization]().Fields() {
		got = append(got, field.Name)
	}
	want := slices.Concat(loading, others)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of types.Kustomization (-judged +there):\n%s", diff)
	}
	for kind, want := range map[reflect.Type][]string{
		reflect.TypeFor[types.KvPairSources]():    {"LiteralSources", "FileSources", "EnvSources", "EnvSource"},
		reflect.TypeFor[types.Patch]():            {"Path", "Patch", "Target", "Options"},
		reflect.TypeFor[types.ReplacementField](): {"Replacement", "Path"},
	} {
		var got []string
		for field := range kind.Fields() {
			got = append(got, field.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %v (-judged +there):\n%s", kind, diff)
		}
	}
}

// TestParallelBuilds would fail under the race detector if kustomize's own global state were not
// guarded.
func TestParallelBuilds(t *testing.T) {
	t.Parallel()
	read := files(map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("a")})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := build(t, read, ""); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// TestKustomizeTakesAnyFileName builds beside, and of, files whose names kustomize's own file
// system in memory refuses.
func TestKustomizeTakesAnyFileName(t *testing.T) {
	t.Parallel()
	objects, err := build(t, files(map[string]string{
		"app/kustomization.yaml":            "resources: ['high-availability-1.21+.yaml', '../base folder/(a)']\nconfigMapGenerator: [{name: boards, files: ['My Dashboard (1).json']}]\n",
		"app/high-availability-1.21+.yaml":  configMap("plus"),
		"app/My Dashboard (1).json":         "{}",
		"app/not referred to/ü %20 #1.txt":  "anything",
		"base folder/(a)/kustomization.yml": "resources: [it's.yaml]\n",
		"base folder/(a)/it's.yaml":         configMap("quote"),
	}), "app")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	if len(names) != 3 || !slices.Contains(names, "plus") || !slices.Contains(names, "quote") {
		t.Errorf("got %v, want plus, quote and the dashboards", names)
	}
}

// TestFromPrevious builds a kustomization without resources of its own on the objects of the step
// before.
func TestFromPrevious(t *testing.T) {
	t.Parallel()
	tree := files(map[string]string{
		"made/a.yaml":                 configMap("a") + "data: {one: \"1\"}\n---\n" + configMap("b"),
		"patches/kustomization.yaml":  "namePrefix: x-\nresources: [c.yaml]\npatches: [{path: a.yaml}]\n",
		"patches/a.yaml":              configMap("a") + "data: {patched: \"yes\"}\n",
		"patches/c.yaml":              configMap("c"),
		"patches/.leat-previous.yaml": "a file that has the name by chance\n",
	})
	objects, err := build(t, tree, "patches", renderstep.Step{Path: "made", Renderer: renderstep.Plain})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, o := range objects {
		got[o.GetName()] = o.Object["data"]
	}
	want := map[string]any{"x-a": map[string]any{"one": "1", "patched": "yes"}, "x-b": nil, "x-c": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNamesOfKustomizations compares the names that package render detects with kustomize's.
func TestNamesOfKustomizations(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(konfig.RecognizedKustomizationFileNames(), render.KustomizationFiles()); diff != "" {
		t.Error(diff)
	}
}
