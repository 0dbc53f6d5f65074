// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestReferencesOfASource has the names of references that the sources of each kind follow.
func TestReferencesOfASource(t *testing.T) {
	t.Parallel()
	ref := func(kind catalog.RefKind, value string) catalog.Ref { return catalog.Ref{Kind: kind, Value: value} }
	all := []string{
		"refs/heads/main", "refs/tags/1.2.3", "refs/tags/1.2.3_a", "refs/tags/1.2.3+a", "refs/tags/web/1.2.3", "refs/tags/web/1.2.3+a", "refs/tags/webber/1.2.3", "refs/x",
	}
	for _, test := range []struct {
		chart string
		ref   catalog.Ref
		name  string
		want  []string // of all
	}{
		{"", catalog.Ref{}, "", all},
		{"", ref(catalog.RefBranch, "main"), "refs/heads/main", all[:1]},
		{"", ref(catalog.RefTag, "1.2.3"), "refs/tags/1.2.3", all[1:2]},
		{"", ref(catalog.RefTag, "1.2.3+a"), "refs/tags/1.2.3+a", all[2:4]},
		{"", ref(catalog.RefTag, "web/1.2.3"), "refs/tags/web/1.2.3", all[4:5]},
		{"", ref(catalog.RefSemver, "1.x"), "", all[1:7]},
		{"", ref(catalog.RefName, "refs/x"), "refs/x", all[7:]},
		{"", ref(catalog.RefName, "HEAD"), "HEAD", all},
		{"", ref(catalog.RefCommit, "abcdef0"), "", nil},
		{"web", catalog.Ref{}, "", all[4:6]},
		{"web", ref(catalog.RefTag, "1.2.3"), "refs/tags/web/1.2.3", all[4:5]},
		{"web", ref(catalog.RefTag, "1.2.3+a"), "refs/tags/web/1.2.3+a", all[5:6]},
		{"web", ref(catalog.RefSemver, "1.x"), "", all[4:6]},
		{"web", ref(catalog.RefCommit, strings.Repeat("a", 64)), "", nil},
		{"we", ref(catalog.RefSemver, "1.x"), "", nil},
	} {
		source := catalog.Source{Repository: "r", Chart: test.chart, Ref: test.ref}
		var got []string
		for _, name := range all {
			if source.DependsOn(name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, test.want) || source.RefName() != test.name {
			t.Errorf("%q at %+v: got %q and %q, want %q and %q", test.chart, test.ref, source.RefName(), got, test.name, test.want)
		}
		held := test.name != "" && test.name != "HEAD"
		if got := (catalog.Mirror{HeldRefs: []string{test.name}}).Holds(source); got != held {
			t.Errorf("%q at %+v: got held %v, want %v", test.chart, test.ref, got, held)
		}
	}
	built := catalog.Source{Repository: "r", Ref: ref(catalog.RefTag, "1.2.3+a")}
	if !(catalog.Mirror{HeldRefs: []string{"refs/tags/1.2.3_a"}}).Holds(built) {
		t.Error("got a registry's tag not held, want it held as the version that it is")
	}
}

// TestRequires has what each spec asks of an agent beyond what the first ones could do.
func TestRequires(t *testing.T) {
	t.Parallel()
	git, chart, mounted := catalog.Source{Repository: "r"}, catalog.Source{Repository: "h", Chart: "web"}, catalog.Source{Repository: "r", Mount: "m"}
	layer := catalog.Source{Repository: "o", Layer: catalog.ArtifactLayer{Files: true}}
	options := func(renderer syncpolicy.Renderer, kinds ...renderstep.Renderer) *syncpolicy.Options {
		o := &syncpolicy.Options{Renderer: renderer}
		for _, kind := range kinds {
			o.Render = append(o.Render, renderstep.Step{Renderer: kind})
		}
		return o
	}
	stepsAnd := func(words ...string) []string { return append(words, "render:steps") }
	for name, test := range map[string]struct {
		sources []catalog.Source
		options *syncpolicy.Options
		want    []string
	}{
		"nothing":               {[]catalog.Source{git, layer}, nil, nil},
		"kustomize":             {[]catalog.Source{git}, options(syncpolicy.RenderKustomize), nil},
		"mount":                 {[]catalog.Source{git, mounted}, nil, stepsAnd()},
		"chart":                 {[]catalog.Source{chart}, nil, stepsAnd("render:helm")},
		"chart read as plain":   {[]catalog.Source{chart}, options(syncpolicy.RenderPlain), nil},
		"mounted chart":         {[]catalog.Source{chart, mounted}, options(syncpolicy.RenderPlain), stepsAnd()},
		"plain step":            {[]catalog.Source{git}, options("", renderstep.Plain), stepsAnd()},
		"detected step":         {[]catalog.Source{git}, options("", renderstep.Auto), stepsAnd()},
		"detected step, chart":  {[]catalog.Source{chart}, options("", renderstep.Auto), stepsAnd("render:helm")},
		"chart in a plain step": {[]catalog.Source{chart}, options("", renderstep.Plain), stepsAnd()},
		"several":               {[]catalog.Source{git}, options("", renderstep.WASM, renderstep.CUE, renderstep.WASM), []string{"render:cue", "render:steps", "render:wasm"}},
	} {
		if got := (catalog.ServiceSpec{Sources: test.sources, Options: test.options}).Requires(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	agent := catalog.Agent{Report: catalog.ClusterReport{Capabilities: []string{"overview", "render:steps"}}}
	if got := agent.Lacks([]string{"render:helm", "render:steps"}); !slices.Equal(got, []string{"render:helm"}) {
		t.Errorf("got %v, want render:helm", got)
	}
}
