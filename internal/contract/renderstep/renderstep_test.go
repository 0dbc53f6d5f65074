// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderstep_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// full returns a step of each renderer with every field that it can have.
func full() []renderstep.Step {
	return []renderstep.Step{
		{Path: "chart", Renderer: renderstep.Helm, Substitute: new(true), Helm: &renderstep.HelmOptions{
			ReleaseName: "shop.web-1", ValuesFiles: []string{"deploy/values.yaml", "deploy/values-eu.yaml?"},
			Values:     map[string]any{"image": map[string]any{"tag": "${TAG}", "pull": nil}, "ports": []any{80.0, "http", true}},
			Parameters: map[string]string{"image.tag": "${TAG}", `annotations.a\.b`: ""}, CRDs: renderstep.CRDsSkip,
			SkipSchema: true, SkipTests: true, SkipHooks: true, FactsAt: "global.leat", Installed: true,
			Lookup: []renderstep.LookupRule{{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "*"}},
		}},
		{Path: "patches", Renderer: renderstep.Kustomize, FromPrevious: true, Substitute: new(false)},
		{Path: "more/./plain", Renderer: renderstep.Plain},
		{Path: "."},
		{Renderer: renderstep.Liquid, Liquid: &renderstep.LiquidOptions{FilesOnly: true}},
		{Renderer: renderstep.Jsonnet, Jsonnet: &renderstep.JsonnetOptions{
			File: "a/main.jsonnet", LibraryPaths: []string{"vendor"}, Arguments: map[string]string{"name": "${NAME}"},
		}},
		{Renderer: renderstep.CUE, CUE: &renderstep.CUEOptions{Expression: "all.objects", Package: "shop", Tags: map[string]string{"env": "eu"}}},
		{Renderer: renderstep.WASM, FromPrevious: true, WASM: &renderstep.WASMOptions{
			Module: "render.wasm", Config: map[string]any{"a": 1.0}, AllowClock: true, AllowRandom: true,
		}},
	}
}

// nested returns lists in lists.
func nested(depth int) any {
	var value any = "leaf"
	for range depth {
		value = []any{value}
	}
	return value
}

func many[T any](n int, item T) []T { return slices.Repeat([]T{item}, n) }

func texts(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint("key", i)] = ""
	}
	return all
}

// helm returns a list of one Helm step.
func helm(o renderstep.HelmOptions) []renderstep.Step {
	return []renderstep.Step{{Renderer: renderstep.Helm, Helm: &o}}
}

func jsonnet(o renderstep.JsonnetOptions) []renderstep.Step {
	return []renderstep.Step{{Renderer: renderstep.Jsonnet, Jsonnet: &o}}
}

