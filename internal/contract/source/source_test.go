// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/source"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

func TestList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "items")
		list := source.NewList(want)
		if got := list.Items(); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		document, err := json.Marshal(source.Source{Files: list})
		if err != nil {
			t.Fatal(err)
		}
		var read source.Source
		if err := json.Unmarshal(document, &read); err != nil || read.Files != list {
			t.Fatalf("got %q (%v) from %s, want %q", read.Files, err, document, list)
		}
		other := rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "other")
		if (source.NewList(other) == list) != slices.Equal(other, want) {
			t.Fatalf("%q and %q: got equal lists %v", want, other, !slices.Equal(other, want))
		}
	})
	document, err := json.Marshal(source.Source{Repository: "r", Exclude: source.NewList([]string{"a", "!b"})})
	if want := `{"repository":"r","exclude":["a","!b"]}`; err != nil || string(document) != want {
		t.Errorf("got %s (%v), want %s", document, err, want)
	}
	var read source.Source
	if err := json.Unmarshal([]byte(`{"exclude":[ "a" , "b" ],"include":[]}`), &read); err != nil || read != (source.Source{Exclude: source.NewList([]string{"a", "b"})}) {
		t.Errorf("got %+v (%v), want one spelling of a list", read, err)
	}
	if err := json.Unmarshal([]byte(`{"exclude":"a"}`), &read); err == nil {
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
		s := source.Source{Path: test.path, Root: test.root, Folders: source.NewList(test.folders), Files: source.NewList(test.files)}
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
	list := source.NewList
	got := source.Source{
		Folders: list([]string{"b/", "./a", "b"}), Files: list([]string{"z", "./y"}), Include: list([]string{"b", "a"}), Exclude: list([]string{"b", "!a"}),
	}.Normal()
	want := source.Source{
		Folders: list([]string{"a", "b"}), Files: list([]string{"y", "z"}), Include: list([]string{"b", "a"}), Exclude: list([]string{"b", "!a"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("normal source (-want +got):\n%s", diff)
	}
	plain := source.Source{Path: "app"}
	if mounted := (source.Source{Path: "app", Mount: "a/b"}); !mounted.Plain() || mounted.Normal() != plain {
		t.Errorf("got %+v, want what is mounted elsewhere to be the same content", mounted.Normal())
	}
	for _, other := range []source.Source{
		{Path: "app", Chart: "web"},
		{Path: "app", Layer: source.ArtifactLayer{Copy: true}},
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
		err := source.Source{
			Repository: "demo", Folders: source.NewList(test.folders), Files: source.NewList(test.files),
			Include: source.NewList(test.include), Exclude: source.NewList(test.exclude),
		}.Validate("spec.sources[0]")
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
		source source.Source
		field  string // empty: valid
	}{
		{source.Source{Chart: "kube-prometheus-stack", Mount: "chart"}, ""},
		{source.Source{Chart: "A.b_c-1", Mount: "a/..b/c.d/ä x"}, ""},
		{source.Source{Mount: strings.Repeat("x", 1024), Chart: strings.Repeat("x", 250)}, ""},
		{source.Source{Chart: "a/b"}, "chart"},
		{source.Source{Chart: "../a"}, "chart"},
		{source.Source{Chart: "a..b"}, "chart"},
		{source.Source{Chart: ".a"}, "chart"},
		{source.Source{Chart: "a.lock"}, "chart"},
		{source.Source{Chart: "a\n"}, "chart"},
		{source.Source{Chart: "*"}, "chart"},
		{source.Source{Chart: strings.Repeat("x", 251)}, "chart"},
		{source.Source{Mount: "/a"}, "mount"},
		{source.Source{Mount: ".."}, "mount"},
		{source.Source{Mount: "../a"}, "mount"},
		{source.Source{Mount: "a/../../b"}, "mount"},
		{source.Source{Mount: "a/../b"}, "mount"},
		{source.Source{Mount: "."}, "mount"},
		{source.Source{Mount: "./a"}, "mount"},
		{source.Source{Mount: "a/"}, "mount"},
		{source.Source{Mount: "a//b"}, "mount"},
		{source.Source{Mount: `a\b`}, "mount"},
		{source.Source{Mount: "a\x00"}, "mount"},
		{source.Source{Mount: "a\u007f"}, "mount"},
		{source.Source{Mount: strings.Repeat("x", 1025)}, "mount"},
		{source.Source{Layer: source.ArtifactLayer{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Copy: true}}, ""},
		{source.Source{Layer: source.ArtifactLayer{Files: true}}, ""},
		{source.Source{Layer: source.ArtifactLayer{Files: true, Copy: true}}, "layer.files"},
		{source.Source{Layer: source.ArtifactLayer{Files: true, MediaType: "a/b"}}, "layer.files"},
		{source.Source{Layer: source.ArtifactLayer{MediaType: "tar"}}, "layer.media_type"},
		{source.Source{Layer: source.ArtifactLayer{MediaType: "a/b c"}}, "layer.media_type"},
		{source.Source{Layer: source.ArtifactLayer{MediaType: "a/" + strings.Repeat("b", 254)}}, "layer.media_type"},
	} {
		test.source.Repository = "demo"
		err := test.source.Validate("spec.sources[0]")
		got := ""
		if e, ok := errors.AsType[*fielderr.Error](err); ok {
			got = strings.TrimPrefix(e.Path, "spec.sources[0].")
		}
		if got != test.field || (err == nil) != (test.field == "") {
			t.Errorf("%+v: got %v, want field %q", test.source, err, test.field)
		}
	}
}
