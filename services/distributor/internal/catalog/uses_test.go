// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"slices"
	"testing"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// TestUsesOf lists what edits newly use, by the fields that name it.
func TestUsesOf(t *testing.T) {
	t.Parallel()
	service := func(references map[string]string, sources ...string) *catalog.Service {
		s := &catalog.Service{Metadata: catalog.Metadata{Name: "shop.app@one"}, Spec: catalog.ServiceSpec{Config: &catalog.Config{References: references}}}
		for _, source := range sources {
			s.Spec.Sources = append(s.Spec.Sources, catalog.Source{Repository: source})
		}
		return s
	}
	refers := func(references ...string) *catalog.Service {
		all := map[string]string{}
		for i, reference := range references {
			all[string(rune('A'+i))] = reference
		}
		return service(all)
	}
	for name, test := range map[string]struct {
		current, next catalog.Object
		want          []string
	}{
		"a new service": {
			nil, service(map[string]string{"P": "vault://db#p", "Q": "hub://set/q", "R": "hub://other/set/r", "S": "cluster://ns/secret#k"}, "shop.web", "charts"),
			[]string{
				"spec.sources[0].repository Repository/shop/web", "spec.sources[1].repository Repository/charts",
				"spec.config.references[P] ConfigBackend/vault", "spec.config.references[Q] ConfigSet/shop/set", "spec.config.references[R] ConfigSet/other/set",
			},
		},
		"a source more":               {service(nil, "a"), service(nil, "b", "a"), []string{"spec.sources[0].repository Repository/b"}},
		"another key of an entry":     {refers("vault://db#p"), refers("vault://db#q"), []string{"spec.config.references[A] ConfigBackend/vault"}},
		"an entry as a whole":         {refers("vault://db#p"), refers("vault://db"), []string{"spec.config.references[A] ConfigBackend/vault"}},
		"another back end":            {refers("vault://db#p"), refers("bao://db#p"), []string{"spec.config.references[A] ConfigBackend/bao"}},
		"another name of a variable":  {refers("vault://db#p"), refers("vault://db#p?", "vault://db#p"), nil},
		"another key of a set":        {refers("hub://set/p"), refers("hub://set/q"), nil},
		"a fact in place of a path":   {refers("vault://x#p"), refers("vault://${project}#p"), []string{"spec.config.references[A] ConfigBackend/vault"}},
		"another fact in a path":      {refers("vault://${cluster.name}#p"), refers("vault://${project}#p"), []string{"spec.config.references[A] ConfigBackend/vault"}},
		"a fact in the name of a set": {refers("hub://x/p"), refers("hub://${cluster.name}/p"), []string{"spec.config.references[A] ConfigSet/shop/x"}},
		"a fact in the key of a set":  {refers("hub://set/p"), refers("hub://set/${cluster.name}"), nil},
		"the same facts":              {refers("hub://${cluster.name}/p", "vault://${project}#p"), refers("vault://${project}#p", "hub://${cluster.name}/p"), nil},
		"a global service": {
			nil, &catalog.GlobalService{Metadata: catalog.Metadata{Name: "shop.app"}, Spec: catalog.GlobalServiceSpec{
				Template:  catalog.ServiceTemplate{Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "shop.web"}}}},
				Overrides: []catalog.ServiceOverride{{Name: "eu", Config: &catalog.Config{References: map[string]string{"P": "vault://db#p"}}}},
			}},
			[]string{"spec.template.sources[0].repository Repository/shop/web", "spec.overrides[0].config.references[P] ConfigBackend/vault"},
		},
		"a project": {
			&catalog.Project{Metadata: catalog.Metadata{Name: "shop"}, Spec: catalog.ProjectSpec{ConfigSets: []string{"shop.a"}}},
			&catalog.Project{Metadata: catalog.Metadata{Name: "shop"}, Spec: catalog.ProjectSpec{ConfigSets: []string{"shop.a", "b"}}},
			[]string{"spec.config_sets[1] ConfigSet/b"},
		},
		"a notifier": {
			nil, &catalog.Notifier{Spec: catalog.NotifierSpec{Sink: catalog.Sink{Commit: &catalog.CommitSink{Repositories: []string{"a"}}}}},
			[]string{"spec.commit_status.repositories[0] Repository/a"},
		},
		"a fleet source": {
			nil, &catalog.FleetSource{Spec: catalog.FleetSourceSpec{Source: catalog.Source{Repository: "a"}}},
			[]string{"spec.source.repository Repository/a"},
		},
	} {
		var got []string
		for _, use := range catalog.UsesOf(test.current, test.next) {
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
