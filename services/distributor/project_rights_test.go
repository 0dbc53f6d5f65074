// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// TestSecScopesNameTheObjectsOfOneProject binds somebody to objects of one project, beside which there
// are others of the same names.
func TestSecScopesNameTheObjectsOfOneProject(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, projectDocuments("shop")...)
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), serviceDocument("app", "one", "demo", "a"), serviceDocument("web", "one", "demo", "a"),
		in("shop", clusterDocument("one")), in("shop", repositoryDocument("demo")),
		in("shop", serviceDocument("app", "one", "demo", "a")), in("shop", serviceDocument("web", "default/one", "demo", "a")))
	secret, _ := c.join(t, "ada")
	for name, scope := range map[string]*fleetv1.AccessBindingSpec{
		"cluster":    {Clusters: named("shop/one")},
		"service":    {Services: []string{"shop/web"}},
		"repository": {Repositories: []string{"shop/demo"}},
	} {
		scope.Users, scope.Role = []string{"ada"}, typev1.AccessRole_ACCESS_ROLE_VIEWER
		c.bind(t, name, scope)
		stored, err := c.admin.GetAccessBinding(t.Context(), &fleetv1.GetAccessBindingRequest{Name: name})
		if diff := cmp.Diff(scope, stored.GetAccessBinding().GetSpec(), protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%s: got another binding (%v; -want +got):\n%s", name, err, diff)
		}
	}
	ada := c.fleet(t, secret)
	for _, reference := range []string{"shop/app", "shop/web"} {
		if _, err := ada.GetService(t.Context(), &fleetv1.GetServiceRequest{Name: reference}); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
	_, err1 := ada.GetCluster(t.Context(), &fleetv1.GetClusterRequest{Name: "shop/one"})
	_, err2 := ada.GetRepository(t.Context(), &fleetv1.GetRepositoryRequest{Name: "shop/demo"})
	if err1 != nil || err2 != nil {
		t.Error(err1, err2)
	}
	for _, name := range []string{"app", "web"} {
		_, err := ada.GetService(t.Context(), &fleetv1.GetServiceRequest{Name: name})
		wantReason(t, err, "NOT_FOUND")
	}
	_, err := ada.GetCluster(t.Context(), &fleetv1.GetClusterRequest{Name: "one"})
	wantReason(t, err, "NOT_FOUND")
	_, err = ada.GetRepository(t.Context(), &fleetv1.GetRepositoryRequest{Name: "demo"})
	wantReason(t, err, "NOT_FOUND")
	_, err = ada.GetProject(t.Context(), &fleetv1.GetProjectRequest{Name: "shop"})
	wantReason(t, err, "NOT_FOUND")
}
