// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestNewUses lists what references of an edit newly use.
func TestNewUses(t *testing.T) {
	t.Parallel()
	refers := func(references ...string) []catalog.Use {
		var uses []catalog.Use
		for i, reference := range references {
			if use, ok := catalog.UseOfReference("shop", strconv.Itoa(i), reference); ok {
				uses = append(uses, use)
			}
		}
		return uses
	}
	for name, test := range map[string]struct{ current, next, want []string }{
		"of all kinds": {
			nil,
			[]string{"vault://db#p", "hub://set/q", "hub://other/set/r", "cluster://ns/secret#k"},
			[]string{"0 ConfigBackend/vault", "1 ConfigSet/shop/set", "2 ConfigSet/other/set"},
		},
		"another key of an entry":     {[]string{"vault://db#p"}, []string{"vault://db#q"}, []string{"0 ConfigBackend/vault"}},
		"an entry as a whole":         {[]string{"vault://db#p"}, []string{"vault://db"}, []string{"0 ConfigBackend/vault"}},
		"another path":                {[]string{"vault://db#p"}, []string{"vault://card#p"}, []string{"0 ConfigBackend/vault"}},
		"another back end":            {[]string{"vault://db#p"}, []string{"bao://db#p"}, []string{"0 ConfigBackend/bao"}},
		"twice, one may be missing":   {[]string{"vault://db#p"}, []string{"vault://db#p?", "vault://db#p"}, nil},
		"another key of a set":        {[]string{"hub://set/p"}, []string{"hub://set/q"}, nil},
		"a fact in place of a path":   {[]string{"vault://x#p"}, []string{"vault://${project}#p"}, []string{"0 ConfigBackend/vault"}},
		"another fact in a path":      {[]string{"vault://${cluster.name}#p"}, []string{"vault://${project}#p"}, []string{"0 ConfigBackend/vault"}},
		"a fact in the name of a set": {[]string{"hub://x/p"}, []string{"hub://${cluster.name}/p"}, []string{"0 ConfigSet/shop/x"}},
		"a fact in the key of a set":  {[]string{"hub://set/p"}, []string{"hub://set/${cluster.name}"}, nil},
		"the same facts": {
			[]string{"hub://${cluster.name}/p", "vault://${project}#p"}, []string{"vault://${project}#p", "hub://${cluster.name}/p"}, nil,
		},
	} {
		var got []string
		for _, use := range catalog.NewUses(refers(test.current...), refers(test.next...)) {
			got = append(got, use.Field+" "+string(use.Key.Kind)+"/"+objectname.Display(use.Key.Name))
			if p := use.Permission(); p.Verb != catalog.VerbUse || !slices.Contains(catalog.Permissions(), p) {
				t.Errorf("%s: the permission %q does not exist", name, p)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, test.want)
		}
	}
}
