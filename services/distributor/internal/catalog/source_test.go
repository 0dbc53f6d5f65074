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

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
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

// TestNamesOfASelection says the same as gitcache's test of that name: both have to agree on what
// names are relative to.
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
	for _, other := range []catalog.Source{
		{Path: "app", Folders: list([]string{"a"})}, {Path: "app", Files: list([]string{"a"})}, {Path: "app", Include: list([]string{"a"})}, {Path: "app", Exclude: list([]string{"a"})},
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
		err := (&catalog.Service{Metadata: catalog.Metadata{Name: "web"}, Spec: catalog.ServiceSpec{Cluster: "one", Sources: []catalog.Source{{
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
