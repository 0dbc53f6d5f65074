// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/facts"
	"github.com/leatdev/leat/render/jsonnet"
	"github.com/leatdev/leat/render/objecttree"
	"github.com/leatdev/leat/render/rendertest"
)

// input returns the input of a step in a folder, with a configuration and facts.
func input(files map[string]string, folder string, options *renderstep.JsonnetOptions) render.StepInput {
	return render.StepInput{
		Input: render.Input{
			Files:     rendertest.Files(files),
			Variables: &render.Variables{Values: map[string]string{"TAG": "1.2", "REPLICAS": "3"}, Secrets: map[string]string{"PASSWORD": "hunter2"}},
			Facts: render.Facts{
				Cluster: render.ClusterFacts{Name: "eu-1", Labels: map[string]string{"region": "eu"}, APIVersions: []string{"apps/v1", "v1"}},
				Service: render.ServiceFacts{Name: "shop", Namespace: "web"},
			},
			Installed: true,
		},
		Step:   renderstep.Step{Renderer: renderstep.Jsonnet, Jsonnet: options},
		Folder: folder,
	}
}

const library = `{map(name, data):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}, data: data}}`

// cases are features of the language and of the step, each with a program that uses it.
var cases = map[string]struct {
	files   map[string]string
	folder  string
	options *renderstep.JsonnetOptions
}{
	"one object":            {files: map[string]string{"main.jsonnet": `{apiVersion: 'v1', kind: 'Namespace', metadata: {name: 'a'}}`}},
	"a list":                {files: map[string]string{"main.jsonnet": `[{apiVersion: 'v1', kind: 'Namespace', metadata: {name: 'n%d' % i}} for i in std.range(1, 12)]`}},
	"a map of lists":        {files: map[string]string{"main.jsonnet": `{b: [{kind: 'B', apiVersion: 'v1'}], a: {c: {kind: 'A', apiVersion: 'v1'}}, none: if false then {}}`}},
	"hidden fields":         {files: map[string]string{"main.jsonnet": `{config:: {replicas: 3}, web: {kind: 'A', apiVersion: 'v1', spec: {replicas: $.config.replicas}}}`}},
	"mixins and super":      {files: map[string]string{"main.jsonnet": `local base = {kind: 'A', spec+: {a: 1}}; base + {apiVersion: 'v1', spec+: {b: super.a + 1}}`}},
	"functions and locals":  {files: map[string]string{"main.jsonnet": `local f(x, y=2) = x * y; {kind: 'A', apiVersion: 'v1', n: f(3), m: f(y=4, x=2)}`}},
	"assertions that hold":  {files: map[string]string{"main.jsonnet": `{assert self.n > 0 : 'positive', kind: 'A', apiVersion: 'v1', n: 1}`}},
	"numbers":               {files: map[string]string{"main.jsonnet": `{kind: 'A', apiVersion: 'v1', n: [1, 1.5, 1e21, -0.1, 9007199254740993, 1/3]}`}},
	"text blocks, escapes":  {files: map[string]string{"main.jsonnet": "{kind: 'A', apiVersion: 'v1', s: |||\n  a\n   b\n|||, u: '\\u00e9\\n<&>'}"}},
	"standard library":      {files: map[string]string{"main.jsonnet": `{kind: 'A', apiVersion: 'v1', b: std.base64('x'), m: std.md5('x'), y: std.manifestYamlDoc({a: [1]}), s: std.sort([3, 1]), p: std.mergePatch({a: 1, b: 2}, {b: null}), j: std.parseYaml('a: [1]')}`}},
	"import beside":         {files: map[string]string{"env/prod/main.jsonnet": `(import 'k.libsonnet').map('a', {})`, "env/prod/k.libsonnet": library}, folder: "env/prod"},
	"import above":          {files: map[string]string{"env/prod/main.jsonnet": `(import '../k.libsonnet').map('a', {})`, "env/k.libsonnet": library}, folder: "env/prod"},
	"import from vendor":    {files: map[string]string{"env/main.jsonnet": `(import 'k/k.libsonnet').map('a', {})`, "env/vendor/k/k.libsonnet": library}, folder: "env"},
	"lib is before vendor":  {files: map[string]string{"env/main.jsonnet": `import 'x'`, "env/vendor/x": `{kind: 'vendor'}`, "env/lib/x": `{kind: 'lib'}`}, folder: "env"},
	"library paths":         {files: map[string]string{"main.jsonnet": `import 'x'`, "one/x": `{kind: 'one'}`, "two/x": `{kind: 'two'}`}, options: &renderstep.JsonnetOptions{LibraryPaths: []string{"one", "two"}}},
	"imports of imports":    {files: map[string]string{"main.jsonnet": `import 'a/b.libsonnet'`, "a/b.libsonnet": `import 'c.libsonnet'`, "a/c.libsonnet": `{kind: 'A', file: std.thisFile}`}},
	"importstr, importbin":  {files: map[string]string{"main.jsonnet": `{kind: 'A', s: importstr 'x.txt', b: std.base64(importbin 'x.txt')}`, "x.txt": "text\n"}},
	"imports once":          {files: map[string]string{"main.jsonnet": `[import 'x', import 'x', import './x', import 'y/../x']`, "x": `{kind: 'A'}`}},
	"another file":          {files: map[string]string{"a/b.jsonnet": `{kind: 'B'}`}, folder: "a", options: &renderstep.JsonnetOptions{File: "b.jsonnet"}},
	"a file below":          {files: map[string]string{"a/b/c.jsonnet": `import 'd'`, "a/b/d": `{kind: 'B'}`}, folder: "a", options: &renderstep.JsonnetOptions{File: "b/c.jsonnet"}},
	"top-level arguments":   {files: map[string]string{"main.jsonnet": `function(tag, n='1') {kind: 'A', tag: tag, n: n, x: '${TAG}'}`}, options: &renderstep.JsonnetOptions{Arguments: map[string]string{"tag": "v${TAG}"}}},
	"configuration":         {files: map[string]string{"main.jsonnet": `local c = std.extVar('leat').config; {kind: 'A', n: std.parseInt(c.REPLICAS), p: std.base64(c.PASSWORD)}`}},
	"facts":                 {files: map[string]string{"main.jsonnet": `local l = std.extVar('leat'); {kind: 'A', f: l.facts, i: l.installed}`}},
	"API versions":          {files: map[string]string{"main.jsonnet": `local l = std.extVar('leat'); {kind: 'A', v: std.member(l.facts.cluster.apiVersions, 'apps/v1')}`}},
	"defaults of labels":    {files: map[string]string{"main.jsonnet": `local l = std.extVar('leat'); {kind: 'A', v: std.get(l.facts.cluster.annotations, 'tier', 'none')}`}},
	"sorted keys":           {files: map[string]string{"main.jsonnet": `{kind: 'A', z: 1, a: {[x]: x for x in ['c', 'a', 'b']}}`}},
	"recursion that ends":   {files: map[string]string{"main.jsonnet": `local f(n) = if n == 0 then 0 else 1 + f(n - 1); {kind: 'A', n: f(200)}`}},
	"a tail call":           {files: map[string]string{"main.jsonnet": `local f(n, a) = if n == 0 then a else f(n - 1, a + 1) tailstrict; {kind: 'A', n: f(2000, 0)}`}},
	"errors not evaluated":  {files: map[string]string{"main.jsonnet": `{kind: 'A', lazy:: error 'never'}`}},
	"unused missing import": {files: map[string]string{"main.jsonnet": `local x = import 'none'; {kind: 'A'}`}},
}

