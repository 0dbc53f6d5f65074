// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// TestSecFleetSourceAfterImagePolicies has an editor of a project write an image policy before an
// administrator makes a fleet source of the repository that it writes to. What the policy writes
// would act with the rights of the source, which its editor does not hold, so the policy is
// suspended until a person with these rights resumes it.
func TestSecFleetSourceAfterImagePolicies(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, fleetdoc.Of(&fleetv1.Project{Metadata: &typev1.Metadata{Name: "shop"}}))
	inShop := func(document *fleetv1.Document) *fleetv1.Document {
		fleetdoc.Object(document).Interface().(interface{ GetMetadata() *typev1.Metadata }).GetMetadata().Project = "shop"
		return document
	}
	c.apply(t, inShop(imageRepository("images")), inShop(repositoryDocument("config")), inShop(repositoryDocument("other")), inShop(repositoryDocument("quiet")))
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
	})
	suspended := func(s *fleetv1.ImagePolicySpec) { s.Suspended = true }
	policy := func(change ...func(*fleetv1.ImagePolicySpec)) *fleetv1.Document {
		return inShop(imagePolicyDocument("web", append(change, writesTo("config"))...))
	}
	shows := inShop(imagePolicyDocument("shows"))
	elsewhere := inShop(imagePolicyDocument("elsewhere", writesTo("other")))
	apply := func(token string, documents ...*fleetv1.Document) error {
		_, err := c.fleet(t, token).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: documents})
		return err
	}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("the editor's policies", apply(ada, policy(), shows, elsewhere))

	role := func(role typev1.AccessRole, projects ...string) func(*fleetv1.FleetSourceSpec) {
		return func(s *fleetv1.FleetSourceSpec) { s.Role, s.Projects = role, projects }
	}
	const editor, admin = typev1.AccessRole_ACCESS_ROLE_EDITOR, typev1.AccessRole_ACCESS_ROLE_ADMIN
	reads := func(repository string) func(*fleetv1.FleetSourceSpec) {
		return func(s *fleetv1.FleetSourceSpec) { s.Source.Repository = repository }
	}
	source := func(change ...func(*fleetv1.FleetSourceSpec)) *fleetv1.Document {
		return fleetSourceDocument("shop", "tree", "config", change...)
	}
	const written = "FLEET_SOURCE_WRITTEN"
	c.attempts(t, adminToken, []attempt{
		{"a source of the hub", written, source(wholeHub)},
		{"a source with the rights of the policy's editor", written, source(role(editor))},
		{"a suspended source", written, source(func(s *fleetv1.FleetSourceSpec) { s.Suspended = true })},
	})
	err := apply(adminToken, source(wholeHub))
	if message := rpcerr.Message(err); !strings.Contains(message, "shop/web") || strings.Contains(message, "shows") || strings.Contains(message, "elsewhere") {
		t.Errorf("got %q, want the one policy that writes there", message)
	}

	// A person who may make the source, and does not see the policies, learns only that there are
	// some.
	c.apply(t, roleDocument("maker", []string{"create", "update"}, []string{"fleetsources"}), roleDocument("user", []string{"use"}, []string{"repositories"}))
	zoe, _ := c.join(t, "zoe")
	c.bind(t, "zoe-edits", &fleetv1.AccessBindingSpec{Users: []string{"zoe"}, Role: editor, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}}})
	c.bind(t, "zoe-makes", &fleetv1.AccessBindingSpec{Users: []string{"zoe"}, RoleName: "maker", Hub: true})
	c.bind(t, "zoe-uses", &fleetv1.AccessBindingSpec{Users: []string{"zoe"}, RoleName: "user", Hub: true})
	err = apply(zoe, source(role(editor, "default")))
	if message := rpcerr.Message(err); rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FLEET_SOURCE_WRITTEN || strings.Contains(message, "web") || !strings.Contains(message, "1 image policy") {
		t.Errorf("got %v, want a refusal without the name of the policy", err)
	}

	// An edit of the policy by the author of the source is held to its rights, so both may come in
	// one edit.
	for what, beside := range map[string]*fleetv1.Document{
		"suspended beside the source": policy(suspended),
		"edited beside the source":    policy(func(s *fleetv1.ImagePolicySpec) { s.Description = "ours" }),
	} {
		if _, err := c.admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{source(wholeHub), beside}, DryRun: true}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	must("the source, beside the suspension", apply(adminToken, policy(suspended), source(wholeHub)))
	wantReason(t, apply(ada, policy()), "ACCESS_DENIED")
	must("the administrator's resumption", apply(adminToken, policy()))

	// A source that directs no more than before can be edited; one that gains something is held
	// to the policies.
	c.attempts(t, adminToken, []attempt{
		{"a description", "", source(wholeHub, func(s *fleetv1.FleetSourceSpec) { s.Description = "all of it" })},
		{"all projects in place of the hub", "", source(role(admin, accessrule.All))},
		{"a lower role", "", source(wholeHub, role(editor))},
		{"a repository that no policy writes to", "", source(wholeHub, reads("quiet"))},
		{"a repository that another policy writes to", written, source(wholeHub, reads("other"))},
	})
	must("a narrower source", apply(adminToken, source(role(editor))))
	c.attempts(t, adminToken, []attempt{
		{"the same again", "", source(role(editor, "shop"))},
		{"a higher role", written, source(role(admin))},
		{"another project", written, source(role(editor, "shop", "default"))},
		{"all projects", written, source(role(editor, accessrule.All))},
		{"the hub", written, source(wholeHub, role(editor))},
	})
}

// TestSecImagesOfFleetSources has editors of two projects lead the tags that an image policy writes
// for a fleet source to a registry of their own, and to other projects' images.
func TestSecImagesOfFleetSources(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	lent := imageRepository("lent")
	lent.GetRepository().Metadata.Project = "shop"
	c.apply(t, projectDocument("shop", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
		Projects: &fleetv1.Selection{Names: []string{"default"}}, Repositories: &fleetv1.Selection{Names: []string{"lent"}},
	}}}))
	c.apply(t, imageRepository("images"), imageRepository("shown"), lent, repositoryDocument("fleet"),
		fleetSourceDocument("", "tree", "fleet", wholeHub, func(s *fleetv1.FleetSourceSpec) { s.Suspended = true }),
		imagePolicyDocument("web", writesTo("fleet")), imagePolicyDocument("shows", func(s *fleetv1.ImagePolicySpec) { s.Repository = "shown" }),
		imagePolicyDocument("foreign", writesTo("fleet"), func(s *fleetv1.ImagePolicySpec) { s.Repository = "shop/lent" }))
	editor := func(name, project string) string {
		secret, _ := c.join(t, name)
		c.bind(t, name, &fleetv1.AccessBindingSpec{
			Users: []string{name}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{project}},
		})
		return secret
	}
	boris, ada := editor("boris", "default"), editor("ada", "shop")
	elsewhere := func(name, project string) *fleetv1.Document {
		document := imageRepository(name)
		document.GetRepository().Metadata.Project = project
		document.GetRepository().Spec.Url = "oci://registry.evil/" + name
		return document
	}
	c.attempts(t, boris, []attempt{
		{"images that a policy writes for the fleet source", "ACCESS_DENIED", elsewhere("images", "")},
		{"images that a policy only shows", "", elsewhere("shown", "")},
	})
	c.attempts(t, ada, []attempt{{"images that the policy of another project selects from", "", elsewhere("lent", "shop")}})
	c.attempts(t, adminToken, []attempt{{"with the rights of the source", "", elsewhere("images", "")}})
}
