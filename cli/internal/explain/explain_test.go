// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/cli/internal/explain"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// report explains one tree.
func report(t *testing.T, files map[string]string, steps ...renderstep.Step) (explain.Report, error) {
	t.Helper()
	content := map[string][]byte{}
	for name, text := range files {
		content[name] = []byte(text)
	}
	if len(steps) == 0 {
		steps = []renderstep.Step{{}}
	}
	var r explain.Report
	err := r.Tree(render.Input{Files: render.NewFiles(content), Steps: steps}, "")
	return r, err
}

// names returns "name=default" of settings.
func names(settings []explain.Setting) (all []string) {
	for _, s := range settings {
		text := s.Name
		if s.Default != nil {
			text += "=" + *s.Default
		}
		all = append(all, text)
	}
	return all
}

func TestParametersOfEachLanguage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		steps []renderstep.Step
		want  []string
	}{
		"plain":          {files: map[string]string{"a.yaml": "a: ${A:-x}\nb: ${B}", "b.txt": "${C}", "c.yml": "$${D}"}, want: []string{"A=x", "B"}},
		"plain, as text": {files: map[string]string{"a.yaml": "${A}"}, steps: []renderstep.Step{{Substitute: new(bool)}}},
		"kustomize":      {files: map[string]string{"kustomization.yaml": "", "run.sh": "echo ${A}"}, want: []string{"A"}},
		"chart":          {files: map[string]string{"Chart.yaml": "", "templates/a.yaml": "${A}"}},
		"options": {
			files: map[string]string{"Chart.yaml": ""},
			steps: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
				Parameters: map[string]string{"a": "${A}"}, Values: map[string]any{"list": []any{map[string]any{"b": "${B:-b}"}}},
			}}},
			want: []string{"A", "B=b"},
		},
		"Jsonnet": {
			files: map[string]string{"main.jsonnet": "leat.config.A", "lib/k.libsonnet": "std.extVar('leat');\nleat.config.B_1 + xleat.config.C"},
			steps: []renderstep.Step{{Renderer: renderstep.Jsonnet, Jsonnet: &renderstep.JsonnetOptions{Arguments: map[string]string{"d": "${D}"}}}},
			want:  []string{"A", "B_1", "D"},
		},
		"Liquid": {
			files: map[string]string{"a.yaml.liquid": "{{ configuration.A | default: 'x' }} {{ leat.config.B }} ${C}"},
			steps: []renderstep.Step{{Renderer: renderstep.Liquid}}, want: []string{"A", "B"},
		},
		"CUE": {files: map[string]string{"a.cue": `leat.config.A`}, steps: []renderstep.Step{{Renderer: renderstep.CUE}}, want: []string{"A"}},
		"schema": {
			files: map[string]string{
				"leat.schema.json": `{"properties": {"A": {"type": "integer", "default": 3}, "B": {"default": "b"}, "C": {"properties": {"d": {}}}}}`,
				"a.yaml":           "a: ${A:-4}\nd: ${D:-}",
			},
			want: []string{"A=3", "B=b", "C", "D="},
		},
	} {
		got, err := report(t, test.files, test.steps...)
		if diff := cmp.Diff(test.want, names(got.Parameters)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestLayersOfValues names the places that set values, in the order in which they override each other.
func TestLayersOfValues(t *testing.T) {
	t.Parallel()
	got, err := report(t, map[string]string{
		"chart/Chart.yaml": "", "chart/values.yaml": "a: {b: 1, c: 2}\nlist: [1]\nnone: {}\n", "chart/values.schema.json": `{"properties": {"a": {"properties": {"b": {"type": "integer"}}}}}`,
		"one.yaml": "a:\n  b: 2\nlist: [2, 3]\n", "two.yaml": "{a: {b: 3}, none: {x: y}}",
	}, renderstep.Step{Path: "chart", Helm: &renderstep.HelmOptions{
		ValuesFiles: []string{"one.yaml", "two.yaml", "three.yaml?"}, Values: map[string]any{"a": map[string]any{"c": "${C}"}},
		Parameters: map[string]string{"a.b": "4", "list[0]": "5"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	where := map[string]string{}
	for _, s := range got.Values["chart"] {
		where[s.Name] = strings.Join(s.Where, " ")
	}
	want := map[string]string{
		"a.b":     "chart/values.yaml:1 one.yaml:2 two.yaml:1 spec.render[0].helm.parameters.a.b",
		"a.c":     "chart/values.yaml:1 spec.render[0].helm.values.a.c",
		"list":    "chart/values.yaml:2 one.yaml:3",
		"list[0]": "spec.render[0].helm.parameters.list[0]",
		"none":    "chart/values.yaml:3",
		"none.x":  "two.yaml:1",
	}
	if diff := cmp.Diff(want, where); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if _, err := report(t, map[string]string{"Chart.yaml": ""}, renderstep.Step{Helm: &renderstep.HelmOptions{ValuesFiles: []string{"gone.yaml"}}}); err == nil {
		t.Error("got no error for a missing file of values")
	}
}

func TestContentThatCannotBeExplained(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"leat.schema.json": "{", "values.yaml": "- a list", "values.schema.json": "type: object",
	} {
		if _, err := report(t, map[string]string{"Chart.yaml": "", file: text}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want an error that names the file", file, err)
		}
	}
	if _, err := report(t, map[string]string{"a.yaml": ""}, renderstep.Step{Path: "gone"}); err == nil {
		t.Error("got no error for a folder that does not exist")
	}
}

// TestSecExplainIsBounded explains values that multiply, or go on and on.
func TestSecExplainIsBounded(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	many := strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(&many, "v%d: ${V%d} ${SAME}\n", i, i)
	}
	deep := ""
	for i := range 200 {
		deep += strings.Repeat(" ", i) + "a:\n"
	}
	for name, values := range map[string]string{
		"bomb": bomb, "many": many.String(), "deep": deep, "long": "a: " + strings.Repeat("x", 1<<20), "flow": "a: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000),
	} {
		got, err := report(t, map[string]string{"Chart.yaml": "", "values.yaml": values})
		if err != nil {
			t.Logf("%s: %.200v", name, err)
			continue
		}
		for _, s := range got.Values["."] {
			if len(s.Name) > 1<<10 || s.Default != nil && len(*s.Default) > 1<<10 {
				t.Errorf("%s: got a name of %d bytes and a default of more than 1 KiB", name, len(s.Name))
			}
		}
		if len(got.Values["."]) > 5000 {
			t.Errorf("%s: got %d values, want at most 5000", name, len(got.Values["."]))
		}
	}
	got, err := report(t, map[string]string{"a.yaml": many.String(), "b.yaml": many.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Parameters {
		if len(s.Where) > 20 {
			t.Errorf("got %d places of %s, want at most 20", len(s.Where), s.Name)
		}
	}
}
