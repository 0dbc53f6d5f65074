// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func TestList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "items")
		list := catalog.NewList(want)
		if got := list.Items(); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		document, err := json.Marshal(catalog.Source{Files: list})
		if err != nil {
			t.Fatal(err)
		}
		var source catalog.Source
		if err := json.Unmarshal(document, &source); err != nil || source.Files != list {
			t.Fatalf("got %q (%v) from %s, want %q", source.Files, err, document, list)
		}
		other := rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "other")
		if (catalog.NewList(other) == list) != slices.Equal(other, want) {
			t.Fatalf("%q and %q: got equal lists %v", want, other, !slices.Equal(other, want))
		}
	})
	document, err := json.Marshal(catalog.Source{Repository: "r", Exclude: catalog.NewList([]string{"a", "!b"})})
	if want := `{"repository":"r","exclude":["a","!b"]}`; err != nil || string(document) != want {
		t.Errorf("got %s (%v), want %s", document, err, want)
	}
	var source catalog.Source
	if err := json.Unmarshal([]byte(`{"exclude":[ "a" , "b" ],"include":[]}`), &source); err != nil || source != (catalog.Source{Exclude: catalog.NewList([]string{"a", "b"})}) {
		t.Errorf("got %+v (%v), want one spelling of a list", source, err)
	}
	if err := json.Unmarshal([]byte(`{"exclude":"a"}`), &source); err == nil {
		t.Error("got no error for a list that is a string")
	}
}

// TestNamesOfASelection expects the same as gitcache's test of that name: both have to agree on
// what names are relative to.
func TestNamesOfASelection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, root     string
		folders, files []string
		folder         string
	}{
		{"apps/web", "", []string{"apps/base"}, nil, "apps"},
		{"apps/web", "", []string{"apps/web/deeper"}, nil, "apps/web"},
		{"apps/web", "", []string{"apps"}, nil, "apps"},
		{"apps/web", "apps", []string{"lib"}, nil, ""},
		{"apps/web", "", []string{"apps/web2"}, nil, "apps"},
		{"apps/web", "", nil, []string{"apps/web/x"}, "apps/web"},
		{"apps/web", "", nil, []string{"apps/version"}, "apps"},
		{"apps/web", "", nil, []string{"version"}, ""},
		{"", "", []string{"x"}, nil, ""},
		{"a/b/c", "", []string{"a/b/d/e"}, []string{"a/b/f/g"}, "a/b"},
	} {
		s := catalog.Source{Path: test.path, Root: test.root, Folders: catalog.NewList(test.folders), Files: catalog.NewList(test.files)}
		if got := s.Folder(); got != test.folder {
			t.Errorf("%+v: got folder %q, want %q", s, got, test.folder)
		}
		if got, want := s.Subpath(), strings.TrimPrefix(strings.TrimPrefix(test.path, test.folder), "/"); got != want {
			t.Errorf("%+v: got subpath %q, want %q", s, got, want)
		}
	}
}

