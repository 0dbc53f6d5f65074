// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"slices"
	"strings"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/testkit/await"
)

// TestSecAuthorsDoNotApprove has people edit a template and a label that it reads, under a wave
// whose approval is not by an author. Each of them is refused, also after another person edited the
// object, and the others may approve.
func TestSecAuthorsDoNotApprove(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.git.set("demo", "app", newFolder(t, "c1", "first"))
	document := func(namespace, description string) *fleetv1.Document {
		global := globalDocument("app", "one")
		spec := global.GetGlobalService().GetSpec()
		spec.Description, spec.Template.Namespace = description, namespace
		return global
	}
	c.apply(t, repositoryDocument("demo"), labelledCluster("one", map[string]string{"ns": "a"}), document("${{ self.labels.ns }}", ""))
	agents := newCrew(t, c.hub, "one")
	await.True(t, "the first spec", func() bool { return agents.runs("c1 in a, recreate=false", "one") })
	policy := wavesPolicy("waves")
	policy.Spec.Waves[0].Approval = &fleetv1.RolloutApproval{Groups: []string{"platform"}, NotByAuthor: true}
	c.apply(t, fleetdoc.Of(policy))
	c.waitTakenOver(t, 1)
	inProject := &fleetv1.ProjectSelection{Names: []string{"default"}}
	tokens := map[string]string{}
	for name, role := range map[string]typev1.AccessRole{
		"ada": typev1.AccessRole_ACCESS_ROLE_EDITOR, "bob": typev1.AccessRole_ACCESS_ROLE_EDITOR, "dora": typev1.AccessRole_ACCESS_ROLE_ADMIN,
	} {
		tokens[name], _ = c.join(t, name, "platform")
		c.bind(t, name, &fleetv1.AccessBindingSpec{Users: []string{name}, Role: role, Projects: inProject})
	}
	c.bind(t, "dora-one", &fleetv1.AccessBindingSpec{Users: []string{"dora"}, Role: typev1.AccessRole_ACCESS_ROLE_ADMIN, Clusters: named("one")})
	tokens["vera"], _ = c.join(t, "vera")
	c.bind(t, "vera", &fleetv1.AccessBindingSpec{Users: []string{"vera"}, Role: viewer, Projects: inProject})
	edit := func(person string, next *fleetv1.Document) {
		t.Helper()
		if _, err := c.fleet(t, tokens[person]).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{next}}); err != nil {
			t.Fatal(err)
		}
	}
	// approved waits for the approval of a rollout, tries refused people, and has another one approve.
	approved := func(number int64, by string, authors ...string) {
		t.Helper()
		c.waitCanary(t, number)
		for _, author := range authors {
			err := c.steer(t, tokens[author], "approve")
			wantReason(t, err, "ROLLOUT_BY_AUTHOR")
			if err == nil || !strings.Contains(err.Error(), "[platform]") {
				t.Errorf("got %v, want it to name who may approve", err)
			}
		}
		for viewer, want := range map[string][]string{by: authors, "vera": nil} {
			res, err := c.rollouts(t, tokens[viewer]).GetRollout(t.Context(), &fleetv1.GetRolloutRequest{Name: "waves"})
			if err != nil || !slices.Equal(res.GetRollout().GetAuthors(), want) {
				t.Errorf("%s sees %v, %v, want the authors %q", viewer, res, err, want)
			}
		}
		if err := c.steer(t, tokens[by], "approve"); err != nil {
			t.Error(err)
		}
		c.waitCompleted(t, number)
	}

	edit("ada", document("next-${{ self.labels.ns }}", ""))
	edit("bob", document("next-${{ self.labels.ns }}", "another description"))
	approved(1, "bob", "ada")
	moveTo(c.hub, newFolder(t, "c2", "second"))
	approved(2, "ada")
	edit("dora", labelledCluster("one", map[string]string{"ns": "b"}))
	approved(3, "ada", "dora")
	await.True(t, "the label in the spec", func() bool { return agents.runs("c2 in next-b, recreate=false", "one") })
}
