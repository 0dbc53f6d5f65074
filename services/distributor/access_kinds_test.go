// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"slices"
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Names of the stage's people, besides the ones that roleUser makes.
const (
	outsider = "eve" // has no binding

	viewerOfProject, editorOfProject = "viewer-of-the-project", "editor-of-the-project"
	adminOfProject, adminElsewhere   = "admin-of-the-project", "admin-of-another-project"
	syncerOfCluster, syncerElsewhere = "syncer-of-the-cluster", "syncer-of-another-cluster"
)

// builtins are the built-in roles, by their names on the wire.
func builtins() []typev1.AccessRole {
	return []typev1.AccessRole{
		typev1.AccessRole_ACCESS_ROLE_VIEWER, typev1.AccessRole_ACCESS_ROLE_OPERATOR, typev1.AccessRole_ACCESS_ROLE_EDITOR, typev1.AccessRole_ACCESS_ROLE_ADMIN,
	}
}

func nameOfRole(role typev1.AccessRole) string {
	return strings.ToLower(strings.TrimPrefix(role.String(), "ACCESS_ROLE_"))
}

// roleUser is the person with a role for one, two or hub.
func roleUser(role typev1.AccessRole, scope string) string { return nameOfRole(role) + "-" + scope }

// everyone are the people of the stage by name, whom the provider of the stage knows, too.
func everyone() []string {
	all := []string{outsider, viewerOfProject, editorOfProject, adminOfProject, adminElsewhere, syncerOfCluster, syncerElsewhere}
	for _, role := range builtins() {
		for _, scope := range []string{"one", "two", "hub"} {
			all = append(all, roleUser(role, scope))
		}
	}
	return all
}

// tokenKind is one way in which a person holds a token. All rows of the table are the same for each of
// them: a person has what bindings give to the name that they come with.
type tokenKind struct {
	name string
	// subject is how bindings name the person who comes with such a token.
	subject func(user string) string
	// token makes one.
	token func(t *testing.T, s *stage, user string) string
	// isAccess is true for an access token, which buys no other one.
	isAccess bool
}

// Names of the provider and of the trust rule of the stage.
const (
	stageProvider  = "staff"
	stageTrustRule = "jobs"
)

func tokenKinds() []tokenKind {
	return []tokenKind{
		{
			name: "API token", subject: func(user string) string { return user },
			token: func(t *testing.T, s *stage, user string) string {
				t.Helper()
				made, err := s.admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: user, Label: "own"})
				if err != nil {
					t.Fatal(err)
				}
				return made.GetSecret()
			},
		},
		{
			name: "session", subject: func(user string) string { return stageProvider + "." + user }, isAccess: true,
			token: func(t *testing.T, s *stage, user string) string {
				t.Helper()
				return s.login(t, stageProvider, user).exchange(t).GetAccessToken()
			},
		},
		{
			name: "workload", subject: func(user string) string { return stageTrustRule + ":acme/" + user }, isAccess: true,
			token: func(t *testing.T, s *stage, user string) string {
				t.Helper()
				return s.obtain(t, s.ci.job(t, "acme/"+user, nil), "trust_rule", stageTrustRule)
			},
		},
	}
}

// subjectsOf are the names by which a binding gives a person the same with each kind of token.
func subjectsOf(user string) []string {
	var all []string
	for _, kind := range tokenKinds() {
		all = append(all, kind.subject(user))
	}
	return all
}

// join gives a person the binding, if there is one, and returns the callers that they are: one for
// each of the kinds. An API token belongs to a user of the hub, and others need none.
func (s *stage) join(t *testing.T, user string, p person, spec *fleetv1.AccessBindingSpec, kinds ...tokenKind) []caller {
	t.Helper()
	if slices.ContainsFunc(kinds, func(k tokenKind) bool { return !k.isAccess }) {
		s.apply(t, &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: user}}}})
	}
	if spec != nil {
		spec.Users = subjectsOf(user)
		s.apply(t, bindingOf(user, spec))
	}
	var all []caller
	for _, kind := range kinds {
		c := caller{
			name: user + " by " + kind.name, kind: people, token: kind.token(t, s, user), person: p,
			isAccess: kind.isAccess, isAgain: kind.isAccess,
		}
		if kind.isAccess {
			c.again = func(t *testing.T) string {
				t.Helper()
				return kind.token(t, s, user)
			}
		}
		all = append(all, c)
	}
	return all
}

// roles makes a person for each built-in role, for the clusters one and two and for the hub. Those with
// each role for one, administrators, and the person without a binding come with each kind of token.
func (s *stage) roles(t *testing.T) []caller {
	t.Helper()
	s.apply(t, roleDocument("syncer", []string{"sync"}, []string{"services"}))
	kinds := tokenKinds()
	all := s.join(t, outsider, person{}, nil, kinds[1:]...) // the first is made by outsiders
	for _, role := range builtins() {
		for _, scope := range []string{"one", "two", "hub"} {
			spec := &fleetv1.AccessBindingSpec{Role: role, Hub: scope == "hub"}
			if scope != "hub" {
				spec.Clusters = named(scope)
			}
			if scope == "one" {
				spec.Repositories = []string{"demo"}
			}
			user, wanted := roleUser(role, scope), kinds
			if isAdmin := role == typev1.AccessRole_ACCESS_ROLE_ADMIN; scope != "one" && !isAdmin {
				wanted = kinds[:1]
			}
			all = append(all, s.join(t, user, person{role: catalog.RoleName(nameOfRole(role)), scope: scope}, spec, wanted...)...)
		}
	}
	return append(all, s.projectRoles(t)...)
}

// projectRoles makes a person for each built-in role in the project of the stage's objects, an
// administrator of another project, and people whose role is made of permissions.
func (s *stage) projectRoles(t *testing.T) []caller {
	t.Helper()
	s.apply(t, projectDocument("shop", nil))
	in := func(project string) *fleetv1.ProjectSelection {
		return &fleetv1.ProjectSelection{Names: []string{project}}
	}
	var all []caller
	for _, one := range []struct {
		user   string
		person person
		spec   *fleetv1.AccessBindingSpec
	}{
		{viewerOfProject, person{role: catalog.RoleViewer, scope: ownProject}, &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Projects: in("default")}},
		{editorOfProject, person{role: catalog.RoleEditor, scope: ownProject}, &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: in("default")}},
		{adminOfProject, person{role: catalog.RoleAdmin, scope: ownProject}, &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Projects: in("default")}},
		{adminElsewhere, person{role: catalog.RoleAdmin, scope: foreignProject}, &fleetv1.AccessBindingSpec{Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Projects: in("shop")}},
		{syncerOfCluster, person{role: "syncer", scope: "one"}, &fleetv1.AccessBindingSpec{RoleName: "syncer", Clusters: named("one")}},
		{syncerElsewhere, person{role: "syncer", scope: "two"}, &fleetv1.AccessBindingSpec{RoleName: "syncer", Clusters: named("two")}},
	} {
		wanted := tokenKinds()
		if one.user != adminOfProject && one.user != adminElsewhere {
			wanted = wanted[:1]
		}
		all = append(all, s.join(t, one.user, one.person, one.spec, wanted...)...)
	}
	return all
}
