// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
)

// doubled returns lines that begin with a first one, and each of which has the one before twice.
func doubled(first, next string, lines int) string {
	text := first
	for i := range lines {
		text += "\n" + fmt.Sprintf(next, i+1, i, i)
	}
	return text
}

// tables is a WebAssembly module that grows a table without an end.
const tables = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x04\x04\x01\x70\x00\x00" + "\x07\x0a\x01\x06_start\x00\x00" +
	"\x0a\x14\x01\x12\x00\x03\x40\xd0\x70\x41\x80\x80\x80\x20\xfc\x0f\x00\x1a\x0c\x00\x0b\x0b"

// TestWorkersKnowEveryLanguage renders each in a worker with the least memory.
func TestWorkersKnowEveryLanguage(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Memory: 192 * config.MiB})
	needsLimits(t, pool)
	for renderer, content := range map[renderstep.Renderer]map[string]string{
		renderstep.Jsonnet: {"main.jsonnet": "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: std.extVar('leat').facts.cluster.name}}"},
		renderstep.Liquid:  {"a.yaml.liquid": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ cluster.name }}}\n"},
		renderstep.CUE:     {"a.cue": "package a\nobjects: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: leat.facts.cluster.name}"},
	} {
		in := render.Input{Files: files(content), Steps: []renderstep.Step{{Renderer: renderer}}, Facts: render.Facts{Cluster: render.ClusterFacts{Name: "eu-1"}}}
		out, err := pool.Render(t.Context(), in)
		if err != nil || len(out.Objects) != 1 || out.Objects[0].GetName() != "eu-1" || !out.Asked.Facts {
			t.Errorf("%s: got %v, %v, want the ConfigMap eu-1", renderer, out.Objects, err)
		}
	}
}

// TestSecWorkerEndsWhatLanguagesDoNot runs programs that nothing inside of a process bounds.
func TestSecWorkerEndsWhatLanguagesDoNot(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Memory: 256 * config.MiB, Timeout: time.Second})
	needsLimits(t, pool)
	for name, test := range map[string]struct {
		renderer renderstep.Renderer
		file     string
		program  string
	}{
		"Jsonnet, a loop of tail calls": {renderstep.Jsonnet, "main.jsonnet", "local f(n) = f(n + 1) tailstrict; {kind: 'A', n: f(0)}"},
		"Jsonnet, loops in loops":       {renderstep.Jsonnet, "main.jsonnet", "local r = std.range(1, 3000); [0 for a in r for b in r for c in r if false]"},
		"Jsonnet, a large text":         {renderstep.Jsonnet, "main.jsonnet", "{kind: 'A', n: std.length(std.join(std.repeat('x', 1000000), std.range(1, 10000)))}"},
		"Jsonnet, deep source":          {renderstep.Jsonnet, "main.jsonnet", strings.Repeat("[", 1_000_000)},
		"Liquid, an empty loop":         {renderstep.Liquid, "a.yaml.liquid", "{% for i in (1..99999999999) %}{% endfor %}"},
		"Liquid, captures of captures":  {renderstep.Liquid, "a.yaml.liquid", "{% assign a = 'aaaaaaaa' %}{% for i in (1..99) %}{% capture a %}{{ a }}{{ a }}{% endcapture %}{% endfor %}"},
		"CUE, lists that double":        {renderstep.CUE, "a.cue", "package a\n" + doubled("a0: [1, 2]", "a%d: [a%d, a%d]", 60) + "\nobjects: a60"},
		"CUE, texts that double":        {renderstep.CUE, "a.cue", "package a\n" + doubled("a0: \"aaaaaaaa\"", "a%d: \"\\(a%d)\\(a%d)\"", 60) + "\nobjects: {kind: \"A\", a: a60}"},
		"WebAssembly, a table":          {renderstep.WASM, "m.wasm", tables},
	} {
		step := renderstep.Step{Renderer: test.renderer}
		if test.renderer == renderstep.WASM {
			step.WASM = &renderstep.WASMOptions{Module: test.file}
		}
		_, err := pool.Render(t.Context(), render.Input{Files: files(map[string]string{test.file: test.program}), Steps: []renderstep.Step{step}})
		if limit := new(render.LimitError); !errors.As(err, &limit) {
			t.Errorf("%s: got %.300v, want a limit", name, err)
		} else {
			t.Logf("%s: %v", name, err)
		}
		mustBuild(t, pool, "a")
	}
}

// TestSecSlowSchemasAreEnded compares parameters with a schema of a few kilobytes that would take
// years to evaluate: its references multiply.
func TestSecSlowSchemasAreEnded(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Memory: 256 * config.MiB, Timeout: time.Second})
	needsLimits(t, pool)
	definitions := `"a0": {"type": "object"}`
	for i := range 60 {
		definitions += fmt.Sprintf(`, "a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`, i+1, i, i)
	}
	_, err := render.Split{Others: pool}.Render(t.Context(), render.Input{
		Files: files(map[string]string{render.SchemaFile: `{"$ref": "#/$defs/a60", "$defs": {` + definitions + `}}`}),
		Steps: []renderstep.Step{{}},
	})
	if limit := new(render.LimitError); !errors.As(err, &limit) {
		t.Errorf("got %.300v, want a limit", err)
	}
	mustBuild(t, pool, "a")
}