func wasm(o renderstep.WASMOptions) []renderstep.Step {
	return []renderstep.Step{{Renderer: renderstep.WASM, WASM: &o}}
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]renderstep.Step{
		"none":                    nil,
		"every field":             full(),
		"no options":              {{Renderer: renderstep.Helm}, {Renderer: renderstep.Liquid}, {Renderer: renderstep.Jsonnet}, {Renderer: renderstep.CUE}},
		"as many as there may be": many(16, renderstep.Step{Path: strings.Repeat("x", 1024)}),
		"longest name":            helm(renderstep.HelmOptions{ReleaseName: strings.Repeat("x", 53)}),
		"longest lists":           helm(renderstep.HelmOptions{ValuesFiles: many(64, "a"), Parameters: texts(256), Lookup: many(32, renderstep.LookupRule{APIVersion: "v1", Kind: "A", Name: "b"})}),
		"longest values":          helm(renderstep.HelmOptions{Values: map[string]any{"a": strings.Repeat("x", 64<<10-100)}}),
		"deepest values":          helm(renderstep.HelmOptions{Values: map[string]any{"a": nested(99)}}),
		"odd names":               {{Path: "..a/b..c/...d"}, {Path: "a/../b"}, {Path: "ä ö/$x"}},
	} {
		if err := renderstep.Validate("render", steps); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestValidateRefuses names the field of each thing that is wrong, by the names of the protocol.
func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1025)
	for _, test := range []struct {
		field string
		steps []renderstep.Step
	}{
		{"render", many(17, renderstep.Step{})},
		{"render", helm(renderstep.HelmOptions{Values: map[string]any{"a": strings.Repeat("x", 64<<10)}})},
		{"render", helm(renderstep.HelmOptions{Values: map[string]any{"a": math.NaN()}})},
		{"render", helm(renderstep.HelmOptions{Values: map[string]any{"a": math.Inf(1)}})},
		{"render[0].from_previous", []renderstep.Step{{Renderer: renderstep.Kustomize, FromPrevious: true}}},
		{"render[1].from_previous", []renderstep.Step{{}, {Renderer: renderstep.Helm, FromPrevious: true}}},
		{"render[1].from_previous", []renderstep.Step{{}, {FromPrevious: true}}},
		{"render[0]", []renderstep.Step{{Renderer: "ytt"}}},
		{"render[0].helm", []renderstep.Step{{Helm: &renderstep.HelmOptions{}}}},
		{"render[0].helm", []renderstep.Step{{Renderer: renderstep.Plain, Helm: &renderstep.HelmOptions{}, WASM: &renderstep.WASMOptions{}}}},
		{"render[0].liquid", []renderstep.Step{{Renderer: renderstep.Helm, Liquid: &renderstep.LiquidOptions{}}}},
		{"render[0].jsonnet", []renderstep.Step{{Renderer: renderstep.CUE, Jsonnet: &renderstep.JsonnetOptions{}}}},
		{"render[0].cue", []renderstep.Step{{Renderer: renderstep.WASM, CUE: &renderstep.CUEOptions{}}}},
		{"render[0].wasm", []renderstep.Step{{Renderer: renderstep.Kustomize, WASM: &renderstep.WASMOptions{}}}},

		{"render[0].path", []renderstep.Step{{Path: "/etc"}}},
		{"render[0].path", []renderstep.Step{{Path: ".."}}},
		{"render[0].path", []renderstep.Step{{Path: "a/../../b"}}},
		{"render[0].path", []renderstep.Step{{Path: `a\b`}}},
		{"render[0].path", []renderstep.Step{{Path: "a\x00b"}}},
		{"render[0].path", []renderstep.Step{{Path: "a\nb"}}},
		{"render[0].path", []renderstep.Step{{Path: long}}},

		{"render[0].helm.release_name", helm(renderstep.HelmOptions{ReleaseName: "Shop"})},
		{"render[0].helm.release_name", helm(renderstep.HelmOptions{ReleaseName: "shop-"})},
		{"render[0].helm.release_name", helm(renderstep.HelmOptions{ReleaseName: "a\n"})},
		{"render[0].helm.release_name", helm(renderstep.HelmOptions{ReleaseName: strings.Repeat("x", 54)})},
		{"render[0].helm.values_files", helm(renderstep.HelmOptions{ValuesFiles: many(65, "a")})},
		{"render[0].helm.values_files[1]", helm(renderstep.HelmOptions{ValuesFiles: []string{"a", "../b?"}})},
		{"render[0].helm.values_files[0]", helm(renderstep.HelmOptions{ValuesFiles: []string{""}})},
		{"render[0].helm.values_files[0]", helm(renderstep.HelmOptions{ValuesFiles: []string{"?"}})},
		{"render[0].helm.values", helm(renderstep.HelmOptions{Values: map[string]any{"a": nested(100)}})},
		{"render[0].helm.values", helm(renderstep.HelmOptions{Values: map[string]any{"a": nested(100_000)}})},
		{"render[0].helm.parameters", helm(renderstep.HelmOptions{Parameters: texts(257)})},
		{"render[0].helm.parameters", helm(renderstep.HelmOptions{Parameters: map[string]string{"": "a"}})},
		{"render[0].helm.parameters", helm(renderstep.HelmOptions{Parameters: map[string]string{long: "a"}})},
		{"render[0].helm.parameters", helm(renderstep.HelmOptions{Parameters: map[string]string{"a\tb": "a"}})},
		{"render[0].helm.crds", helm(renderstep.HelmOptions{CRDs: "apply"})},
		{"render[0].helm.lookup", helm(renderstep.HelmOptions{Lookup: many(33, renderstep.LookupRule{APIVersion: "v1", Kind: "A", Name: "b"})})},
		{"render[0].helm.lookup[0].api_version", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{}}})},
		{"render[0].helm.lookup[0].kind", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{APIVersion: "v1"}}})},
		{"render[0].helm.lookup[0].name", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{APIVersion: "v1", Kind: "A"}}})},
		{"render[0].helm.lookup[0]", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{APIVersion: "v1", Kind: "*", Name: "*"}}})},
		{"render[0].helm.lookup[0]", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{APIVersion: "*", Kind: "A", Name: "*"}}})},
		{"render[0].helm.lookup[0]", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{APIVersion: "v1", Kind: "A", Namespace: "*", Name: "*"}}})},
		{"render[0].helm.lookup[0].namespace", helm(renderstep.HelmOptions{Lookup: []renderstep.LookupRule{{APIVersion: "v1", Kind: "A", Namespace: long, Name: "*"}}})},
		{"render[0].helm.facts_at", helm(renderstep.HelmOptions{FactsAt: "global..leat"})},
		{"render[0].helm.facts_at", helm(renderstep.HelmOptions{FactsAt: "."})},
		{"render[0].helm.facts_at", helm(renderstep.HelmOptions{FactsAt: long})},

		{"render[0].jsonnet.file", jsonnet(renderstep.JsonnetOptions{File: "../main.jsonnet"})},
		{"render[0].jsonnet.library_paths", jsonnet(renderstep.JsonnetOptions{LibraryPaths: many(17, "a")})},
		{"render[0].jsonnet.library_paths[0]", jsonnet(renderstep.JsonnetOptions{LibraryPaths: []string{"/usr/lib"}})},
		{"render[0].jsonnet.arguments", jsonnet(renderstep.JsonnetOptions{Arguments: texts(257)})},
		{"render[0].cue.tags", []renderstep.Step{{Renderer: renderstep.CUE, CUE: &renderstep.CUEOptions{Tags: texts(257)}}}},
		{"render[0].cue.expression", []renderstep.Step{{Renderer: renderstep.CUE, CUE: &renderstep.CUEOptions{Expression: long}}}},
		{"render[0].cue.package", []renderstep.Step{{Renderer: renderstep.CUE, CUE: &renderstep.CUEOptions{Package: "a\x7f"}}}},
		{"render[0].wasm.module", []renderstep.Step{{Renderer: renderstep.WASM}}},
		{"render[0].wasm.module", wasm(renderstep.WASMOptions{Module: "./."})},
		{"render[0].wasm.module", wasm(renderstep.WASMOptions{Module: "../a.wasm"})},
		{"render[0].wasm.config", wasm(renderstep.WASMOptions{Module: "a.wasm", Config: map[string]any{"a": nested(100)}})},
	} {
		err := renderstep.Validate("render", test.steps)
		if got, ok := errors.AsType[*fielderr.Error](err); !ok || got.Path != test.field {
			t.Errorf("want an error at %s, got %.200v", test.field, err)
		}
	}
}

