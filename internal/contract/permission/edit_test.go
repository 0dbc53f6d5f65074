// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package permission_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/permission"
)

// TestSecEveryFieldSaysWhatAnEditNeeds reads the options of all fields of all documents. A field without one
// would be refused to everybody; this test finds it before.
func TestSecEveryFieldSaysWhatAnEditNeeds(t *testing.T) {
	t.Parallel()
	seen := map[optionsv1.Edit]bool{}
	for kind, field := range fleetdoc.Kinds() {
		declared := permission.Declared(field.Message())
		for _, edit := range declared {
			seen[edit.Needs] = true
			if edit.Needs == optionsv1.Edit_EDIT_UNSPECIFIED {
				t.Errorf("%s: %s does not say what an edit needs: give it the option leat.options.v1.edit", kind, edit.Path)
			}
		}
		if len(declared) < 14 {
			t.Errorf("%s: found only the fields %v", kind, declared)
		}
	}
	for number := range optionsv1.Edit_name {
		if edit := optionsv1.Edit(number); edit != optionsv1.Edit_EDIT_UNSPECIFIED && !seen[edit] {
			t.Errorf("no field needs %s", edit)
		}
	}
}

// TestSecFieldsWithoutOptionAreFound edits a message that is not a document.
func TestSecFieldsWithoutOptionAreFound(t *testing.T) {
	t.Parallel()
	got := permission.Edits((&typev1.Page{}).ProtoReflect().Type().Zero(), (&typev1.Page{Size: 1}).ProtoReflect())
	if want := []permission.Edit{{Path: "size"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestEditsOfADocument compares documents: fields that are set, changed, cleared, moved, or needed
// at every edit.
func TestEditsOfADocument(t *testing.T) {
	t.Parallel()
	cluster := func(agent *typev1.AgentSettings, labels map[string]string) *fleetv1.Cluster {
		return &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "one", Labels: labels}, Spec: &fleetv1.ClusterSpec{Agent: agent}}
	}
	service := func(sources ...*typev1.Source) *fleetv1.Service {
		return &fleetv1.Service{Metadata: &typev1.Metadata{Name: "app"}, Spec: &fleetv1.ServiceSpec{Sources: sources}}
	}
	project := func(limits *fleetv1.ProjectLimits) *fleetv1.Project {
		return &fleetv1.Project{Metadata: &typev1.Metadata{Name: "shop"}, Spec: &fleetv1.ProjectSpec{Limits: limits}}
	}
	binding := &fleetv1.AccessBinding{Metadata: &typev1.Metadata{Name: "b"}, Spec: &fleetv1.AccessBindingSpec{Hub: true}}
	demo, other := &typev1.Source{Repository: "demo"}, &typev1.Source{Repository: "other", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}}}
	for name, test := range map[string]struct {
		current, next proto.Message
		want          string
	}{
		"a new cluster":      {nil, cluster(nil, nil), "metadata.name:FREE"},
		"empty settings":     {cluster(nil, nil), cluster(&typev1.AgentSettings{}, nil), ""},
		"a setting":          {cluster(nil, nil), cluster(&typev1.AgentSettings{LockDown: true}, nil), "spec.agent:CLUSTER_ADMIN"},
		"no settings":        {cluster(&typev1.AgentSettings{LockDown: true}, nil), cluster(nil, nil), "spec.agent:CLUSTER_ADMIN"},
		"no spec":            {cluster(&typev1.AgentSettings{LockDown: true}, nil), &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "one"}}, "spec.agent:CLUSTER_ADMIN"},
		"labels":             {cluster(nil, nil), cluster(nil, map[string]string{"a": "b"}), "metadata.labels:CLUSTER_ADMIN"},
		"a repository":       {service(demo), service(other), "spec.sources[0].repository:USE_REPOSITORY spec.sources[0].ref.branch:FREE"},
		"a source more":      {service(demo), service(demo, demo), "spec.sources[1].repository:USE_REPOSITORY"},
		"no sources":         {service(demo), service(), "spec.sources[0].repository:USE_REPOSITORY"},
		"nothing in a limit": {project(nil), project(&fleetv1.ProjectLimits{}), ""},
		"a limit that allows nothing": {
			project(&fleetv1.ProjectLimits{Namespaces: &typev1.AllowList{}}), project(&fleetv1.ProjectLimits{}), "spec.limits:LOOSEN",
		},
		"the same binding": {binding, binding, "spec:GIVE"},
		"the same global service": {
			&fleetv1.GlobalService{}, &fleetv1.GlobalService{}, "spec:PROJECT_SERVICES",
		},
		"the description of a repository": {
			&fleetv1.Repository{}, &fleetv1.Repository{Spec: &fleetv1.RepositorySpec{ChartRepositories: []string{"a"}}},
			"spec:DIRECT spec.chart_repositories:USE_REPOSITORY",
		},
	} {
		from := test.next.ProtoReflect().Type().Zero()
		if test.current != nil {
			from = test.current.ProtoReflect()
		}
		var got []string
		for _, edit := range permission.Edits(from, test.next.ProtoReflect()) {
			got = append(got, edit.Path+":"+strings.TrimPrefix(edit.Needs.String(), "EDIT_"))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %v, want %q", name, got, test.want)
		}
	}
}

// TestTextsOfADocument finds what a document names, in any place.
func TestTextsOfADocument(t *testing.T) {
	t.Parallel()
	document := &fleetv1.GlobalService{Spec: &fleetv1.GlobalServiceSpec{
		Template: &fleetv1.ServiceSpec{Sources: []*typev1.Source{{Repository: "a"}}, ConfigSets: []string{"s", "t"}},
		Overrides: []*fleetv1.ServiceOverride{{}, {Config: &fleetv1.ServiceConfig{
			Values: map[string]string{"V": "no reference"}, References: map[string]string{"Q": "vault://b", "P": "vault://a"},
		}}},
	}}
	var got []string
	for _, text := range permission.Texts(document.ProtoReflect()) {
		got = append(got, text.Path+"="+text.Value)
	}
	want := []string{
		"spec.template.sources[0].repository=a", "spec.template.config_sets[0]=s", "spec.template.config_sets[1]=t",
		"spec.overrides[1].config.references[P]=vault://a", "spec.overrides[1].config.references[Q]=vault://b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := permission.Texts((&fleetv1.GlobalService{}).ProtoReflect()); len(got) > 0 {
		t.Errorf("got %v of an empty document", got)
	}
}