// TestEqualToTheProgram compares each case with the jsonnet program.
func TestEqualToTheProgram(t *testing.T) {
	t.Parallel()
	program := rendertest.Original(t, "jsonnet")
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(test.files, test.folder, test.options)
			got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			document, err := json.Marshal(facts.Document(in, render.Asked{Facts: true, APIVersions: true}))
			if err != nil {
				t.Fatal(err)
			}
			file, args := "main.jsonnet", []string{"--ext-code", "leat=" + string(document)}
			libraries := []string{"vendor", "lib"}
			if o := test.options; o != nil {
				if o.File != "" {
					file = o.File
				}
				if o.LibraryPaths != nil {
					libraries = o.LibraryPaths
				}
				for _, argument := range slices.Sorted(maps.Keys(o.Arguments)) {
					args = append(args, "--tla-str", argument+"="+strings.ReplaceAll(o.Arguments[argument], "${TAG}", "1.2"))
				}
			}
			for _, library := range libraries {
				args = append(args, "-J", path.Join(test.folder, library))
			}
			file = path.Join(test.folder, file)
			result, err := rendertest.Run(t, rendertest.Write(t, in.Files), program, append(args, file)...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := objecttree.Documents(file, result, render.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Documents); diff != "" || len(want) == 0 {
				t.Errorf("documents (-program +Leat):\n%s", diff)
			}
		})
	}
}

