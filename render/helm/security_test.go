// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/helm"
)

const aChart = "{apiVersion: v2, name: a, version: 1.0.0}"

// chartOf returns a tree with a chart.
func chartOf(files map[string]string) map[string][]byte {
	tree := map[string][]byte{"chart/Chart.yaml": []byte(aChart)}
	for name, text := range files {
		tree["chart/"+name] = []byte(text)
	}
	return tree
}

// renderChart renders the chart of a tree.
func renderChart(t testing.TB, tree map[string][]byte, in render.Input) (render.Output, error) {
	t.Helper()
	return renderWithin(t, render.Limits{}, tree, in)
}

func renderWithin(t testing.TB, limits render.Limits, tree map[string][]byte, in render.Input) (render.Output, error) {
	t.Helper()
	engine := render.Engine{Limits: limits, Renderers: map[renderstep.Renderer]render.StepRenderer{renderstep.Helm: helm.Renderer{}}}
	in.Files = render.NewFiles(tree)
	in.Facts.Service = render.ServiceFacts{Name: "demo", Namespace: "apps"}
	if in.Steps == nil {
		in.Steps = []renderstep.Step{{Path: "chart", Renderer: renderstep.Helm}}
	}
	return engine.Render(t.Context(), in)
}

func manifest(name, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n  v: " + data + "\n"
}

// bomb returns a text whose aliases expand to a thousand million values.
func bomb() string {
	text := "b0: &b0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("b%d: &b%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i-1), 10), ", "))
	}
	return text
}

// allocated returns how many bytes the process allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSecChartsDoNotMultiply renders charts of a few kilobytes that would take gigabytes: bombs of
// aliases and archives, wherever Helm would decode or unpack them.
func TestSecChartsDoNotMultiply(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 1<<20)
	large := map[string]string{"sub/Chart.yaml": aChart}
	for i := range 5 {
		large[fmt.Sprintf("sub/%02d", i)] = zeros
	}
	entries := map[string]string{"sub/Chart.yaml": aChart}
	for i := range 9_000 {
		entries[fmt.Sprintf("sub/%06d", i)] = ""
	}
	packed := func(files map[string]string) string { return string(archived(t, files)) }
	for name, test := range map[string]struct {
		files map[string]string
		want  render.Limit
	}{
		"values":                  {files: map[string]string{"values.yaml": bomb()}, want: render.LimitText},
		"Chart.yaml":              {files: map[string]string{"charts/b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n" + bomb()}, want: render.LimitText},
		"schema":                  {files: map[string]string{"values.schema.json": bomb()}, want: render.LimitText},
		"output":                  {files: map[string]string{"templates/a.yaml": manifest("a", "b") + bomb()}, want: render.LimitText},
		"hook":                    {files: map[string]string{"templates/a.yaml": "# helm.sh/hook\n" + manifest("a", "b") + bomb()}, want: render.LimitText},
		"definition":              {files: map[string]string{"crds/a.yaml": "kind: CustomResourceDefinition\n" + bomb()}, want: render.LimitText},
		"packed values":           {files: map[string]string{"charts/sub.tgz": packed(map[string]string{"sub/Chart.yaml": aChart, "sub/values.yaml": bomb()})}, want: render.LimitText},
		"large archive":           {files: map[string]string{"charts/sub.tgz": packed(large)}, want: render.LimitBytes},
		"archive of empty files":  {files: map[string]string{"charts/sub.tgz": packed(entries)}, want: render.LimitBytes},
		"archive in an archive":   {files: map[string]string{"charts/sub.tgz": packed(map[string]string{"sub/Chart.yaml": aChart, "sub/charts/low.tgz": packed(large)})}, want: render.LimitBytes},
		"archives side by side":   {files: sideBySide(packed(map[string]string{"sub/Chart.yaml": aChart, "sub/zeros": zeros})), want: render.LimitBytes},
		"long output":             {files: map[string]string{"templates/a.yaml": manifest("a", `"{{ repeat 1100000 "x" }}"`)}, want: render.LimitText},
		"depth of values":         {files: map[string]string{"templates/a.yaml": manifest("a", strings.Repeat("[", 200)+strings.Repeat("]", 200))}, want: render.LimitDepth},
		"values of the documents": {files: map[string]string{"templates/a.yaml": manifest("a", "[{{ repeat 260000 \"a,\" }}]")}, want: render.LimitValues},
	} {
		tree := chartOf(test.files)
		var err error
		took := allocated(func() { _, err = renderWithin(t, render.Limits{Bytes: 4 << 20, Text: 1 << 20}, tree, render.Input{}) })
		if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != test.want {
			t.Errorf("%s: got %v, want limit %s", name, err, test.want)
		}
		if took > 1<<30 { // other tests allocate at the same time
			t.Errorf("%s: allocated %d MiB", name, took>>20)
		}
	}
}

// sideBySide returns five dependencies in the same archive.
func sideBySide(archive string) map[string]string {
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprintf("charts/sub%d.tgz", i)] = archive
	}
	return files
}

