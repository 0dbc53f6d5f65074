// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/render"
)

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
		_, err := inProcess().Objects(t.Context(), render.NewFiles(withURL(content, url)), "", render.Kustomize, nil)
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
			_, err := inProcess().Objects(t.Context(), files, "", render.Kustomize, nil)
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
	if objects, err := inProcess().Objects(t.Context(), files, "", render.Kustomize, nil); err != nil || len(objects) != 1 {
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

// bomb returns a text whose anchors expand to ten times width to the power of depth values.
func bomb(depth, width int) string {
	text := "b0: &b0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i <= depth; i++ {
		text += fmt.Sprintf("b%d: &b%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i-1), width), ", "))
	}
	return text
}

// bombs returns small files that become large in memory.
func bombs() map[string]map[string]string {
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	lists := manifest + bomb(7, 10)
	long := manifest + "long: &l '" + strings.Repeat("x", 64<<10) + "'\nlist: [" + strings.TrimSuffix(strings.Repeat("*l, ", 20_000), ", ") + "]\n"
	merges := manifest + "m0: &m0 {a: b}\n"
	for i := 1; i < 28; i++ {
		merges += fmt.Sprintf("m%d: &m%d {<<: [*m%d, *m%d], k%d: '${X:-}'}\n", i, i, i-1, i-1, i)
	}
	itself := manifest + "loop: &x {next: [*x]}\n"
	all := map[string]map[string]string{"plugin": {
		"kustomization.yaml": "generators:\n- |-\n  " + strings.ReplaceAll(lists, "\n", "\n  ") + "\n",
	}}
	for name, text := range map[string]string{"lists": lists, "long text": long, "merges": merges, "loop": itself} {
		all["plain "+name] = map[string]string{"a.yaml": text}
		all["kustomize "+name] = map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": text}
		all["second document "+name] = map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": configMap("b") + "---\n" + text}
	}
	all["kustomization itself"] = map[string]string{"kustomization.yaml": "resources: [a.yaml]\n" + bomb(7, 10), "a.yaml": manifest}
	return all
}

// TestSecAliasesDoNotMultiply renders bombs of a few hundred bytes to about 150 kB, each of which
// would take gigabytes.
func TestSecAliasesDoNotMultiply(t *testing.T) {
	t.Parallel()
	for name, content := range bombs() {
		files := map[string][]byte{}
		for path, text := range content {
			files[path] = []byte(text)
		}
		var err error
		took := allocated(func() {
			_, err = inProcess().Objects(t.Context(), render.NewFiles(files), "", render.Auto, render.NewSubstitution(render.Variables{}))
		})
		if err == nil || strings.Contains(err.Error(), "kustomize build") {
			t.Errorf("%s: got %v, want it refused before it is built", name, err)
		}
		const enough = 512 << 20 // other tests allocate at the same time
		if took > enough {
			t.Errorf("%s: allocated %d MiB", name, took>>20)
		}
	}
}

// allocated returns how many bytes the process allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAliases checks that aliases that do not multiply are kept.
func TestAliases(t *testing.T) {
	t.Parallel()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {app: a}, annotations: {<<: *l}}\ndata: &d {k: &v '1', w: *v}\nbinaryData: *d\n"
	for _, content := range []map[string][]byte{
		{"a.yaml": []byte(text)},
		{"kustomization.yaml": []byte("resources: [a.yaml]\n"), "a.yaml": []byte(text)},
	} {
		objects, err := inProcess().Objects(t.Context(), render.NewFiles(content), "", render.Auto, nil)
		if err != nil {
			t.Fatal(err)
		}
		if w := objects[0].Object["binaryData"].(map[string]any)["w"]; w != "1" {
			t.Errorf("got %v, want 1", w)
		}
	}
}

// TestSecLimits exceeds each limit a little.
func TestSecLimits(t *testing.T) {
	t.Parallel()
	deep := "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "\n"
	for name, test := range map[string]struct {
		text   string
		limits render.Limits
		want   render.Limit
	}{
		"text":       {text: configMap("a") + "---\n" + configMap("b"), limits: render.Limits{Text: 100}, want: render.LimitText},
		"objects":    {text: configMap("a") + "---\n" + configMap("b"), limits: render.Limits{Objects: 1}, want: render.LimitObjects},
		"in a list":  {text: "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: a}}, {apiVersion: v1, kind: A, metadata: {name: b}}]\n", limits: render.Limits{Objects: 1}, want: render.LimitObjects},
		"values":     {text: configMap("a"), limits: render.Limits{Values: 3}, want: render.LimitValues},
		"object":     {text: configMap("a"), limits: render.Limits{ObjectBytes: 20}, want: render.LimitObject},
		"depth":      {text: deep, want: render.LimitDepth},
		"separators": {text: configMap("a") + "x: [" + strings.Repeat("a,", 250_000) + "]\n", want: render.LimitValues},
	} {
		for _, kustomize := range []bool{false, true} {
			files := map[string][]byte{"a.yaml": []byte(test.text)}
			if kustomize {
				files["kustomization.yaml"] = []byte("resources: [a.yaml]\n")
			}
			engine := render.Engine{Builder: render.InProcess{}, Limits: test.limits}
			_, err := engine.Objects(t.Context(), render.NewFiles(files), "", render.Auto, nil)
			limit := new(render.LimitError)
			if !errors.As(err, &limit) || limit.Limit != test.want {
				t.Errorf("%s: got %v, want limit %s", name, err, test.want)
			}
		}
	}
}

