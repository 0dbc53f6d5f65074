// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// TestSecReservedMetadata has an editor of a project claim for objects, and for services that are derived,
// that an administrator's fleet source manages them: it would hold back the removals of its own objects.
func TestSecReservedMetadata(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "tree", "fleet"))
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}},
	})
	c.commit(t, "fleet", "c1", map[string]string{"clusters.yaml": yamlCluster("berlin", "")})
	c.at(t, "tree", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
	pairs := func(key string) map[string]string { return map[string]string{key: "fleetsource/tree"} }
	labelled := serviceDocument("app", "berlin", "fleet", "app")
	labelled.GetService().Metadata.Labels = map[string]string{"leat.dev/project": "other"}
	marked := serviceDocument("app", "berlin", "fleet", "app")
	marked.GetService().Metadata.Annotations = pairs("leat.dev/up-plan")
	annotated := func(key string) *fleetv1.Document {
		document := serviceDocument("app", "berlin", "fleet", "app")
		document.GetService().Metadata.Annotations = pairs(key)
		return document
	}
	global := func(change func(*fleetv1.GlobalServiceSpec)) *fleetv1.Document {
		spec := &fleetv1.GlobalServiceSpec{
			Clusters: &fleetv1.ClusterTarget{All: true},
			Template: &fleetv1.ServiceSpec{Sources: []*typev1.Source{{Repository: "fleet", Path: "base"}}},
		}
		change(spec)
		return &fleetv1.Document{Object: &fleetv1.Document_GlobalService{GlobalService: &fleetv1.GlobalService{Metadata: &typev1.Metadata{Name: "trap"}, Spec: spec}}}
	}
	planted := global(func(s *fleetv1.GlobalServiceSpec) { s.TemplateAnnotations = pairs("leat.dev/managed-by") })
	c.attempts(t, ada, []attempt{
		{"an annotation", "FIELD_INVALID", annotated("leat.dev/managed-by")},
		{"an annotation in other letters", "FIELD_INVALID", annotated("Leat.Dev/managed-by")},
		{"a domain below", "FIELD_INVALID", annotated("fleet.leat.dev/x")},
		{"a label", "FIELD_INVALID", labelled},
		{"an annotation of a template", "FIELD_INVALID", planted},
		{"a label of a template", "FIELD_INVALID", global(func(s *fleetv1.GlobalServiceSpec) { s.TemplateLabels = map[string]string{"leat.dev/service": "x"} })},
		{"the plan of leat up", "", marked},
		{"a key of their own", "", annotated("notleat.dev/managed-by")},
		{"a template of their own", "", global(func(s *fleetv1.GlobalServiceSpec) { s.TemplateAnnotations = pairs("example.com/managed-by") })},
	})
	// Whatever is planted, the source counts its own objects alone.
	_, _ = c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{planted}})
	c.commit(t, "fleet", "c2", map[string]string{"clusters.yaml": yamlCluster("berlin", "again")})
	if status := c.at(t, "tree", "c2", errorsv1.Reason_REASON_UNSPECIFIED); status.GetManaged() != 1 {
		t.Errorf("got %v, want one managed object", status)
	}
}
