// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderers"
)

const replicasAreANumber = `{"properties": {"REPLICAS": {"type": "integer"}}, "required": ["REPLICAS"]}`

// TestParametersMeetTheirSchema renders services with a schema beside their manifests, in one process
// and split over two.
func TestParametersMeetTheirSchema(t *testing.T) {
	t.Parallel()
	plain := map[string]string{"deploy/a.yaml": configMap("a") + "data: {text: \"${REPLICAS}\"}\n"}
	kustom := map[string]string{"deploy/kustomization.yaml": "resources: [a.yaml]\n", "deploy/a.yaml": configMap("a")}
	for name, test := range map[string]struct {
		files  map[string]string
		folder string
		steps  []renderstep.Step
		values map[string]string
		want   string // what the error holds; empty: none
	}{
		"plain":             {files: plain, folder: "deploy", values: map[string]string{"REPLICAS": "3"}},
		"plain, wrong":      {files: plain, folder: "deploy", values: map[string]string{"REPLICAS": "x"}, want: "REPLICAS: want integer"},
		"plain, missing":    {files: plain, folder: "deploy", values: map[string]string{}, want: "REPLICAS: required"},
		"kustomize":         {files: kustom, folder: "deploy", values: map[string]string{"REPLICAS": "3"}},
		"kustomize, wrong":  {files: kustom, folder: "deploy", values: map[string]string{"REPLICAS": "x"}, want: "REPLICAS: want integer"},
		"chart":             {files: chart("deploy", configMap("a")), folder: "deploy", values: map[string]string{"REPLICAS": "3"}},
		"chart, wrong":      {files: chart("deploy", configMap("a")), folder: "deploy", values: map[string]string{"REPLICAS": "x"}, want: "REPLICAS: want integer"},
		"of another folder": {files: plain, folder: "", values: map[string]string{"REPLICAS": "x"}},
		"of another step": {
			files: kustom, folder: "other", steps: []renderstep.Step{{Path: "deploy"}}, values: map[string]string{"REPLICAS": "x"},
		},
	} {
		files := withFiles(map[string]string{"deploy/leat.schema.json": replicasAreANumber, "other/b.yaml": configMap("b")}, test.files)
		in := render.Input{Files: tree(files), Folder: test.folder, Steps: test.steps, Variables: &render.Variables{Values: test.values}}
		if len(in.Steps) == 0 {
			in.Steps = []renderstep.Step{{}}
		}
		for place, renderer := range map[string]render.Renderer{
			"one process": renderers.Engine(render.Limits{}), "two": render.Split{Others: renderers.Engine(render.Limits{})},
		} {
			out, err := renderer.Render(t.Context(), in)
			if test.want == "" && (err != nil || len(out.Objects) == 0) {
				t.Errorf("%s in %s: got %d objects, %v", name, place, len(out.Objects), err)
			}
			if test.want == "" {
				continue
			}
			invalid, ok := errors.AsType[*render.Error](err)
			if !ok || invalid.Path != "deploy/leat.schema.json" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s in %s: got %v, want %s in an error of the file", name, place, err, test.want)
			}
		}
	}
}

// TestSecSchemasAreComparedElsewhere renders plain manifests with a schema that would take years to
// evaluate: it may not reach the process of the agent. The other process is sent the schema alone.
func TestSecSchemasAreComparedElsewhere(t *testing.T) {
	t.Parallel()
	const canary = "canary-91c2"
	others := &recorder{Renderer: renderers.Engine(render.Limits{})}
	out, err := render.Split{Others: others}.Render(t.Context(), render.Input{
		Service: "shop",
		Files: tree(map[string]string{
			"leat.schema.json": `{"required": ["PASSWORD"]}`, "a.yaml": configMap("a") + "data: {text: " + canary + "}\n",
			"kustomization.yaml": "resources: [a.yaml]\n",
		}),
		Steps:     []renderstep.Step{{}},
		Variables: &render.Variables{Secrets: map[string]string{"PASSWORD": "secret-5b1d"}},
	})
	if err != nil || len(out.Objects) != 1 || len(others.inputs) != 2 {
		t.Fatalf("got %d objects of %d renders elsewhere, %v; want the schema and the kustomization apart", len(out.Objects), len(others.inputs), err)
	}
	for i, in := range others.inputs {
		if in.Service != "shop" {
			t.Errorf("the render is charged to %q, want shop", in.Service)
		}
		var sent bytes.Buffer
		if err := in.Encode(&sent); err != nil {
			t.Fatal(err)
		}
		hasSecret, hasManifest := bytes.Contains(sent.Bytes(), []byte("secret-5b1d")), bytes.Contains(sent.Bytes(), []byte(canary))
		if hasSecret == hasManifest {
			t.Errorf("render %d is sent secrets: %v, manifests: %v; want one of them", i+1, hasSecret, hasManifest)
		}
	}
	if _, err := (render.Split{}).Render(t.Context(), render.Input{
		Files: tree(map[string]string{"leat.schema.json": "{}"}), Steps: []renderstep.Step{{}},
	}); err == nil {
		t.Error("got no error, want one where nothing can compare the schema")
	}
}

// TestSecSchemasAreBounded renders schemas that are too large, or not within the file's limits.
func TestSecSchemasAreBounded(t *testing.T) {
	t.Parallel()
	large := `{"description": "` + strings.Repeat("x", render.MaxSchema) + `"}`
	_, err := renderers.Engine(render.Limits{}).Render(t.Context(), render.Input{
		Files: tree(map[string]string{"leat.schema.json": large}), Steps: []renderstep.Step{{}},
	})
	if limit, ok := errors.AsType[*render.LimitError](err); !ok || limit.Limit != render.LimitBytes {
		t.Errorf("got %v, want a limit", err)
	}
	deep := strings.Repeat(`{"not":`, 10_000) + "{}" + strings.Repeat("}", 10_000)
	_, err = renderers.Engine(render.Limits{}).Render(t.Context(), render.Input{
		Files: tree(map[string]string{"leat.schema.json": deep}), Steps: []renderstep.Step{{}},
	})
	if err == nil || len(err.Error()) > 4<<10 {
		t.Errorf("got %.200v, want a short error", err)
	}
}