// TestValidateSaysTheSameEachTime matters to replicas and to tests of users: a map's order must not
// decide which of two errors is reported.
func TestValidateSaysTheSameEachTime(t *testing.T) {
	t.Parallel()
	wrong := helm(renderstep.HelmOptions{Parameters: map[string]string{"a\n": "", "": "", strings.Repeat("x", 1025): "", "\t": ""}})
	want := renderstep.Validate("render", wrong).Error()
	for range 50 {
		if got := renderstep.Validate("render", wrong).Error(); got != want {
			t.Fatalf("got %q, and before %q", got, want)
		}
	}
}

// TestJSON pins the form that databases and inventories hold, and reads it back.
func TestJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"path":"chart","substitute":true,"renderer":"helm","helm":{"releaseName":"shop.web-1",` +
		`"valuesFiles":["deploy/values.yaml","deploy/values-eu.yaml?"],` +
		`"values":{"image":{"pull":null,"tag":"${TAG}"},"ports":[80,"http",true]},` +
		`"parameters":{"annotations.a\\.b":"","image.tag":"${TAG}"},"crds":"skip","skipSchema":true,"skipTests":true,"skipHooks":true,` +
		`"lookup":[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"*"}],"factsAt":"global.leat","installed":true}},` +
		`{"path":"patches","fromPrevious":true,"substitute":false,"renderer":"kustomize"},` +
		`{"path":"more/./plain","renderer":"plain"},{"path":"."},` +
		`{"renderer":"liquid","liquid":{"filesOnly":true}},` +
		`{"renderer":"jsonnet","jsonnet":{"file":"a/main.jsonnet","libraryPaths":["vendor"],"arguments":{"name":"${NAME}"}}},` +
		`{"renderer":"cue","cue":{"expression":"all.objects","package":"shop","tags":{"env":"eu"}}},` +
		`{"fromPrevious":true,"renderer":"wasm","wasm":{"module":"render.wasm","config":{"a":1},"allowClock":true,"allowRandom":true}}]`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var got []renderstep.Step
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestSubstituted(t *testing.T) {
	t.Parallel()
	on, off := new(true), new(false)
	for _, test := range []struct {
		steps []renderstep.Step
		want  []bool
	}{
		{nil, []bool{}},
		{[]renderstep.Step{{Renderer: renderstep.Plain}, {Renderer: renderstep.Kustomize}}, []bool{true, true}},
		{[]renderstep.Step{{Renderer: renderstep.Helm}, {Renderer: renderstep.Liquid}, {Renderer: renderstep.Jsonnet}}, []bool{false, false, false}},
		{[]renderstep.Step{{Renderer: renderstep.CUE}, {Renderer: renderstep.WASM}}, []bool{false, false}},
		{[]renderstep.Step{{Renderer: renderstep.Helm}, {Renderer: renderstep.Kustomize, FromPrevious: true}}, []bool{false, false}},
		{[]renderstep.Step{{Renderer: renderstep.Plain}, {Renderer: renderstep.Kustomize, FromPrevious: true}}, []bool{true, true}},
		{[]renderstep.Step{{Renderer: renderstep.Plain}, {Renderer: renderstep.WASM, FromPrevious: true}}, []bool{true, false}},
		{[]renderstep.Step{{Renderer: renderstep.Helm, Substitute: on}, {Renderer: renderstep.Kustomize, FromPrevious: true}}, []bool{true, true}},
		{[]renderstep.Step{{Renderer: renderstep.Plain, Substitute: off}, {Renderer: renderstep.Kustomize, FromPrevious: true}}, []bool{false, false}},
		{[]renderstep.Step{{Renderer: renderstep.Helm}, {Renderer: renderstep.Kustomize, FromPrevious: true, Substitute: on}}, []bool{false, true}},
		{[]renderstep.Step{{Renderer: renderstep.Helm}, {Renderer: renderstep.Plain}, {Renderer: renderstep.Kustomize, FromPrevious: true}}, []bool{false, true, true}},
		{[]renderstep.Step{
			{Renderer: renderstep.Helm},
			{Renderer: renderstep.Kustomize, FromPrevious: true},
			{Renderer: renderstep.Kustomize, FromPrevious: true},
		}, []bool{false, false, false}},
	} {
		if got := renderstep.Substituted(test.steps); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %v, want %v", test.steps, got, test.want)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		renderers []renderstep.Renderer
		want      []string
	}{
		{nil, []string{"render:steps"}},
		{[]renderstep.Renderer{renderstep.Auto, renderstep.Plain, renderstep.Kustomize}, []string{"render:steps"}},
		{[]renderstep.Renderer{renderstep.WASM, renderstep.Helm, renderstep.Helm}, []string{"render:helm", "render:steps", "render:wasm"}},
		{renderstep.Renderers(full()), []string{"render:cue", "render:helm", "render:jsonnet", "render:liquid", "render:steps", "render:wasm"}},
	} {
		if got := renderstep.Words(test.renderers...); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.renderers, got, test.want)
		}
	}
	want := []string{"config:cluster-references", "config:restart", "render:cue", "render:helm", "render:jsonnet", "render:liquid", "render:steps", "render:wasm"}
	if got := renderstep.WordsKnown(); !slices.Equal(got, want) {
		t.Errorf("known: got %v, want %v, which are a contract", got, want)
	}
	for word, want := range map[string]string{"render:steps": "carry out render steps", "render:helm": "render helm", "overview": "do overview"} {
		if got := renderstep.Ability(word); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

// FuzzValidate validates whatever a database may hold. An accepted value can be stored again, and
// has the same meaning then.
func FuzzValidate(f *testing.F) {
	for _, step := range full() {
		text, err := json.Marshal([]renderstep.Step{step})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`[{"helm":{"values":{"a":[[[[{"b":null}]]]]}}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var steps []renderstep.Step
		if json.Unmarshal(text, &steps) != nil || renderstep.Validate("render", steps) != nil {
			return
		}
		stored, err := json.Marshal(steps)
		if err != nil {
			t.Fatalf("valid steps cannot be stored: %v", err)
		}
		var again []renderstep.Step
		if err := json.Unmarshal(stored, &again); err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(again)
		if err != nil || string(second) != string(stored) {
			t.Errorf("got %s (%v), want %s", second, err, stored)
		}
		if got := len(renderstep.Substituted(steps)); got != len(steps) {
			t.Errorf("got %d decisions for %d steps", got, len(steps))
		}
	})
}
