// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package selection_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/selection"
)

func TestFieldOfAMistake(t *testing.T) {
	t.Parallel()
	many := slices.Repeat([]string{"x"}, selection.MaxItems+1)
	for _, test := range []struct {
		spec  selection.Spec
		field string // empty: none
	}{
		{selection.Spec{}, ""},
		{selection.Spec{
			Path: "./a/b/", Root: "a", Folders: []string{".", "c/"}, Files: []string{"./d"},
			Include: []string{"*.yaml", `\#`}, Exclude: []string{"!x", "**/t/"},
		}, ""},
		{selection.Spec{Path: "../a"}, "path"},
		{selection.Spec{Path: "a", Root: "/"}, "root"},
		{selection.Spec{Path: "a", Root: "b"}, "root"},
		{selection.Spec{Folders: []string{"a", "a//b"}}, "folders[1]"},
		{selection.Spec{Folders: many}, "folders"},
		{selection.Spec{Files: []string{""}}, "files[0]"},
		{selection.Spec{Files: []string{"a/"}}, "files[0]"},
		{selection.Spec{Files: []string{"a", "a/../b"}}, "files[1]"},
		{selection.Spec{Files: []string{"a/" + selection.IgnoreFile}}, "files[0]"},
		{selection.Spec{Files: many}, "files"},
		{selection.Spec{Include: []string{"a", "[a"}}, "include[1]"},
		{selection.Spec{Include: many}, "include"},
		{selection.Spec{Exclude: []string{"#"}}, "exclude[0]"},
		{selection.Spec{Exclude: []string{strings.Repeat("x", 1025)}}, "exclude[0]"},
		{selection.Spec{Exclude: many}, "exclude"},
	} {
		_, err := selection.New(test.spec)
		got := ""
		if bad, ok := errors.AsType[*selection.FieldError](err); ok {
			got = bad.Field
		}
		if got != test.field || (err == nil) != (test.field == "") {
			t.Errorf("%+v: got %v, want field %q", test.spec, err, test.field)
		}
	}
}

// TestNamesOfASelection expects the same as the distributor's test of that name: both have to agree
// on what names are relative to.
func TestNamesOfASelection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, root     string
		folders, files []string
		folder         string
	}{
		{"", "", nil, nil, ""},
		{"apps/web", "", nil, nil, "apps/web"},
		{"apps/web", "apps", nil, nil, "apps"},
		{"apps/web", ".", nil, nil, ""},
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
		s, err := selection.New(selection.Spec{Path: test.path, Root: test.root, Folders: test.folders, Files: test.files})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Base(); got != test.folder {
			t.Errorf("%+v: got base %q, want %q", test, got, test.folder)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := func(spec selection.Spec) string {
		t.Helper()
		s, err := selection.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		return s.Key()
	}
	for _, same := range [][2]selection.Spec{
		{{Path: "a"}, {Path: "./a/", Root: "a"}},
		{{Folders: []string{"b", "a"}, Path: "x"}, {Folders: []string{"a/", "b", "a", "a/c"}, Path: "x"}},
		{{Files: []string{"b", "a"}}, {Files: []string{"./a", "b", "b"}}},
	} {
		if key(same[0]) != key(same[1]) {
			t.Errorf("got two keys for %+v and %+v, want one", same[0], same[1])
		}
	}
	specs := []selection.Spec{
		{},
		{Path: "a"},
		{Path: "a", Root: "."},
		{Path: "a", Folders: []string{"b"}},
		{Path: "a", Files: []string{"b"}},
		{Path: "a", Include: []string{"b"}},
		{Path: "a", Exclude: []string{"b"}},
		{Path: "a", Exclude: []string{"b", "!c"}},
		{Path: "a", Exclude: []string{"!c", "b"}},
		{Path: "a", Include: []string{"b"}, Exclude: []string{"!c"}},
	}
	seen := map[string]selection.Spec{}
	for _, spec := range specs {
		if other, twice := seen[key(spec)]; twice {
			t.Errorf("got one key for %+v and %+v, want two", spec, other)
		}
		seen[key(spec)] = spec
	}
}

func TestHashTellsListsApart(t *testing.T) {
	t.Parallel()
	seen := map[string][][]string{}
	for _, lists := range [][][]string{
		{}, {{}}, {{""}}, {{"", ""}}, {{""}, {""}}, {{}, {}}, {{"a"}, {"b"}}, {{"a", "b"}}, {{"ab"}}, {{"1\na"}}, {{"a\n1\nb"}},
	} {
		h := selection.NewHash("test")
		for _, list := range lists {
			h.Add(list...)
		}
		if other, twice := seen[h.Sum()]; twice {
			t.Errorf("got one hash for %q and %q, want two", lists, other)
		}
		seen[h.Sum()] = lists
	}
}
