// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/cue"
	"github.com/leatdev/leat/render/facts"
	"github.com/leatdev/leat/render/objecttree"
	"github.com/leatdev/leat/render/rendertest"
)

// input returns the input of a step in a folder, with a configuration and facts.
func input(files map[string]string, folder string, options *renderstep.CUEOptions) render.StepInput {
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
		Step:   renderstep.Step{Renderer: renderstep.CUE, CUE: options},
		Folder: folder,
	}
}

const module = "module: \"example.com/shop\"\nlanguage: version: \"v0.13.0\"\n"

// cases are features of the language and of the step, each with a program that uses it.
var cases = map[string]struct {
	files   map[string]string
	folder  string
	options *renderstep.CUEOptions
}{
	"one object":           {files: map[string]string{"a.cue": "package a\nobjects: {apiVersion: \"v1\", kind: \"Namespace\", metadata: name: \"a\"}"}},
	"a list":               {files: map[string]string{"a.cue": "package a\nobjects: [for i in [1, 2, 3] {kind: \"A\", n: i}]"}},
	"a map of lists":       {files: map[string]string{"a.cue": "package a\nobjects: {b: [{kind: \"B\"}], a: c: kind: \"A\"}"}},
	"definitions":          {files: map[string]string{"a.cue": "package a\n#D: {kind: \"A\", n: int | *1}\nobjects: [#D, #D & {n: 2}]"}},
	"templates":            {files: map[string]string{"a.cue": "package a\nobjects: [N=string]: {kind: \"A\", metadata: name: N}\nobjects: web: n: 1\nobjects: db: _"}},
	"hidden fields, let":   {files: map[string]string{"a.cue": "package a\n_n: 1\nlet m = _n + 1\nobjects: {kind: \"A\", n: m, _h: 3}"}},
	"several files":        {files: map[string]string{"a.cue": "package a\nobjects: web: kind: \"A\"", "b.cue": "package a\nobjects: web: n: 1"}},
	"defaults":             {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", n: *1 | int, s: string | *\"x\"}"}},
	"optional fields":      {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", n?: int}"}},
	"conditions":           {files: map[string]string{"a.cue": "package a\nprod: true\nobjects: {if prod {web: kind: \"A\"}, if !prod {db: kind: \"B\"}}"}},
	"numbers":              {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", n: [1, 1.5, 1e3, -0.1, 9007199254740993, 0x10, 1Mi]}"}},
	"texts":                {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", s: \"\"\"\n\ta\n\t  b\n\t\"\"\", t: \"é<&>\\(1+1)\", b: '\\x00a'}"}},
	"standard library":     {files: map[string]string{"a.cue": "package a\nimport (\"strings\", \"encoding/yaml\", \"encoding/base64\", \"list\")\nobjects: {kind: \"A\", u: strings.ToUpper(\"a\"), y: yaml.Marshal({a: [1]}), b: base64.Encode(null, \"x\"), s: list.Sort([2, 1], list.Ascending)}"}},
	"sub-packages":         {files: map[string]string{"cue.mod/module.cue": module, "env/a.cue": "package a\nimport \"example.com/shop/lib\"\nobjects: lib.#D & {n: 2}", "lib/l.cue": "package lib\n#D: {kind: \"A\", n: int}"}, folder: "env"},
	"folders above":        {files: map[string]string{"cue.mod/module.cue": module, "a.cue": "package a\nobjects: web: kind: \"A\"", "env/prod/a.cue": "package a\nobjects: web: n: 1"}, folder: "env/prod"},
	"vendored packages":    {files: map[string]string{"cue.mod/module.cue": module, "a.cue": "package a\nimport \"k8s.example/v1\"\nobjects: v1.#D", "cue.mod/pkg/k8s.example/v1/v1.cue": "package v1\n#D: kind: \"A\""}},
	"generated packages":   {files: map[string]string{"cue.mod/module.cue": module, "a.cue": "package a\nimport \"k8s.example/v1\"\nobjects: v1.#D & {n: 1}", "cue.mod/gen/k8s.example/v1/v1.cue": "package v1\n#D: {kind: \"A\", n: int}"}},
	"a package of several": {files: map[string]string{"a.cue": "package a\nobjects: kind: \"A\"", "b.cue": "package b\nobjects: kind: \"B\""}, options: &renderstep.CUEOptions{Package: "b"}},
	"an expression":        {files: map[string]string{"a.cue": "package a\nout: {web: kind: \"A\", n: 1}"}, options: &renderstep.CUEOptions{Expression: "[out.web, {kind: \"B\", n: out.n}]"}},
	"tags":                 {files: map[string]string{"a.cue": "package a\nimage: string @tag(image)\nn: int @tag(n,type=int)\nobjects: {kind: \"A\", i: image, m: n}"}, options: &renderstep.CUEOptions{Tags: map[string]string{"image": "web:${TAG}", "n": "${REPLICAS}"}}},
	"files by a tag":       {files: map[string]string{"a.cue": "package a\nobjects: kind: \"A\"", "b.cue": "@if(prod)\npackage a\nobjects: n: 1", "c.cue": "@if(!prod)\npackage a\nobjects: n: 2"}, options: &renderstep.CUEOptions{Tags: map[string]string{"prod": ""}}},
	"configuration":        {files: map[string]string{"a.cue": "package a\nimport \"strconv\"\nobjects: {kind: \"A\", n: strconv.Atoi(leat.config.REPLICAS), p: leat.config.PASSWORD}"}},
	"facts":                {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", f: leat.facts, i: leat.installed, v: leat.facts.cluster.apiVersions}"}},
	"a schema of leat":     {files: map[string]string{"a.cue": "package a\nleat: {config: {REPLICAS: =~\"^[0-9]+$\", ...}, ...}\nobjects: {kind: \"A\", n: leat.config.REPLICAS}"}},
	"a schema with holes":  {files: map[string]string{"a.cue": "package a\nleat: _\nobjects: {kind: \"A\", r: leat.facts.cluster.labels.region, l: leat.facts.cluster.labels.tier | *\"none\"}"}},
	"embedded files":       {files: map[string]string{"cue.mod/module.cue": module, "a.cue": "@extern(embed)\npackage a\nobjects: {kind: \"A\", d: _ @embed(file=d.yaml), t: _ @embed(file=t.txt,type=text)}", "d.yaml": "a: [1]", "t.txt": "text"}},
	"test files":           {files: map[string]string{"a.cue": "package a\nobjects: kind: \"A\"", "a_test.cue": "package a\nobjects: kind: \"B\"", "a_tool.cue": "package a\nobjects: kind: \"C\"", "_x.cue": "package a\nobjects: kind: \"D\""}},
	"builtins":             {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", n: len([1, 2]), q: quo(7, 2), m: mod(7, 2)}"}},
}

