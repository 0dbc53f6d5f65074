// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

// TestFilesForLaterSteps writes files with Liquid: they are manifests of the step itself, or values of
// a chart in the step behind it.
func TestFilesForLaterSteps(t *testing.T) {
	t.Parallel()
	files := tree(withFiles(chart("chart", configMap("chart")+"data: {text: {{ .Values.text | quote }}}\n"), map[string]string{
		"deploy/a.yaml.liquid":      configMap("a") + "data: {text: \"{{ configuration.TEXT }}\"}\n",
		"deploy/plain.yaml":         configMap("plain") + "data: {text: \"${TEXT}\"}\n",
		"values/values.yaml.liquid": "text: \"{{ configuration.TEXT }}\"\n",
	}))
	variables := &render.Variables{Secrets: map[string]string{"TEXT": "secret-text"}}
	for name, test := range map[string]struct {
		steps []renderstep.Step
		want  map[string]any
	}{
		"the step's own": {
			steps: []renderstep.Step{{Path: "deploy", Renderer: renderstep.Liquid}},
			want:  map[string]any{"a": "secret-text", "plain": "${TEXT}"},
		},
		"for a chart": {
			steps: []renderstep.Step{
				{Path: "values", Renderer: renderstep.Liquid, Liquid: &renderstep.LiquidOptions{FilesOnly: true}},
				{Path: "chart", Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{ValuesFiles: []string{"values/values.yaml"}}},
			},
			want: map[string]any{"chart": "secret-text"},
		},
	} {
		out, err := renderers.Engine(render.Limits{}).Render(t.Context(), render.Input{Files: files, Steps: test.steps, Variables: variables})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, texts(out, "text")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !cmp.Equal(out.Tainted, []string{"secret-text"}) {
			t.Errorf("%s: got %q tainted", name, out.Tainted)
		}
	}
}
