// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"testing"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

func bindingOf(name string, spec *fleetv1.AccessBindingSpec) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{Metadata: &typev1.Metadata{Name: name}, Spec: spec}}}
}

func roleDocument(name string, verbs, resources []string) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Role{Role: &fleetv1.Role{
		Metadata: &typev1.Metadata{Name: name}, Spec: &fleetv1.RoleSpec{Permissions: []*fleetv1.RolePermission{{Verbs: verbs, Resources: resources}}},
	}}}
}

// TestSecNobodyClimbs has people with some rights try every way to more of them.
func TestSecNobodyClimbs(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), clusterDocument("two"), repositoryDocument("demo"), repositoryDocument("private"),
		serviceDocument("app", "one", "demo", "app"), serviceDocument("other", "two", "private", "x"),
		roleDocument("manager", []string{"*"}, []string{"users", "tokens", "roles", "accessbindings", "identityproviders"}))
	secret, _ := c.join(t, "ada")
	boss, _ := c.join(t, "boss")
	c.join(t, "root", "leat:admins")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Clusters: named("one"), Repositories: []string{"demo"}})
	c.bind(t, "boss", &fleetv1.AccessBindingSpec{Users: []string{"boss"}, RoleName: "manager", Hub: true})
	admin := typev1.AccessRole_ACCESS_ROLE_ADMIN
	me, mine := []string{"ada"}, []string{"boss"}
	relabelled := clusterDocument("one")
	relabelled.GetCluster().Metadata.Labels = map[string]string{"stage": "prod"}
	dialled := clusterDocument("one")
	dialled.GetCluster().Spec.AgentEndpoint = "inside.example:443"
	for who, attempts := range map[string]map[string]*fleetv1.Document{
		secret: {
			"ACCESS_DENIED another cluster":               bindingOf("x", &fleetv1.AccessBindingSpec{Users: me, Role: admin, Clusters: named("one", "two")}),
			"ACCESS_DENIED all clusters":                  bindingOf("x", &fleetv1.AccessBindingSpec{Users: me, Role: admin, Clusters: &fleetv1.ClusterSelection{All: true}}),
			"ACCESS_DENIED the hub":                       bindingOf("x", &fleetv1.AccessBindingSpec{Users: me, Role: admin, Hub: true}),
			"ACCESS_DENIED a foreign repository":          bindingOf("x", &fleetv1.AccessBindingSpec{Users: me, Role: admin, Repositories: []string{"private"}}),
			"ACCESS_DENIED a foreign service":             bindingOf("x", &fleetv1.AccessBindingSpec{Users: me, Role: admin, Services: []string{"other"}}),
			"ACCESS_DENIED more by the same name":         bindingOf("ada", &fleetv1.AccessBindingSpec{Users: me, Role: admin, Hub: true}),
			"ACCESS_DENIED a binding of others":           bindingOf("boss", &fleetv1.AccessBindingSpec{Users: me, RoleName: "manager", Hub: true}),
			"ACCESS_DENIED a role":                        roleDocument("mine", []string{"*"}, []string{"*"}),
			"ACCESS_DENIED an address that the hub dials": dialled,
			"ACCESS_DENIED a group":                       {Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "ada"}, Spec: &fleetv1.UserSpec{Groups: []string{"leat:admins"}}}}},
			"REFERENCE_NOT_FOUND to read a repository":    serviceDocument("spy", "one", "private", "x"),
			"REFERENCE_NOT_FOUND to write into a cluster": serviceDocument("spy", "two", "demo", "x"),
			" what they hold":                             bindingOf("mine", &fleetv1.AccessBindingSpec{Users: mine, Role: admin, Clusters: named("one")}),
			" a service of their own":                     serviceDocument("own", "one", "demo", "x"),
			" labels where they hold everything":          relabelled,
		},
		boss: {
			"ACCESS_DENIED a higher role":        bindingOf("y", &fleetv1.AccessBindingSpec{Users: mine, Role: admin, Hub: true}),
			"ACCESS_DENIED a role with more":     roleDocument("all", []string{"*"}, []string{"*"}),
			"ACCESS_DENIED more into their own":  roleDocument("manager", []string{"*"}, []string{"*"}),
			"ACCESS_DENIED the administrators":   {Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "boss"}, Spec: &fleetv1.UserSpec{Groups: []string{"leat:admins"}}}}},
			"ACCESS_DENIED a user of others":     {Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "root"}, Spec: &fleetv1.UserSpec{Groups: []string{"leat:admins"}}}}},
			"ACCESS_DENIED who signs in as whom": providerDocument("corp", "https://login.example"),
			" a lesser role":                     roleDocument("tokens", []string{"list"}, []string{"tokens"}),
			" a user without groups":             {Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "new"}}}},
		},
	} {
		client := c.fleet(t, who)
		for name, document := range attempts {
			_, err := client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}, DryRun: true})
			if name[0] == ' ' {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%s: it was allowed", name)
				continue
			}
			wantReason(t, err, name[:len(name)-len(afterWord(name))])
		}
	}
	// A role and a binding in one go: the role is decided as it will be.
	_, err := c.fleet(t, boss).Apply(t.Context(), &fleetv1.ApplyRequest{DryRun: true, Documents: []*fleetv1.Document{
		bindingOf("y", &fleetv1.AccessBindingSpec{Users: mine, RoleName: "fresh", Hub: true}), roleDocument("fresh", []string{"sync"}, []string{"services"}),
	}})
	wantReason(t, err, "ACCESS_DENIED")
	_, err = c.fleet(t, boss).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "root", Label: "x"})
	wantReason(t, err, "ACCESS_DENIED")
	if _, err = c.fleet(t, boss).CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "boss", Label: "x"}); err != nil {
		t.Error(err)
	}
	if err := fleetcalls.Delete[*fleetv1.Role](t.Context(), c.fleet(t, boss), "manager"); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("got %v, want a role in use to stay", err)
	}
}

// afterWord is the text from the first space on.
func afterWord(text string) string {
	for i, r := range text {
		if r == ' ' {
			return text[i:]
		}
	}
	return ""
}