// TestEqualToTheProgram compares each case with cue export.
func TestEqualToTheProgram(t *testing.T) {
	t.Parallel()
	program := rendertest.Original(t, "cue")
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(test.files, test.folder, test.options)
			got, err := cue.Renderer{}.RenderStep(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			expression, args := "objects", []string{"export", "--out", "json"}
			root := rendertest.Write(t, in.Files)
			folder := filepath.Join(root, test.folder)
			instance := "."
			if o := test.options; o != nil {
				if o.Expression != "" {
					expression = o.Expression
				}
				if o.Package != "" {
					instance = ".:" + o.Package
				}
				for _, tag := range slices.Sorted(maps.Keys(o.Tags)) {
					value := strings.NewReplacer("${TAG}", "1.2", "${REPLICAS}", "3").Replace(o.Tags[tag])
					args = append(args, "-t", strings.TrimSuffix(tag+"="+value, "="))
				}
			}
			if got.Asked.Facts {
				document, err := json.Marshal(facts.Document(in, got.Asked))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "leat.cue"), []byte("package a\nleat: "+string(document)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			result, err := rendertest.Run(t, folder, program, append(args, "-e", expression, instance)...)
			if err != nil {
				t.Fatal(err)
			}
			named, err := json.Marshal(map[string]json.RawMessage{expression: result})
			if err != nil {
				t.Fatal(err)
			}
			place := test.folder
			if place == "" {
				place = "."
			}
			want, err := objecttree.Documents(place, named, render.Limits{})
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
	rendertest.Conform(t, cue.Renderer{}, input(map[string]string{
		"a.cue": "package a\nobjects: {for name, text in leat.config {(name): {kind: \"A\", t: text}}, c: {kind: \"B\", leat.facts, v: leat.facts.cluster.apiVersions}}",
	}, "", nil))
}

// TestExample runs the example of docs/guides/renderers.md.
func TestExample(t *testing.T) {
	t.Parallel()
	files, want := rendertest.Example(t, "CUE")
	in := input(files, "shop", &renderstep.CUEOptions{Tags: map[string]string{"tag": "${TAG}"}})
	in.Variables.Values["TAG"] = "1.4.2"
	got, err := cue.Renderer{}.RenderStep(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rendertest.Text(got.Documents)); diff != "" {
		t.Errorf("output (-documented +got):\n%s", diff)
	}
}

func TestAsked(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]render.Asked{
		"objects: kind: \"A\"":                                                     {},
		"objects: {kind: \"A\", t: leat.config.TAG}":                               {Facts: true},
		"objects: {kind: \"A\", t: leat.facts.cluster.apiVersions}":                {Facts: true, APIVersions: true},
		"objects: {kind: \"A\", apiVersions: 1}":                                   {},
		"objects: {kind: \"A\", t: len(leat.facts.cluster[\"api\"+\"Versions\"])}": {Facts: true},
	} {
		got, err := cue.Renderer{}.RenderStep(t.Context(), input(map[string]string{"a.cue": "package a\n" + program}, "", nil))
		if got.Asked != want || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", program, got.Asked, err, want)
		}
		if strings.Contains(program, "api\"+") && !strings.Contains(rendertest.Text(got.Documents), `"t":0`) {
			t.Errorf("%s: got %s, want no API versions: they were not asked for", program, rendertest.Text(got.Documents))
		}
	}
	in := input(map[string]string{"a.cue": "package a\nx: 1"}, "", &renderstep.CUEOptions{Expression: "{kind: \"A\", r: leat.facts.cluster.labels.region}"})
	if got, err := (cue.Renderer{}).RenderStep(t.Context(), in); !got.Asked.Facts || err != nil {
		t.Errorf("an expression: got %+v, %v", got.Asked, err)
	}
}