// written returns the bundle that write writes.
func written(t *testing.T, write func(*bundle.Writer) error) *bytes.Reader {
	t.Helper()
	var buffer bytes.Buffer
	w := bundle.NewWriter(&buffer, bundle.Limits{})
	if err := errors.Join(write(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(buffer.Bytes())
}

// TestSecLinksDoNotMultiply reads a bundle with many links, each of which leads to all files.
func TestSecLinksDoNotMultiply(t *testing.T) {
	t.Parallel()
	const files, links = 1_000, 19_000
	read := written(t, func(w *bundle.Writer) error {
		for i := range files {
			if err := w.WriteFile(fmt.Sprintf("a/%05d", i), false, 0, strings.NewReader("")); err != nil {
				return err
			}
		}
		for i := range links {
			if err := w.WriteSymlink(fmt.Sprintf("b%05d", i), "a"); err != nil {
				return err
			}
		}
		return nil
	})
	var err error
	took := allocated(func() { _, err = render.Read(bundle.NewReader(read, bundle.Limits{}), render.Limits{}) })
	if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != render.LimitNames {
		t.Errorf("got %v, want limit %s", err, render.LimitNames)
	}
	if took > 512<<20 {
		t.Errorf("allocated %d MiB", took>>20)
	}
}

// TestSecBundleIsBounded reads a bundle that is larger than an agent's memory allows.
func TestSecBundleIsBounded(t *testing.T) {
	t.Parallel()
	read := written(t, func(w *bundle.Writer) error {
		for i := range 3 {
			if err := w.WriteFile(fmt.Sprintf("%d", i), false, 1<<20, strings.NewReader(strings.Repeat("x", 1<<20))); err != nil {
				return err
			}
		}
		return nil
	})
	_, err := render.Read(bundle.NewReader(read, bundle.Limits{}), render.Limits{Bytes: 2 << 20})
	if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != render.LimitBytes {
		t.Errorf("got %v, want limit %s", err, render.LimitBytes)
	}
}

// counted is a Builder that returns err, and counts its builds.
type counted struct {
	err    error
	builds int
}

func (c *counted) Build(context.Context, *render.Files, string) ([]byte, error) {
	c.builds++
	return nil, c.err
}

// TestSecFailuresAreRemembered builds the same bad content again and again.
func TestSecFailuresAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := render.NewFiles(map[string][]byte{"kustomization.yaml": []byte("resources: [a.yaml]\n")})
		b := &counted{err: &render.LimitError{Limit: render.LimitMemory, Message: "needs too much memory"}}
		memo := render.NewMemo(b)
		for range 24 * 60 { // a day
			_, err := memo.Build(t.Context(), files, "")
			limit := new(render.LimitError)
			if !errors.As(err, &limit) || !limit.RetryAt.After(time.Now()) {
				t.Fatalf("got %v, want a time when it is tried again", err)
			}
			time.Sleep(time.Minute)
		}
		if b.builds < 24 || b.builds > 32 {
			t.Errorf("got %d builds in a day, want one an hour", b.builds)
		}
		builds := b.builds
		if _, err := memo.Build(t.Context(), files, "b"); err == nil || b.builds != builds+1 {
			t.Errorf("another folder: got %d builds (%v), want 1", b.builds-builds, err)
		}
		if _, err := memo.Build(t.Context(), render.NewFiles(map[string][]byte{"kustomization.yaml": nil}), ""); err == nil || b.builds != builds+2 {
			t.Errorf("other content: got %d builds (%v), want 1", b.builds-builds-1, err)
		}
	})
}

func TestMemo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want int // builds of three
	}{
		"of the content": {err: &render.Error{Path: "a", Cause: errors.New("is wrong")}, want: 1},
		"of a limit":     {err: &render.LimitError{Limit: render.LimitText, Message: "is too long"}, want: 1},
		"of the machine": {err: errors.New("cannot start"), want: 3},
		"none":           {want: 3},
	} {
		b := &counted{err: test.err}
		memo := render.NewMemo(b)
		for range 3 {
			if _, err := memo.Build(t.Context(), render.NewFiles(nil), ""); !errors.Is(err, test.err) {
				t.Errorf("%s: got %v, want %v", name, err, test.err)
			}
		}
		if b.builds != test.want {
			t.Errorf("%s: got %d builds, want %d", name, b.builds, test.want)
		}
	}
	b := &counted{err: errors.New("cannot start")}
	memo := render.NewMemo(b)
	for i := range 3_000 { // more than it remembers
		b.err = &render.Error{Path: "a", Cause: errors.New("is wrong")}
		if _, err := memo.Build(t.Context(), render.NewFiles(nil), fmt.Sprint(i)); err == nil {
			t.Fatal("got no error")
		}
	}
	if _, err := memo.Build(t.Context(), render.NewFiles(nil), "2999"); err == nil || b.builds != 3_000 {
		t.Errorf("got %d builds (%v), want the newest remembered", b.builds, err)
	}
}

// TestSecMissingVariables names very many variables that do not exist.
func TestSecMissingVariables(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(configMap("a") + "data:\n  a: \"")
	for i := range 100_000 {
		fmt.Fprintf(&text, "${V%d}", i)
	}
	text.WriteString("\"\n")
	files := render.NewFiles(map[string][]byte{"a.yaml": []byte(text.String())})
	_, err := inProcess().Objects(t.Context(), files, "", render.Plain, render.NewSubstitution(render.Variables{}))
	missing := new(render.VariableError)
	if !errors.As(err, &missing) || len(missing.Names) > 100 || len(err.Error()) > 2_000 {
		t.Errorf("got an error of %d bytes (%T), want one that names some of them", len(fmt.Sprint(err)), err)
	}
}
