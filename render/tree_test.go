// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

func TestTrees(t *testing.T) {
	t.Parallel()
	plain, steps := []renderstep.Step{{Renderer: renderstep.Plain}}, []renderstep.Step{{Path: "chart"}, {Path: "extra"}}
	for name, test := range map[string]struct {
		sources []render.SourcePlace
		steps   []renderstep.Step
		want    []render.Tree
	}{
		"no source": {},
		"one": {
			sources: []render.SourcePlace{{Folder: "web"}},
			want:    []render.Tree{{Count: 1, Folder: "web", Steps: plain}},
		},
		"several": {
			sources: []render.SourcePlace{{Folder: "web"}, {}},
			want:    []render.Tree{{Count: 1, Folder: "web", Steps: plain}, {First: 1, Count: 1, Steps: plain}},
		},
		"a mount": {
			sources: []render.SourcePlace{{Folder: "web"}, {Mount: "values"}},
			want:    []render.Tree{{Count: 2, Folder: "web", Steps: plain}},
		},
		"steps": {
			sources: []render.SourcePlace{{Mount: "chart", Folder: "web"}, {Mount: "values"}},
			steps:   steps,
			want:    []render.Tree{{Count: 2, Folder: "chart/web", Steps: steps}},
		},
		"steps on one source": {
			sources: []render.SourcePlace{{}},
			steps:   steps,
			want:    []render.Tree{{Count: 1, Steps: steps}},
		},
	} {
		if diff := cmp.Diff(test.want, render.Trees(test.sources, renderstep.Plain, test.steps)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTestsOfInput(t *testing.T) {
	t.Parallel()
	if _, ok := (render.Input{Folder: "web"}).Tests(); ok {
		t.Error("got tests of a service without")
	}
	in := render.Input{Folder: "web", Except: "web/tests", Steps: []renderstep.Step{{Path: "x"}}, Installed: true}
	tests, ok := in.Tests()
	want := render.Input{Folder: "web/tests", Steps: []renderstep.Step{{}}, Installed: true}
	if diff := cmp.Diff(want, tests); !ok || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", ok, diff)
	}
	if in.Except == "" || in.Steps[0].Path != "x" {
		t.Error("the input changed")
	}
}