func TestErrorsHavePositions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files   map[string]string
		folder  string
		options *renderstep.CUEOptions
		want    string
	}{
		"syntax":                 {files: map[string]string{"e/a.cue": "package a\nobjects: {"}, folder: "e", want: "e/a.cue:2:"},
		"unknown name":           {files: map[string]string{"a.cue": "package a\nobjects: x"}, want: `a.cue:2:10: objects: reference "x" not found`},
		"conflict":               {files: map[string]string{"a.cue": "package a\nobjects: n: 1\nobjects: n: 2"}, want: "a.cue:3:13: objects.n: conflicting values 2 and 1 (a.cue:2:13)"},
		"conflict elsewhere":     {files: map[string]string{"a.cue": "package a\nother: n: 1\nother: n: \"x\"\nobjects: kind: \"A\""}, want: "a.cue:2:11: other.n: conflicting values"},
		"not concrete":           {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", n: int}"}, want: "a.cue:2:25: objects.n: incomplete value int"},
		"required field":         {files: map[string]string{"a.cue": "package a\n#D: {kind: \"A\", n!: int}\nobjects: #D"}, want: "a.cue:3:10: objects.n: field is required but not present (a.cue:2:17)"},
		"closed definition":      {files: map[string]string{"a.cue": "package a\n#D: {kind: \"A\"}\nobjects: #D & {replica: 1}"}, want: "a.cue:3:16: objects.replica: field not allowed"},
		"no objects":             {files: map[string]string{"a.cue": "package a\nx: 1"}, want: `cue.expression:1:1: reference "objects" not found`},
		"expression":             {files: map[string]string{"a.cue": "package a\nx: 1"}, options: &renderstep.CUEOptions{Expression: "x +"}, want: "cue.expression:1:"},
		"missing config":         {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", x: leat.config.NONE}"}, want: "a.cue:2:37: objects.x: undefined field: NONE"},
		"schema of leat":         {files: map[string]string{"a.cue": "package a\nleat: config: REPLICAS: =~\"^[a-z]+$\"\nobjects: kind: \"A\""}, want: "a.cue:2:25: leat.config.REPLICAS: invalid value \"3\" (out of bound =~\"^[a-z]+$\")"},
		"no folder":              {files: map[string]string{"a.cue": "package a"}, folder: "none", want: "none: "},
		"no package":             {files: map[string]string{"a.txt": ""}, want: ".: "},
		"two packages":           {files: map[string]string{"a.cue": "package a", "b.cue": "package b"}, want: ".: found packages \"a\" (a.cue) and \"b\" (b.cue)"},
		"unknown package":        {files: map[string]string{"a.cue": "package a"}, options: &renderstep.CUEOptions{Package: "z"}, want: ".: "},
		"unknown tag":            {files: map[string]string{"a.cue": "package a\nobjects: kind: \"A\""}, options: &renderstep.CUEOptions{Tags: map[string]string{"x": "1"}}, want: `.: no tag for "x"`},
		"tag with =":             {files: map[string]string{"a.cue": "package a"}, options: &renderstep.CUEOptions{Tags: map[string]string{"x=y": "1"}}, want: `cue.tags: "x=y" is not the name of a tag`},
		"unknown variable":       {files: map[string]string{"a.cue": "package a"}, options: &renderstep.CUEOptions{Tags: map[string]string{"x": "${NONE}"}}, want: "cue.tags.x: the step's options: the service's configuration has no variable NONE"},
		"missing import":         {files: map[string]string{"cue.mod/module.cue": module, "a.cue": "package a\nimport \"k8s.example/v1\"\nobjects: v1.#D"}, want: "a.cue:2:8: "},
		"a file without package": {files: map[string]string{"a.cue": "objects: kind: \"A\""}, want: ".: "},
		"missing dependency":     {files: map[string]string{"cue.mod/module.cue": module + "deps: \"k8s.example@v1\": v: \"v1.2.3\"\n", "a.cue": "package a\nimport \"k8s.example/v1@v1\"\nobjects: v1.#D"}, want: `a.cue:2:8: import failed: a.cue:2:8: cannot find package "k8s.example/v1@v1": cannot fetch k8s.example@v1.2.3: k8s.example@v1.2.3 is not in the service's tree, and no registry is asked`},
		"no object":              {files: map[string]string{"e/a.cue": "package a\nobjects: web: replicas: 3"}, folder: "e", want: "e: objects.web.replicas: is a number, want an object of Kubernetes"},
		"a structural cycle":     {files: map[string]string{"a.cue": "package a\nobjects: {kind: \"A\", a: objects}"}, want: ".: objects.a: structural cycle"},
		"many errors":            {files: map[string]string{"a.cue": "package a\nobjects: {" + strings.Repeat("x: y,", 1) + "a: 1 & 2, b: 1 & 3, c: 1 & 4, d: 1 & 5, e: 1 & 6, f: 1 & 7, g: 1 & 8, h: 1 & 9, i: 1 & 10, j: 1 & 11, k: 1 & 12}"}, want: "a.cue:2:14: "},
		"embed without a file":   {files: map[string]string{"cue.mod/module.cue": module, "a.cue": "@extern(embed)\npackage a\nobjects: _ @embed(file=none.yaml)"}, want: "a.cue:3:"},
	} {
		_, err := cue.Renderer{}.RenderStep(t.Context(), input(test.files, test.folder, test.options))
		if problem := new(render.Error); !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		} else if len(err.Error()) > 5<<10 {
			t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
	}
}
