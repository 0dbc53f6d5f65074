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

func TestReferencesToServices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reference, project, path, shown string }{
		{"web", "", "web", "web"},
		{"web", "shop", "shop.web", "web"},
		{"web@berlin", "", "web@berlin", "web@berlin"},
		{"web@berlin", "shop", "shop.web@shop.berlin", "web@berlin"},
		{"web@default/berlin", "shop", "shop.web@berlin", "web@default/berlin"},
		{"web@kube/berlin", "", "web@kube.berlin", "web@kube/berlin"},
		// The cluster is read as in the service's document, in the service's own project.
		{"shop/web@berlin", "", "shop.web@shop.berlin", "shop/web@berlin"},
		{"shop/web@shop/berlin", "", "shop.web@shop.berlin", "shop/web@berlin"},
		{"shop/web@default/berlin", "crm", "shop.web@berlin", "shop/web@default/berlin"},
		{"", "shop", "", ""},
	} {
		path, err := objectname.ParseService("service", test.reference, test.project)
		if err != nil || path != test.path {
			t.Errorf("%q in %q: got %q, %v; want %q", test.reference, test.project, path, err, test.path)
		}
		if shown := objectname.Format(path, test.project); shown != test.shown {
			t.Errorf("%q in %q: shown as %q, want %q", test.reference, test.project, shown, test.shown)
		}
	}
}

// TestSecServicesHaveOneSpelling: nothing passes as the path or the reference of a service that could
// be taken for another one, or for one of another cluster.
func TestSecServicesHaveOneSpelling(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "web", "shop.web", "@", "web@", "@berlin", "web@@berlin", "web@berlin@paris", "web@default.berlin", "default.web@berlin",
		"a.b.c@berlin", "web@a.b.c", "web@Berlin", "web @berlin", "web@berlin\n", "web@../berlin", "web/x@berlin", "web@" + long + "a",
	} {
		if err := objectname.ValidateService("name", path); err == nil {
			t.Errorf("%q: got the path of a service, want an error", path)
		} else if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "name" || len(e.Message) > 400 {
			t.Errorf("%q: got %v, want an error of the field", path, err)
		}
	}
	for _, reference := range []string{
		"@", "web@", "@berlin", "web@@berlin", "web@berlin@paris", "web@a/b/c", "a/b/c@berlin", "web@Berlin", "shop.web@berlin", "web@shop.berlin",
		"web@" + strings.Repeat("b", 1<<20),
	} {
		path, err := objectname.ParseService("name", reference, "shop")
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || path != "" || e.Path != "name" || len(e.Message) > 400 {
			t.Errorf("%.40q: got %q, %v; want an error of the field", reference, path, err)
		}
	}
}

// TestServicesSortInTheirProject: listings rely on the paths of a project other than default being
// neighbours, and on the paths of one name being neighbours.
func TestServicesSortInTheirProject(t *testing.T) {
	t.Parallel()
	label := rapid.StringMatching(`[a-c0]([-a-c0]{0,3}[a-c0])?`)
	rapid.Check(t, func(t *rapid.T) {
		path := func() string {
			return objectname.ServicePath(objectname.Join(label.Draw(t, "project"), label.Draw(t, "name")), objectname.Join(label.Draw(t, "place"), label.Draw(t, "cluster")))
		}
		a, b, c := path(), path(), path()
		if a < b && b < c && objectname.LocalPath(a) == objectname.LocalPath(c) && objectname.LocalPath(b) != objectname.LocalPath(a) {
			t.Fatalf("%q is between %q and %q", b, a, c)
		}
		if a < b && b < c && objectname.Project(a) == objectname.Project(c) && objectname.Project(b) != objectname.Project(a) {
			t.Fatalf("%q is between %q and %q", b, a, c)
		}
		reference := objectname.Format(a, "b")
		if back, err := objectname.ParseService("", reference, "b"); err != nil || back != a || objectname.ValidateService("", a) != nil {
			t.Fatalf("%q is shown as %q, which leads to %q, %v", a, reference, back, err)
		}
	})
}
