// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package objectname_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

var long = strings.Repeat("a", objectname.MaxLabel)

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ project, name, path, split string }{
		{"", "web", "web", "default"},
		{"default", "web", "web", "default"},
		{"shop", "web", "shop.web", "shop"},
		{"shop", "default", "shop.default", "shop"},
		{long, long, long + "." + long, long},
	} {
		path := objectname.Join(test.project, test.name)
		if path != test.path || !objectname.IsPath(path) {
			t.Errorf("%q and %q: got %q, want %q", test.project, test.name, path, test.path)
		}
		if project, name := objectname.Split(path); project != test.split || name != test.name {
			t.Errorf("%q: got %q and %q", path, project, name)
		}
	}
}

// TestSecPathsHaveOneSpelling: two texts that pass as paths never name one object, and nothing that
// would leave a folder, a URL's segment or a label passes.
func TestSecPathsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ".", "..", "default.web", "a.b.c", ".a", "a.", "A.b", "a.B", "a/b", "a_b", "-a.b", "a.b-", "a\n", "a.b\n", "ä", "a..b", "../a", long + "a", long + "a.b", "a." + long + "a",
	} {
		if err := objectname.Validate("name", text); err == nil || objectname.IsPath(text) {
			t.Errorf("%q: got a path, want an error", text)
		} else if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "name" || len(e.Message) > 400 {
			t.Errorf("%q: got %v, want an error of the field", text, err)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reference, project, path, shown string }{
		{"web", "", "web", "web"},
		{"web", "default", "web", "web"},
		{"web", "shop", "shop.web", "web"},
		{"shop/web", "shop", "shop.web", "web"},
		{"shop/web", "", "shop.web", "shop/web"},
		{"default/web", "shop", "web", "default/web"},
		{"default/web", "", "web", "web"},
		{"", "shop", "", ""},
	} {
		path, err := objectname.Parse("f", test.reference, test.project)
		if err != nil || path != test.path {
			t.Errorf("%q in %q: got %q, %v, want %q", test.reference, test.project, path, err, test.path)
		}
		if got := objectname.Format(path, test.project); got != test.shown {
			t.Errorf("%q in %q: shown as %q, want %q", path, test.project, got, test.shown)
		}
	}
	if got := objectname.Display("shop.web"); got != "shop/web" {
		t.Errorf("got %q", got)
	}
}

// TestSecReferencesDoNotLeaveTheirProject: a name with a dot would be the path of an object of
// another project.
func TestSecReferencesDoNotLeaveTheirProject(t *testing.T) {
	t.Parallel()
	for _, reference := range []string{
		"shop.web", "a/b/c", "/web", "shop/", "shop/a.b", "shop.a/b", "../web", "shop/..", "Shop/web", "web ", strings.Repeat("a", 1<<20),
	} {
		for _, project := range []string{"", "own"} {
			path, err := objectname.Parse("spec.cluster", reference, project)
			if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "spec.cluster" || path != "" || len(e.Message) > 600 {
				t.Errorf("%.40q: got %q, %v; want an error of the field", reference, path, err)
			}
		}
	}
}

func TestFormatIsTheReverseOfParse(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		project, own := name.Draw(t, "project"), name.Draw(t, "own")
		path := objectname.Join(project, name.Draw(t, "name"))
		got, err := objectname.Parse("f", objectname.Format(path, own), own)
		if err != nil || got != path {
			t.Fatalf("%q seen from %q: got %q, %v", path, own, got, err)
		}
	})
}
