// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSecReadsOfDocumentsStayWithinLimits: a service depends on objects, and looks objects up, that the
// limits of its project do not allow.
func TestSecReadsOfDocumentsStayWithinLimits(t *testing.T) {
	t.Parallel()
	project := &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}, Spec: catalog.ProjectSpec{Limits: catalog.ProjectLimits{Limits: syncpolicy.Limits{
		Namespaces: syncpolicy.AllowList{"team-*"}, ClusterScopedKinds: syncpolicy.AllowList{"Namespace"},
	}}}}
	for name, test := range map[string]struct {
		object syncpolicy.ObjectReference
		field  string // that is refused; empty: none
	}{
		"the service's namespace":         {syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "db"}, ""},
		"an allowed namespace":            {syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "team-b", Name: "db"}, ""},
		"another namespace":               {syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: "db"}, ".namespace"},
		"the agent's namespace":           {syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "leat-system", Name: "leat-agent-identity"}, ".namespace"},
		"a group in another namespace":    {syncpolicy.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "kube-system", Name: "dns"}, ".namespace"},
		"a kind without namespace":        {syncpolicy.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "admin"}, ".kind"},
		"the same, in an allowed one":     {syncpolicy.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Namespace: "team-a", Name: "admin"}, ".kind"},
		"an allowed kind":                 {syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "team-b"}, ""},
		"a namespace that is not allowed": {syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system"}, ".name"},
		"a kind of the same name":         {syncpolicy.ObjectReference{APIVersion: "mill.test/v1", Kind: "ClusterRole", Name: "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within := func(options syncpolicy.Options) *catalog.Service {
				options.Namespace = "team-a"
				return &catalog.Service{Metadata: catalog.Metadata{Name: "shop.web@shop.own"}, Spec: catalog.ServiceSpec{Cluster: "shop.own", Options: &options}}
			}
			dependent := within(syncpolicy.Options{Policy: syncpolicy.Policy{DependsOn: []syncpolicy.Dependency{{Service: "db"}, {Object: &test.object}}}})
			wantField(t, project.Admits(dependent), "spec.policy.depends_on[1].object", test.field)
			chart := within(syncpolicy.Options{Render: []renderstep.Step{{
				Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Lookup: []renderstep.LookupRule{renderstep.LookupRule(test.object)}},
			}}})
			wantField(t, project.Admits(chart), "spec.render[0].helm.lookup[0]", test.field)
		})
	}
}

func wantField(t *testing.T, err error, place, field string) {
	t.Helper()
	invalid, ok := errors.AsType[*fielderr.Error](err)
	switch {
	case field == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case field != "" && (!ok || invalid.Path != place+field):
		t.Errorf("got %v, want an error of %s", err, place+field)
	}
}