func TestConform(t *testing.T) {
	t.Parallel()
	rendertest.Conform(t, jsonnet.Renderer{}, input(map[string]string{
		"main.jsonnet": `local l = std.extVar('leat'); {a: {kind: 'A', leat: l}, [if std.objectHas(l.config, 'TAG') then 'b']: import 'x'}`, "x": `{kind: 'B'}`,
	}, "", nil))
}

func TestLibrariesOfFoldersAbove(t *testing.T) {
	t.Parallel()
	got, err := jsonnet.Renderer{}.RenderStep(t.Context(), input(map[string]string{
		"env/eu/main.jsonnet": `[import 'root', import 'env', import 'near']`,
		"vendor/root":         `{kind: 'R'}`, "env/vendor/env": `{kind: 'E'}`, "vendor/near": `{kind: 'far'}`, "env/eu/vendor/near": `{kind: 'near'}`,
	}, "env/eu", nil))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, document := range got.Documents {
		kinds = append(kinds, strings.TrimSpace(string(document.Text)))
	}
	if diff := cmp.Diff([]string{`{"kind":"R"}`, `{"kind":"E"}`, `{"kind":"near"}`}, kinds); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
}

// TestExample runs the example of docs/guides/renderers.md.
func TestExample(t *testing.T) {
	t.Parallel()
	files, want := rendertest.Example(t, "Jsonnet")
	in := input(files, "shop", &renderstep.JsonnetOptions{Arguments: map[string]string{"tag": "${TAG}"}})
	in.Variables.Values = map[string]string{"TAG": "1.4.2", "CONSENT_URL": "https://consent.example"}
	got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rendertest.Text(got.Documents)); diff != "" {
		t.Errorf("output (-documented +got):\n%s", diff)
	}
}

// TestAsked reads parts of the facts, and expects that only these are reported.
func TestAsked(t *testing.T) {
	t.Parallel()
	for read, want := range map[string]render.Asked{
		`1`:                                   {},
		`l.config.TAG`:                        {},
		`l.installed`:                         {},
		`l.facts.cluster.name`:                {Facts: true},
		`std.length(l.facts.service)`:         {Facts: true},
		`l.facts.cluster.apiVersions`:         {Facts: true, APIVersions: true},
		`l`:                                   {Facts: true, APIVersions: true},
		`if 'x' == l.config.TAG then l.facts`: {},
		`error l.facts.cluster.name`:          {Facts: true},
	} {
		in := input(map[string]string{"main.jsonnet": fmt.Sprintf(`local l = std.extVar('leat'); {kind: 'A', v: %s}`, read)}, "", nil)
		got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
		if got.Asked != want || err != nil && !strings.HasPrefix(read, "error") {
			t.Errorf("%s: got %+v, %v, want %+v", read, got.Asked, err, want)
		}
	}
}

func TestTraceIsAWarning(t *testing.T) {
	t.Parallel()
	in := input(map[string]string{"main.jsonnet": `std.trace('deprecated', {kind: 'A', x: [std.trace(std.repeat('y', 100), i) for i in std.range(1, 1000)]})`}, "", nil)
	got, err := jsonnet.Renderer{}.RenderStep(t.Context(), in)
	if err != nil || len(got.Warnings) == 0 || got.Warnings[0] != "TRACE: main.jsonnet:1 deprecated" {
		t.Fatalf("got %q, %v", got.Warnings, err)
	}
	if size := len(strings.Join(got.Warnings, "\n")); size > 4<<10 {
		t.Errorf("warnings have %d bytes, want at most 4 KiB", size)
	}
}