// TestSecArchivesStayInTheirChart unpacks archives whose files would be written elsewhere.
func TestSecArchivesStayInTheirChart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sub/../../templates/x.yaml", "sub/../../../x", "sub//etc/x", "sub/c:/x", `sub\..\..\x`, "Chart.yaml"} {
		tree := chartOf(map[string]string{
			"templates/a.yaml": manifest("a", "b"),
			"charts/sub.tgz":   string(archived(t, map[string]string{"sub/Chart.yaml": aChart, name: manifest("escaped", "b")})),
		})
		_, err := renderChart(t, tree, render.Input{})
		if invalid := new(render.Error); !errors.As(err, &invalid) || invalid.Path != "chart/charts/sub.tgz" {
			t.Errorf("%s: got %v, want an error about the archive", name, err)
		}
	}
	for name, text := range map[string]string{"no archive": "x", "cut": string(archived(t, map[string]string{"sub/Chart.yaml": aChart})[:40])} {
		if _, err := renderChart(t, chartOf(map[string]string{"charts/sub.tgz": text}), render.Input{}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestSecChartsReachNothing renders charts that ask for the machine's environment, files, names of
// hosts and schemas elsewhere.
func TestSecChartsReachNothing(t *testing.T) {
	t.Setenv("CANARY", "of the environment")
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	for _, files := range []map[string]string{
		{"templates/a.yaml": manifest("a", `{{ env "CANARY" }}`)},
		{"templates/a.yaml": manifest("a", `{{ expandenv "$CANARY" }}`)},
		{"values.schema.json": `{"$ref": "` + server.URL + `/schema.json"}`},
		{"values.schema.json": `{"$schema": "` + server.URL + `/draft"}`},
		{"values.schema.json": `{"$id": "` + server.URL + `/x", "properties": {"a": {"$ref": "other.json"}}}`},
		{"values.schema.json": `{"properties": {"a": {"$dynamicRef": "` + server.URL + `/x#y"}}}`},
		{"values.schema.json": `{"$ref": "file:///etc/passwd"}`},
		{"charts/b/Chart.yaml": "{apiVersion: v2, name: b, version: 1.0.0}", "charts/b/values.schema.json": `{"$ref": "` + server.URL + `/schema.json"}`},
	} {
		out, err := renderChart(t, chartOf(files), render.Input{})
		if err == nil || strings.Contains(err.Error(), "of the environment") {
			t.Errorf("%v: got %v, %v, want it refused", files, out.Objects, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	out, err := renderChart(t, chartOf(map[string]string{
		"templates/a.yaml": manifest("a", `"{{ getHostByName "localhost" }}{{ .Files.Get "/etc/passwd" }}{{ .Files.Get "../../etc/passwd" }}{{ osBase "/x" }}"`),
	}), render.Input{})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Objects[0].Object["data"].(map[string]any)["v"]; got != "x" {
		t.Errorf("got %q, want no address and no file", got)
	}
}

// TestSecSecretsOfValuesAreMasked puts a secret of the configuration into a chart that shows it
// wherever it can.
func TestSecSecretsOfValuesAreMasked(t *testing.T) {
	t.Parallel()
	const canary = "canary-hunter2"
	in := render.Input{
		Variables: &render.Variables{Secrets: map[string]string{"PASSWORD": canary}},
		Steps:     []renderstep.Step{{Path: "chart", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Parameters: map[string]string{"password": "${PASSWORD}"}}}},
	}
	leak := regexp.MustCompile("canary|Y2FuYXJ5|63616e617279")
	for _, text := range []string{
		`{{ fail (print "wrong password " .Values.password) }}`, `{{ fail (b64enc .Values.password) }}`, `{{ required .Values.password nil }}`,
		`{{ include .Values.password . }}`, `{{ fail (.Values.password | printf "%x") }}`, `{{ index .Values.password "x" }}`, `{{ tpl (print "{{" .Values.password) . }}`,
		`{{ fromYaml (print "[" .Values.password) | toYaml | fail }}`, `{{ .Values.password | atoi | div 1 }}{{ fail (quote .Values.password) }}`,
		"kind: {{ .Values.password }}: [\n", "helm.sh/hook: {{ .Values.password }}: [\n",
	} {
		if _, err := renderChart(t, chartOf(map[string]string{"templates/a.yaml": text}), in); err == nil || leak.MatchString(err.Error()) {
			t.Errorf("%s: got %v, want an error without the secret", text, err)
		}
	}
	out, err := renderChart(t, chartOf(map[string]string{
		"templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n" +
			"data: {plain: {{ b64enc .Values.password }}, random: {{ bcrypt .Values.password | b64enc }}}\n---\n" +
			manifest("c", "\"user={{ .Values.password }};\"") + "  h: {{ printf \"%x\" .Values.password }}\n" + "  url: {{ urlquery .Values.password }}\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: h, annotations: {helm.sh/hook: \"never-{{ .Values.password }}\"}}\n",
	}), in)
	if err != nil {
		t.Fatal(err)
	}
	for key := range out.Generated {
		if leak.MatchString(key) {
			t.Errorf("the key %q shows the secret", key)
		}
	}
	if leak.MatchString(strings.Join(out.Warnings, "\n")) {
		t.Errorf("warnings show the secret: %q", out.Warnings)
	}
	for _, want := range []string{"Y2FuYXJ5LWh1bnRlcjI=", "user=" + canary + ";", "63616e6172792d68756e74657232", canary} {
		if !strings.Contains("\n"+strings.Join(out.Tainted, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("%q is not tainted; tainted are %q", want, out.Tainted)
		}
	}
}

// FuzzChart renders charts with any template and values. Errors have their types, and a second
// render of the same input makes the same.
func FuzzChart(f *testing.F) {
	f.Add("a: {{ .Values.a }}", "a: 1", "")
	f.Add("{{ tpl .Values.a . }}\n---\n{{ include \"x\" . }}{{ define \"x\" }}y{{ end }}", "a: '{{ .Release.Name }}'", `{"type": "object"}`)
	f.Add("{{ range $k, $v := .Values }}{{ toYaml $v | nindent 2 }}{{ end }}", "a: [1, {b: c}]\nglobal: {}", `{"$ref": "#/definitions/a", "definitions": {"a": {}}}`)
	f.Add("{{ randAlpha 4 }}{{ uuidv4 }}{{ now }}", "{}", "")
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: a, annotations: {helm.sh/hook: test}}}]\n", "a: null", "")
	// Charts that take much memory or time are left to the worker, which ends at its limits.
	costly := regexp.MustCompile(`[0-9]{4}|[eEpPxX][0-9]{2}|until|seq|repeat|indent|wrap|range|include|template|tpl|block|mul|gen[A-Z]|crypt|htpasswd|derive|Long|add`)
	f.Fuzz(func(t *testing.T, text, values, schema string) {
		if costly.MatchString(text) || costly.MatchString(values) || len(text)+len(values)+len(schema) > 4<<10 {
			t.Skip("such functions take seconds by design; the worker bounds them")
		}
		files := map[string]string{"templates/a.yaml": text, "values.yaml": values}
		if schema != "" {
			files["values.schema.json"] = schema
		}
		first, err := renderChart(t, chartOf(files), render.Input{})
		if err != nil {
			if invalid, limit := new(render.Error), new(render.LimitError); !errors.As(err, &invalid) && !errors.As(err, &limit) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		second, err := renderChart(t, chartOf(files), render.Input{Generated: maps.Clone(first.Generated)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(objectsIn(first), objectsIn(second)); diff != "" {
			t.Errorf("the second render (+) differs:\n%s", diff)
		}
	})
}

// FuzzValues merges any two files of values and a parameter of any name into a chart's own. Errors
// have their types, and a second render of the same input makes the same.
func FuzzValues(f *testing.F) {
	f.Add("a: 1\nb: {c: [1, 2]}", "a: null\nb: {c: [3]}", "b.d[1].e", "x")
	f.Add("global: {a: 1}\nsub: {enabled: false}", "sub: {global: {a: 2}}", "sub.enabled", "true")
	f.Add("<<: {a: b}", "a: &a [*a]", "a\\.b", "${X}")
	f.Add("[]", "", "", "")
	f.Add("a: 9007199254740993\nb: 1e3", "a: 0x10", "a[0]", "007")
	f.Fuzz(func(t *testing.T, first, second, name, value string) {
		if len(first)+len(second)+len(name)+len(value) > 4<<10 {
			return
		}
		tree := chartOf(map[string]string{
			"values.yaml":           "a: own\nb: {c: [0], d: own}\nsub: {enabled: true}\n",
			"Chart.yaml":            "{apiVersion: v2, name: a, version: 1.0.0, dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]}",
			"charts/sub/Chart.yaml": "{apiVersion: v2, name: sub, version: 1.0.0}", "charts/sub/templates/a.yaml": manifest("sub", "{{ .Values | toJson | quote }}"),
			"templates/a.yaml": manifest("a", "{{ .Values | toJson | quote }}"),
		})
		tree["first.yaml"], tree["second.yaml"] = []byte(first), []byte(second)
		in := render.Input{Steps: []renderstep.Step{{Path: "chart", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
			ValuesFiles: []string{"first.yaml", "second.yaml"}, Parameters: map[string]string{name: value},
		}}}}
		out, err := renderChart(t, tree, in)
		if invalid, limit := new(render.Error), new(render.LimitError); err != nil && !errors.As(err, &invalid) && !errors.As(err, &limit) {
			t.Errorf("%T: %v", err, err)
		}
		again, _ := renderChart(t, tree, in)
		if diff := gocmp.Diff(objectsIn(out), objectsIn(again)); diff != "" {
			t.Errorf("the second render (+) differs:\n%s", diff)
		}
	})
}

func objectsIn(out render.Output) (all []map[string]any) {
	for _, o := range out.Objects {
		all = append(all, o.Object)
	}
	return all
}
