// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// files reads a map as a bundle; a content that begins with "-> " is a symbolic link.
func files(t *testing.T, content map[string]string) *render.Files {
	t.Helper()
	var buffer bytes.Buffer
	w := bundle.NewWriter(&buffer, bundle.Limits{})
	for _, name := range slices.Sorted(maps.Keys(content)) {
		target, linked := strings.CutPrefix(content[name], "-> ")
		err := error(nil)
		if linked {
			err = w.WriteSymlink(name, target)
		} else {
			err = w.WriteFile(name, false, int64(len(content[name])), strings.NewReader(content[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := render.Read(bundle.NewReader(&buffer, bundle.Limits{}), render.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// engine renders a folder in this process, as one step.
type engine struct{ *render.Engine }

// inProcess returns an engine without limits of its own.
func inProcess() engine { return engine{renderers.Engine(render.Limits{})} }

// Objects renders a folder with the variables of s, which then knows their secrets in the objects.
func (e engine) Objects(ctx context.Context, files *render.Files, folder string, renderer renderstep.Renderer, s *render.Substitution) ([]render.Object, error) {
	in := render.Input{Files: files, Folder: folder, Steps: []renderstep.Step{{Renderer: renderer}}}
	if s != nil {
		variables := s.Variables()
		in.Variables = &variables
	}
	out, err := e.Render(ctx, in)
	if err == nil && s != nil {
		s.Taint(out.Tainted)
	}
	return out.Objects, err
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"

func TestObjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files    map[string]string
		folder   string
		renderer renderstep.Renderer
		want     []string
	}{
		"every file below, in order": {
			files: map[string]string{
				"b.yml": configMap("b"), "a/x.yaml": configMap("x"), "c.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`,
				"README.md": "kind: [",
			},
			want: []string{"ConfigMap x", "ConfigMap b", "Secret c"},
		},
		"documents, comments and lists": {
			files: map[string]string{"a.yaml": "# nothing\n---\n" + configMap("a") + "---\n---\napiVersion: v1\nkind: List\nitems:\n" +
				"- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: c, namespace: web}}\n"},
			want: []string{"ConfigMap a", "ConfigMap b", "Deployment.apps web/c"},
		},
		"typed list":     {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"}, want: []string{"ConfigMap b"}},
		"nothing at all": {files: map[string]string{"README.md": "hello", "empty.yaml": "# only a comment\n"}},
		"a folder":       {files: map[string]string{"a/a.yaml": configMap("a"), "ab/b.yaml": configMap("b")}, folder: "./a/", want: []string{"ConfigMap a"}},
		"links": {
			files:  map[string]string{"shared/s.yaml": configMap("s"), "app/s.yaml": "-> ../shared/s.yaml", "app/dir": "-> ../shared", "app/t.yaml": configMap("t"), "app/again.yaml": "-> t.yaml"},
			folder: "app", want: []string{"ConfigMap s", "ConfigMap s", "ConfigMap t"},
		},
		"kustomize is found": {
			files: map[string]string{"kustomization.yaml": kustomization + "namePrefix: my-\nresources: [a.yaml]\n", "a.yaml": configMap("a"), "b.yaml": configMap("b")},
			want:  []string{"ConfigMap my-a"},
		},
		"kustomize over bases and components": {
			files: map[string]string{
				"app/kustomization.yaml":  kustomization + "resources: [../base]\ncomponents: [../extra]\npatches: [{path: ../patches/p.yaml}]\n",
				"base/kustomization.yml":  kustomization + "resources: [a.yaml]\nconfigMapGenerator: [{name: g, files: [f=text.txt], options: {disableNameSuffixHash: true}}]\n",
				"base/a.yaml":             configMap("a"),
				"base/text.txt":           "hello",
				"extra/kustomization.yml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [b.yaml]\n",
				"extra/b.yaml":            configMap("b"),
				"patches/p.yaml":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {patched: yes}\n",
			},
			folder: "app", want: []string{"ConfigMap a", "ConfigMap b", "ConfigMap g"},
		},
		"plain although there is a kustomization": {
			files:    map[string]string{"a.yaml": configMap("a"), "sub/kustomization.yaml": kustomization + "metadata: {name: k}\n"},
			renderer: renderstep.Plain, want: []string{"ConfigMap a", "Kustomization.kustomize.config.k8s.io k"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := inProcess().Objects(t.Context(), files(t, test.files), test.folder, test.renderer, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GroupVersionKind().GroupKind().String()+" "+path.Join(o.GetNamespace(), o.GetName()))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files    map[string]string
		folder   string
		renderer renderstep.Renderer
		want     []string // parts of the message
	}{
		"no YAML":          {files: map[string]string{"a.yaml": configMap("a") + "---\nkind: [\n"}, want: []string{"a.yaml: document 2:", "line"}},
		"key stands twice": {files: map[string]string{"a.yaml": "kind: A\nkind: B\n"}, want: []string{"a.yaml: document 1:", "kind"}},
		"not an object":    {files: map[string]string{"a.yaml": "- 1\n"}, want: []string{"a.yaml: document 1: is a list, want an object"}},
		"no kind":          {files: map[string]string{"a.yaml": "apiVersion: v1\n"}, want: []string{"has no kind"}},
		"no manifest":      {files: map[string]string{"values.yaml": "a: 1\n"}, want: []string{"values.yaml", "has no kind", "exclude"}},
		"Helm chart": {
			files: map[string]string{
				"web/Chart.yaml": "apiVersion: v2\nname: web\n", "web/templates/a.yaml": "kind: A\nmetadata:\n  name: {{ .Release.Name }}\n",
			},
			want: []string{"web/Chart.yaml: document 1: is part of the Helm chart in web", "make web the path", "exclude"},
		},
		"template of a Helm chart": {
			files:  map[string]string{"web/Chart.yaml": "", "web/templates/a.yaml": "kind: A\nmetadata:\n  name: {{ .Release.Name }}\n"},
			folder: "web/templates", want: []string{"web/templates/a.yaml: document 1: is part of the Helm chart in web,"},
		},
		"template": {
			files: map[string]string{"a.yaml": "kind: A\nmetadata:\n  name: {{ .Name }}\n"},
			want:  []string{"a.yaml: document 1: looks like a template", "invalid map key"},
		},
		"dashboard": {
			files: map[string]string{"board.json": `{"title": "web", "legend": "{{instance}}"}`},
			want:  []string{"board.json: document 1: has no kind", "exclude"},
		},
		"kustomization below": {
			files: map[string]string{"web/kustomization.yaml": "resources: [a.yaml]\n", "web/a.yaml": configMap("a")},
			want:  []string{"web/kustomization.yaml: document 1: is a kustomization", "make web the path", "resources", "exclude"},
		},
		"kustomization with a kind below": {
			files: map[string]string{"web/kustomization.yaml": kustomization + "resources: [a.yaml]\n", "web/a.yaml": configMap("a")},
			want:  []string{"web/kustomization.yaml: document 1: is a kustomization"},
		},
		"no apiVersion":      {files: map[string]string{"a.yaml": "kind: ConfigMap\n"}, want: []string{"ConfigMap has no apiVersion"}},
		"no name":            {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\n"}, want: []string{"ConfigMap has no metadata.name"}},
		"generated name":     {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: Job\nmetadata: {generateName: 1.0}\n"}, want: []string{"generateName"}},
		"unquoted namespace": {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\n"}, want: []string{"metadata.namespace is not text"}},
		"unquoted label":     {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {v: 1.0}}\n"}, want: []string{"metadata.labels", "quotes"}},
		"null metadata":      {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"}, want: []string{"ConfigMap has no metadata.name"}},
		"bad item":           {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap}]\n"}, want: []string{"item 1", "no metadata.name"}},
		"no such folder":     {files: map[string]string{"a.yaml": ""}, folder: "b", want: []string{"b: the bundle holds no such folder"}},
		"folder is a file":   {files: map[string]string{"a.yaml": ""}, folder: "a.yaml", want: []string{"is a file"}},
		"no kustomization":   {files: map[string]string{"a.yaml": ""}, renderer: renderstep.Kustomize, want: []string{"holds no kustomization.yaml"}},
		"outside the bundle": {files: map[string]string{"kustomization.yaml": kustomization + "resources: [../base]\n"}, want: []string{"kustomization.yaml: resources", "../base", "outside the bundle", "root"}},
		"missing file":       {files: map[string]string{"kustomization.yaml": kustomization + "resources: [a.yaml]\n"}, want: []string{"\"a.yaml\": no such file or folder"}},
		"remote base":        {files: map[string]string{"kustomization.yaml": kustomization + "resources: ['https://example.test/a.yaml']\n"}, want: []string{"remote references are not fetched"}},
		"remote repository":  {files: map[string]string{"kustomization.yaml": kustomization + "resources: ['github.com/a/b//c?ref=main']\n"}, want: []string{"remote references are not fetched"}},
		"remote file of a generator": {
			files: map[string]string{"kustomization.yaml": kustomization + "configMapGenerator: [{name: g, files: ['x=https://example.test/x']}]\n"},
			want:  []string{"remote references are not fetched"},
		},
		"remote file of a plugin": {
			files: map[string]string{
				"kustomization.yaml": kustomization + "generators: [g.yaml]\n",
				"g.yaml":             "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nfiles: ['https://example.test/x']\n",
			},
			want: []string{"g.yaml", "remote references are not fetched"},
		},
		"remote file of an inline plugin": {
			files: map[string]string{"kustomization.yaml": kustomization + "generators:\n- |-\n  apiVersion: builtin\n  kind: ConfigMapGenerator\n  metadata: {name: g}\n  envs: ['https://example.test/x']\n"},
			want:  []string{"remote references are not fetched"},
		},
		"program": {
			files: map[string]string{
				"kustomization.yaml": kustomization + "generators: [g.yaml]\n",
				"g.yaml":             "apiVersion: x.test/v1\nkind: Any\nmetadata: {name: g, annotations: {config.kubernetes.io/function: 'exec: {path: /bin/true}'}}\n",
			},
			want: []string{"kustomize build", "plugin"},
		},
		"Helm": {
			files: map[string]string{"kustomization.yaml": kustomization + "helmCharts: [{name: x, repo: 'https://example.test', version: '1'}]\n"},
			want:  []string{"kustomization.yaml", "helmCharts", "put the rendered chart"},
		},
		"bases in a circle": {
			files:  map[string]string{"a/kustomization.yaml": kustomization + "resources: [../b]\n", "b/kustomization.yaml": kustomization + "resources: [../a]\n"},
			folder: "a", want: []string{"cycle"},
		},
		"two kustomizations": {
			files: map[string]string{"kustomization.yaml": kustomization + "resources: [a.yaml]\n", "Kustomization": kustomization, "a.yaml": configMap("a")},
			want:  []string{"a folder has one kustomization"},
		},
		"key in other spelling": {
			files: map[string]string{"kustomization.yaml": kustomization + "configMapGenerator: [{name: g, Files: [a]}]\n", "a": ""},
			want:  []string{"kustomization.yaml: document 1:", "configMapGenerator[0].Files", "write files"},
		},
		"patched configuration of a generator": {
			files: map[string]string{
				"kustomization.yaml":   kustomization + "generators: [g]\n",
				"g/kustomization.yaml": kustomization + "resources: [g.yaml]\nnamePrefix: x\n",
				"g/g.yaml":             "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\n",
			},
			want: []string{"g/kustomization.yaml: namePrefix: a kustomization that generators"},
		},
		"panic in kustomize": {
			files: map[string]string{"kustomization.yaml": kustomization + "crds: [empty]\n", "empty": ""},
			want:  []string{"kustomize fails at this content"},
		},
		"link to nothing": {
			files: map[string]string{"a.yaml": configMap("a"), "apps/b.yaml": "-> ../shared/b.yaml"},
			want:  []string{"apps/b.yaml: is a symbolic link to shared/b.yaml, which is not in the bundle", "exclude"},
		},
		"link to a folder of nothing": {
			files: map[string]string{"a.yaml": configMap("a"), "more": "-> shared/more"}, want: []string{"more: is a symbolic link to shared/more"},
		},
		"links in a circle": {files: map[string]string{"a.yaml": "-> b.yaml", "b.yaml": "-> a.yaml"}, want: []string{"symbolic links"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := error(nil)
			if name == "links in a circle" {
				var buffer bytes.Buffer
				w := bundle.NewWriter(&buffer, bundle.Limits{})
				err = errors.Join(w.WriteSymlink("a.yaml", "b.yaml"), w.WriteSymlink("b.yaml", "a.yaml"), w.Close())
				if err == nil {
					_, err = render.Read(bundle.NewReader(&buffer, bundle.Limits{}), render.Limits{})
				}
			} else {
				_, err = inProcess().Objects(t.Context(), files(t, test.files), test.folder, test.renderer, nil)
			}
			if invalid := new(render.Error); !errors.As(err, &invalid) {
				t.Fatalf("got %v, want a *render.Error", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want it to hold %q", err, part)
				}
			}
		})
	}
}

// TestLinksToNothingThatDoNotMatter has links that stand for no manifest of the folder.
func TestLinksToNothingThatDoNotMatter(t *testing.T) {
	t.Parallel()
	content := files(t, map[string]string{
		"app/a.yaml": configMap("a"), "app/NOTES.md": "-> ../gone.md", "app/tests/b.yaml": "-> ../../gone.yaml", "other/b.yaml": "-> gone.yaml",
	})
	out, err := inProcess().Render(t.Context(), render.Input{Files: content, Folder: "app", Except: "app/tests", Steps: []renderstep.Step{{}}})
	if err != nil || len(out.Objects) != 1 {
		t.Errorf("got %d objects, %v, want one", len(out.Objects), err)
	}
}

// TestNumbers makes sure that objects can be copied and compared as the rest of the agent does.
func TestNumbers(t *testing.T) {
	t.Parallel()
	objects, err := inProcess().Objects(t.Context(), files(t, map[string]string{"a.yaml": configMap("a") + "count: 3\nshare: 0.5\nbig: 9007199254740993\n"}), "", renderstep.Auto, nil)
	if err != nil {
		t.Fatal(err)
	}
	copied := objects[0].DeepCopy().Object // panics on other kinds of numbers
	if got, want := fmt.Sprintf("%v %v %v", copied["count"], copied["share"], copied["big"]), "3 0.5 9007199254740993"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzPlain reads manifests twice. Errors are of the content, results are equal, and every object has
// what an object needs.
func FuzzPlain(f *testing.F) {
	f.Add(configMap("a"))
	f.Add("---\n- 1\n---\n{\"kind\": 1}")
	f.Add("apiVersion: v1\nkind: List\nitems: [{}, null]")
	f.Fuzz(func(t *testing.T, content string) {
		files := render.NewFiles(map[string][]byte{"a.yaml": []byte(content)})
		objects, err := inProcess().Objects(t.Context(), files, "", renderstep.Plain, nil)
		if problem, limit := new(render.Error), new(render.LimitError); err != nil && !errors.As(err, &problem) && !errors.As(err, &limit) {
			t.Errorf("got %v, want an error about the content", err)
		}
		again, _ := inProcess().Objects(t.Context(), files, "", renderstep.Plain, nil)
		if diff := cmp.Diff(objects, again); diff != "" {
			t.Errorf("another render (-first +second):\n%s", diff)
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetName() == "" || o.GetAPIVersion() == "" {
				t.Errorf("got an object without kind, name or version: %v", o.Object)
			}
		}
	})
}

// TestNullMetadata renders what templates write for an empty map or an empty namespace: the API
// server takes it for absent.
func TestNullMetadata(t *testing.T) {
	t.Parallel()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: null, labels: , annotations: ~}\n"
	objects, err := inProcess().Objects(t.Context(), render.NewFiles(map[string][]byte{"a.yaml": []byte(text)}), "", renderstep.Plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}
	if diff := cmp.Diff(want, objects[0].Object); diff != "" {
		t.Error(diff)
	}
}