func TestNormalSelection(t *testing.T) {
	t.Parallel()
	list := catalog.NewList
	got := catalog.Source{
		Folders: list([]string{"b/", "./a", "b"}), Files: list([]string{"z", "./y"}), Include: list([]string{"b", "a"}), Exclude: list([]string{"b", "!a"}),
	}.Normal()
	want := catalog.Source{
		Folders: list([]string{"a", "b"}), Files: list([]string{"y", "z"}), Include: list([]string{"b", "a"}), Exclude: list([]string{"b", "!a"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("normal source (-want +got):\n%s", diff)
	}
	plain := catalog.Source{Path: "app"}
	if mounted := (catalog.Source{Path: "app", Mount: "a/b"}); !mounted.Plain() || mounted.Normal() != plain {
		t.Errorf("got %+v, want what is mounted elsewhere to be the same content", mounted.Normal())
	}
	for _, other := range []catalog.Source{
		{Path: "app", Chart: "web"},
		{Path: "app", Layer: catalog.ArtifactLayer{Copy: true}},
		{Path: "app", Folders: list([]string{"a"})},
		{Path: "app", Files: list([]string{"a"})},
		{Path: "app", Include: list([]string{"a"})},
		{Path: "app", Exclude: list([]string{"a"})},
	} {
		if !plain.Plain() || other.Plain() || other.Normal() == plain.Normal() {
			t.Errorf("got %+v taken for %+v, want another source", other, plain)
		}
	}
}

func TestValidateSelection(t *testing.T) {
	t.Parallel()
	many := make([]string, 101)
	for i := range many {
		many[i] = "x"
	}
	long := strings.Repeat("x", 1025)
	for _, test := range []struct {
		folders, files, include, exclude []string
		field                            string // empty: valid
	}{
		{[]string{"a", ".", "b/c/"}, []string{"x", "./y"}, []string{"*.yaml", "!x", `\#`}, []string{"**/test/", "/a b"}, ""},
		{[]string{"a", "/b"}, nil, nil, nil, "folders[1]"},
		{[]string{"a/../../b"}, nil, nil, nil, "folders[0]"},
		{many, nil, nil, nil, "folders"},
		{nil, []string{"a", ""}, nil, nil, "files[1]"},
		{nil, []string{"a/"}, nil, nil, "files[0]"},
		{nil, []string{"a/."}, nil, nil, "files[0]"},
		{nil, []string{"."}, nil, nil, "files[0]"},
		{nil, []string{"../a"}, nil, nil, "files[0]"},
		{nil, []string{"a/.leatignore"}, nil, nil, "files[0]"},
		{nil, many, nil, nil, "files"},
		{nil, nil, []string{"a", ""}, nil, "include[1]"},
		{nil, nil, []string{"[a"}, nil, "include[0]"},
		{nil, nil, many, nil, "include"},
		{nil, nil, nil, []string{"# tests"}, "exclude[0]"},
		{nil, nil, nil, []string{"a\nb"}, "exclude[0]"},
		{nil, nil, nil, []string{"a", long}, "exclude[1]"},
		{nil, nil, nil, []string{"!"}, "exclude[0]"},
		{nil, nil, nil, many, "exclude"},
	} {
		err := (&catalog.Service{Metadata: catalog.Metadata{Name: "web@one"}, Spec: catalog.ServiceSpec{Cluster: "one", Sources: []catalog.Source{{
			Repository: "demo", Folders: catalog.NewList(test.folders), Files: catalog.NewList(test.files),
			Include: catalog.NewList(test.include), Exclude: catalog.NewList(test.exclude),
		}}}}).Validate()
		got := ""
		if e, ok := errors.AsType[*fielderr.Error](err); ok {
			got = strings.TrimPrefix(e.Path, "spec.sources[0].")
		}
		if got != test.field || (err == nil) != (test.field == "") {
			t.Errorf("%+v: got %v, want field %q", test, err, test.field)
		}
	}
}

func TestValidatePlacing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		source catalog.Source
		field  string // empty: valid
	}{
		{catalog.Source{Chart: "kube-prometheus-stack", Mount: "chart"}, ""},
		{catalog.Source{Chart: "A.b_c-1", Mount: "a/..b/c.d/ä x"}, ""},
		{catalog.Source{Mount: strings.Repeat("x", 1024), Chart: strings.Repeat("x", 250)}, ""},
		{catalog.Source{Chart: "a/b"}, "chart"},
		{catalog.Source{Chart: "../a"}, "chart"},
		{catalog.Source{Chart: "a..b"}, "chart"},
		{catalog.Source{Chart: ".a"}, "chart"},
		{catalog.Source{Chart: "a.lock"}, "chart"},
		{catalog.Source{Chart: "a\n"}, "chart"},
		{catalog.Source{Chart: "*"}, "chart"},
		{catalog.Source{Chart: strings.Repeat("x", 251)}, "chart"},
		{catalog.Source{Mount: "/a"}, "mount"},
		{catalog.Source{Mount: ".."}, "mount"},
		{catalog.Source{Mount: "../a"}, "mount"},
		{catalog.Source{Mount: "a/../../b"}, "mount"},
		{catalog.Source{Mount: "a/../b"}, "mount"},
		{catalog.Source{Mount: "."}, "mount"},
		{catalog.Source{Mount: "./a"}, "mount"},
		{catalog.Source{Mount: "a/"}, "mount"},
		{catalog.Source{Mount: "a//b"}, "mount"},
		{catalog.Source{Mount: `a\b`}, "mount"},
		{catalog.Source{Mount: "a\x00"}, "mount"},
		{catalog.Source{Mount: "a\u007f"}, "mount"},
		{catalog.Source{Mount: strings.Repeat("x", 1025)}, "mount"},
		{catalog.Source{Layer: catalog.ArtifactLayer{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Copy: true}}, ""},
		{catalog.Source{Layer: catalog.ArtifactLayer{Files: true}}, ""},
		{catalog.Source{Layer: catalog.ArtifactLayer{Files: true, Copy: true}}, "layer.files"},
		{catalog.Source{Layer: catalog.ArtifactLayer{Files: true, MediaType: "a/b"}}, "layer.files"},
		{catalog.Source{Layer: catalog.ArtifactLayer{MediaType: "tar"}}, "layer.media_type"},
		{catalog.Source{Layer: catalog.ArtifactLayer{MediaType: "a/b c"}}, "layer.media_type"},
		{catalog.Source{Layer: catalog.ArtifactLayer{MediaType: "a/" + strings.Repeat("b", 254)}}, "layer.media_type"},
	} {
		test.source.Repository = "demo"
		err := (&catalog.Service{Metadata: catalog.Metadata{Name: "web@one"}, Spec: catalog.ServiceSpec{Cluster: "one", Sources: []catalog.Source{test.source}}}).Validate()
		got := ""
		if e, ok := errors.AsType[*fielderr.Error](err); ok {
			got = strings.TrimPrefix(e.Path, "spec.sources[0].")
		}
		if got != test.field || (err == nil) != (test.field == "") {
			t.Errorf("%+v: got %v, want field %q", test.source, err, test.field)
		}
	}
}

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