func TestErrorsHavePositions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files   map[string]string
		folder  string
		options *renderstep.JsonnetOptions
		want    string
	}{
		"syntax":              {files: map[string]string{"a/main.jsonnet": "{\n  a: ,\n}"}, folder: "a", want: `a/main.jsonnet:2:6: Unexpected: ","`},
		"syntax of an import": {files: map[string]string{"main.jsonnet": "import 'x.libsonnet'", "x.libsonnet": "{\n"}, want: "main.jsonnet:1:1: x.libsonnet:2:1 "},
		"unknown name":        {files: map[string]string{"main.jsonnet": "{kind: x}"}, want: "main.jsonnet:1:8: Unknown variable: x"},
		"error":               {files: map[string]string{"main.jsonnet": "local f() = error 'no tag';\n{kind: 'A', x: f()}"}, want: "main.jsonnet:1:13: no tag; called from main.jsonnet:2:16"},
		"error in a library":  {files: map[string]string{"main.jsonnet": "(import 'x').f(null)", "vendor/x": "{\n f(a):: a.b }"}, want: "vendor/x:2:9: Value non indexable: *jsonnet.valueNull; called from main.jsonnet:1:1"},
		"missing field":       {files: map[string]string{"main.jsonnet": "{kind: 'A', x: std.extVar('leat').config.NONE}"}, want: "main.jsonnet:1:16: Field does not exist: NONE"},
		"missing variable":    {files: map[string]string{"main.jsonnet": "{kind: std.extVar('other')}"}, want: "main.jsonnet:1:8: Undefined external variable: other"},
		"assertion":           {files: map[string]string{"main.jsonnet": "{assert false : 'must', kind: 'A'}"}, want: "main.jsonnet:1:2: must"},
		"missing import":      {files: map[string]string{"e/main.jsonnet": "import 'k.libsonnet'"}, folder: "e", want: `e/main.jsonnet:1:1: cannot import "k.libsonnet": no such file; looked for e/k.libsonnet, e/lib/k.libsonnet, e/vendor/k.libsonnet, lib/k.libsonnet, vendor/k.libsonnet`},
		"no file":             {files: map[string]string{"x": ""}, folder: "e", want: "e/main.jsonnet: no such file; create it"},
		"missing argument":    {files: map[string]string{"main.jsonnet": "function(tag) {kind: 'A', tag: tag}"}, want: "main.jsonnet: Missing argument: tag"},
		"unknown argument":    {files: map[string]string{"main.jsonnet": "function() {kind: 'A'}"}, options: &renderstep.JsonnetOptions{Arguments: map[string]string{"x": "1"}}, want: "main.jsonnet: function has no parameter x"},
		"unknown variable":    {files: map[string]string{"main.jsonnet": "{}"}, options: &renderstep.JsonnetOptions{Arguments: map[string]string{"x": "${NONE}"}}, want: "jsonnet.arguments.x: the step's options: the service's configuration has no variable NONE"},
		"no object":           {files: map[string]string{"main.jsonnet": "{web: {replicas: 3}}"}, want: "main.jsonnet: web.replicas: is a number, want an object of Kubernetes"},
		"a function":          {files: map[string]string{"main.jsonnet": "{kind: 'A', f: function(x) x}"}, want: "main.jsonnet: couldn't manifest function"},
		"a long message":      {files: map[string]string{"main.jsonnet": "error std.repeat('x', 100000)"}, want: "main.jsonnet:1:1: xxx"},
	} {
		_, err := jsonnet.Renderer{}.RenderStep(t.Context(), input(test.files, test.folder, test.options))
		problem := new(render.Error)
		if !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		} else if len(err.Error()) > 5<<10 {
			t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
	}
}
