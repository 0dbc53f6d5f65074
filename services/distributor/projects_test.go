// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
)

// in puts a document into a project.
func in(project string, document *fleetv1.Document) *fleetv1.Document {
	object := fleetdoc.Object(document)
	metadata, _ := object.Get(object.Descriptor().Fields().ByName("metadata")).Message().Interface().(*typev1.Metadata)
	metadata.Project = project
	return document
}

// projectDocuments are projects of those names, to which the project default lends everything.
func projectDocuments(names ...string) []*fleetv1.Document {
	documents := []*fleetv1.Document{projectDocument("default", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
		Projects: &fleetv1.Selection{Names: names}, Repositories: &fleetv1.Selection{All: true}, Clusters: &fleetv1.Selection{All: true},
	}}})}
	for _, name := range names {
		documents = append(documents, projectDocument(name, nil))
	}
	return documents
}

func projectDocument(name string, spec *fleetv1.ProjectSpec) *fleetv1.Document {
	return &fleetv1.Document{Object: &fleetv1.Document_Project{Project: &fleetv1.Project{Metadata: &typev1.Metadata{Name: name}, Spec: spec}}}
}

// TestEqualNamesInProjects: objects of equal names in two projects are different ones, wherever they
// are named: in calls, in listings, in a plan, and in gitcache.
func TestEqualNamesInProjects(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.git.set("shop.demo", "app", newFolder(t, "c2", "two"))
	h.apply(t, projectDocuments("shop")...)
	h.apply(t,
		in("shop", clusterDocument("one")), in("shop", repositoryDocument("demo")),
		in("shop", serviceDocument("app", "default/one", "demo", "app")), in("shop", serviceDocument("web", "one", "shop/demo", "app")),
	)
	admin, ctx := h.fleet(t, adminToken), t.Context()

	for reference, want := range map[string][3]string{
		"app": {"", "one", "demo"}, "default/app": {"", "one", "demo"}, "shop/app": {"shop", "default/one", "demo"}, "shop/web": {"shop", "one", "demo"},
	} {
		res, err := fleetcalls.Get[*fleetv1.Service](ctx, admin, reference)
		if err != nil {
			t.Fatalf("%s: %v", reference, err)
		}
		s := res
		got := [3]string{s.GetMetadata().GetProject(), s.GetSpec().GetCluster(), s.GetSpec().GetSources()[0].GetRepository()}
		if got != want || s.GetMetadata().GetName() != reference[strings.LastIndexByte(reference, '/')+1:] {
			t.Errorf("%s: got %q, %v; want %v", reference, s.GetMetadata().GetName(), got, want)
		}
	}

	plan := h.watchPlan(t, h.enrol(t, "one").token, "").next(t)
	var names []string
	for _, s := range plan.GetServices() {
		names = append(names, s.GetName())
	}
	if !slices.Equal(names, []string{"app", "shop.app"}) {
		t.Errorf("plan of the default project's cluster: got %q", names)
	}
	for _, name := range []string{"demo", "shop.demo"} {
		if h.git.definition(name) == nil {
			t.Errorf("gitcache was not given the repository %s", name)
		}
	}

	for project, want := range map[string]string{"": "app shop/app shop/web", "default": "app", "shop": "shop/app shop/web", "empty": ""} {
		var all []string
		for page := (&typev1.Page{Size: 1}); ; {
			res, err := fleetcalls.List[*fleetv1.Service](ctx, admin, &fleetv1.ListRequest{Project: project, Page: page})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range res.Objects {
				all = append(all, objectname.Display(objectname.Join(s.GetMetadata().GetProject(), s.GetMetadata().GetName())))
			}
			if page.Token = res.NextPageToken; page.GetToken() == "" {
				break
			}
		}
		if got := strings.Join(all, " "); got != want {
			t.Errorf("services of project %q: got %q, want %q", project, got, want)
		}
	}
	onOne, err := fleetcalls.List[*fleetv1.Service](ctx, admin, &fleetv1.ListRequest{Cluster: "shop/one"})
	if err != nil || len(onOne.Objects) != 1 || onOne.Objects[0].GetMetadata().GetName() != "web" {
		t.Errorf("services of shop/one: got %v, %v", onOne, err)
	}

	err = fleetcalls.Delete[*fleetv1.Cluster](ctx, admin, "one")
	wantReason(t, err, "IN_USE")
	if !strings.Contains(fmt.Sprint(err), "app@one, shop/app@default/one") {
		t.Errorf("got %v, want both services named", err)
	}
	if err := fleetcalls.Delete[*fleetv1.Service](ctx, admin, "shop/app"); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetcalls.Get[*fleetv1.Service](ctx, admin, "app"); err != nil {
		t.Errorf("the default project's service is gone with the other: %v", err)
	}
}

// TestSecNamesDoNotLeaveTheirProject: no name and no reference is read as one of another project
// than the document's, unless it names that.
func TestSecNamesDoNotLeaveTheirProject(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, projectDocuments("shop", "evil")...)
	h.apply(t, in("shop", clusterDocument("one")), in("shop", repositoryDocument("demo")), in("evil", clusterDocument("own")))
	admin, ctx := h.fleet(t, adminToken), t.Context()
	service := in("evil", serviceDocument("app", "own", "demo", "app"))
	changed := func(change func(*fleetv1.Service)) *fleetv1.Document {
		document := proto.CloneOf(service)
		change(document.GetService())
		return document
	}
	for name, document := range map[string]*fleetv1.Document{
		"FIELD_INVALID name":       in("evil", clusterDocument("shop.one")),
		"FIELD_INVALID slash":      in("evil", clusterDocument("shop/one")),
		"FIELD_INVALID bare":       clusterDocument("shop.one"),
		"FIELD_INVALID project":    in("shop.x", clusterDocument("one")),
		"FIELD_INVALID upper":      in("Shop", clusterDocument("one")),
		"FIELD_INVALID binding":    in("evil", bindingDocument("b", "ada", "one")),
		"FIELD_INVALID cluster":    changed(func(s *fleetv1.Service) { s.Spec.Cluster = "shop.one" }),
		"FIELD_INVALID source":     changed(func(s *fleetv1.Service) { s.Spec.Sources[0].Repository = "shop.demo" }),
		"FIELD_INVALID deeper":     changed(func(s *fleetv1.Service) { s.Spec.Cluster = "evil/shop/one" }),
		"REFERENCE_NOT_FOUND demo": changed(func(*fleetv1.Service) {}),
		"REFERENCE_NOT_FOUND one":  changed(func(s *fleetv1.Service) { s.Spec.Cluster = "one" }),
		"FIELD_INVALID dependency": changed(func(s *fleetv1.Service) {
			s.Spec.Policy = &typev1.SyncPolicy{DependsOn: []*typev1.Dependency{{Service: "shop.db"}}}
		}),
	} {
		_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		t.Log(name, err)
		wantReason(t, err, strings.Fields(name)[0])
	}
	for _, reference := range []string{"shop.one", "evil/shop.one", "shop/one/x", "/one", "shop/"} {
		_, err := fleetcalls.Get[*fleetv1.Cluster](ctx, admin, reference)
		wantReason(t, err, "FIELD_INVALID")
		_, err = admin.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: reference})
		wantReason(t, err, "FIELD_INVALID")
		_, err = fleetcalls.List[*fleetv1.Service](ctx, admin, &fleetv1.ListRequest{Cluster: reference})
		wantReason(t, err, "FIELD_INVALID")
	}
}

// TestSecProjectsShareNothingUnasked: services of a project use what other projects share with it by name
// or label, and an answer does not disclose whether anything else exists.
func TestSecProjectsShareNothingUnasked(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	labelled := in("owner", clusterDocument("prod"))
	labelled.GetCluster().Metadata.Labels = map[string]string{"stage": "prod"}
	h.apply(t,
		projectDocument("owner", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{
			{
				Projects:     &fleetv1.Selection{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
				Repositories: &fleetv1.Selection{Names: []string{"open"}},
				Clusters:     &fleetv1.Selection{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}},
			},
			{Projects: &fleetv1.Selection{Names: []string{"named"}}, Repositories: &fleetv1.Selection{All: true}},
		}}),
		projectDocument("named", nil), labelledProject("team", "a"), labelledProject("other", "b"),
		labelled, in("owner", clusterDocument("test")), in("owner", repositoryDocument("open")), in("owner", repositoryDocument("closed")),
		in("team", clusterDocument("own")), in("team", repositoryDocument("own")),
		in("named", clusterDocument("own")), in("other", clusterDocument("own")), in("other", repositoryDocument("own")),
	)
	admin, ctx := h.fleet(t, adminToken), t.Context()
	try := func(project, cluster, repository string) error {
		_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{
			DryRun: true, Documents: []*fleetv1.Document{in(project, serviceDocument("app", cluster, repository, "app"))},
		})
		return err
	}
	for _, test := range []struct {
		project, cluster, repository string
		allowed                      bool
	}{
		{"team", "owner/prod", "owner/open", true},
		{"team", "own", "own", true},
		{"team", "owner/test", "own", false},
		{"team", "own", "owner/closed", false},
		{"team", "own", "owner/absent", false},
		{"named", "own", "owner/closed", true},
		{"named", "owner/prod", "owner/closed", false},
		{"other", "own", "owner/open", false},
		{"other", "owner/prod", "own", false},
		{"other", "nobody/prod", "own", false},
		{"owner", "team/own", "open", false},
	} {
		err := try(test.project, test.cluster, test.repository)
		if test.allowed {
			if err != nil {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		wantReason(t, err, "REFERENCE_NOT_FOUND")
	}
	hidden, absent := fmt.Sprint(try("team", "own", "owner/closed")), fmt.Sprint(try("team", "own", "owner/absent"))
	if strings.ReplaceAll(hidden, "closed", "absent") != absent {
		t.Errorf("the answers disclose what is there:\n%s\n%s", hidden, absent)
	}

	charts := in("other", repositoryDocument("charts"))
	charts.GetRepository().Spec.ChartRepositories = []string{"owner/open"}
	_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{charts}})
	wantReason(t, err, "REFERENCE_NOT_FOUND")
}

func labelledProject(name, team string) *fleetv1.Document {
	document := projectDocument(name, nil)
	document.GetProject().Metadata.Labels = map[string]string{"team": team}
	return document
}

// TestSecProjectLimits: the hub refuses a service and a repository beyond the limits of their project,
// with the field and the rule, and tells agents what they have to check.
func TestSecProjectLimits(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	allow := func(patterns ...string) *typev1.AllowList { return &typev1.AllowList{Allow: patterns} }
	limits := &fleetv1.ProjectLimits{
		Repositories: allow("https://git.example/**"), Clusters: allow("own", "default/*"), Namespaces: allow("shop", "shop-*"),
		ClusterScopedKinds: allow(), ServiceAccounts: allow("shop/deployer"),
	}
	h.git.set("shop.demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, projectDocuments("shop")...)
	h.apply(t,
		projectDocument("shop", &fleetv1.ProjectSpec{Limits: limits, Quotas: &fleetv1.ProjectQuotas{Services: new(int32(2)), Repositories: new(int32(1))}}),
		in("shop", repositoryDocument("demo")), in("shop", clusterDocument("own")), in("shop", clusterDocument("second")), clusterDocument("one"),
	)
	admin, ctx := h.fleet(t, adminToken), t.Context()
	good := in("shop", serviceDocument("app", "own", "demo", "app"))
	good.GetService().Spec.Namespace = "shop"
	good.GetService().Spec.Policy = &typev1.SyncPolicy{ServiceAccount: "deployer"}
	h.apply(t, good)
	changed := func(change func(*fleetv1.ServiceSpec)) *fleetv1.Document {
		document := proto.CloneOf(good)
		document.GetService().Metadata.Name = "bad"
		change(document.GetService().GetSpec())
		return document
	}
	evil := in("shop", repositoryDocument("evil"))
	for field, document := range map[string]*fleetv1.Document{
		"spec.cluster":                changed(func(s *fleetv1.ServiceSpec) { s.Cluster = "second" }),
		"spec.namespace":              changed(func(s *fleetv1.ServiceSpec) { s.Namespace = "kube-system" }),
		"spec.policy.service_account": changed(func(s *fleetv1.ServiceSpec) { s.Policy = nil }),
		"spec.policy.limits":          changed(func(s *fleetv1.ServiceSpec) { s.Policy.Limits = &typev1.ServiceLimits{} }),
		"spec.policy.depends_on[0].object.namespace": changed(func(s *fleetv1.ServiceSpec) {
			s.Policy.DependsOn = []*typev1.Dependency{{Object: &typev1.DependencyObject{ApiVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: "db"}}}
		}),
		"spec.policy.depends_on[0].object.kind": changed(func(s *fleetv1.ServiceSpec) {
			s.Policy.DependsOn = []*typev1.Dependency{{Object: &typev1.DependencyObject{ApiVersion: "v1", Kind: "Node", Name: "a"}}}
		}),
		"metadata.project": evil,
	} {
		_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		wantReason(t, err, "FIELD_INVALID")
		if !strings.Contains(fmt.Sprint(err), field) {
			t.Errorf("got %v, want the field %s", err, field)
		}
	}
	_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{changed(func(s *fleetv1.ServiceSpec) { s.Policy.ServiceAccount = "kube-system/root" })}})
	wantReason(t, err, "FIELD_INVALID")
	for _, url := range []string{
		"https://git.example.evil.test/x", "https://git.example/../x", "https://git.example/%2e%2e/x", "https://evil.test/git.example/x", "git@git.example:x",
	} {
		moved := in("shop", repositoryDocument("demo"))
		moved.GetRepository().Spec.Url = url
		_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{moved}})
		wantReason(t, err, "FIELD_INVALID")
	}
	second := proto.CloneOf(good)
	second.GetService().Metadata.Name = "second"
	third := proto.CloneOf(good)
	third.GetService().Metadata.Name = "third"
	_, err = admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{second, third}})
	wantReason(t, err, "FIELD_INVALID")
	h.apply(t, second)

	agent := h.enrolPath(t, "shop/own", "shop.own")
	want := &typev1.ServiceLimits{Namespaces: limits.GetNamespaces(), ClusterScopedKinds: limits.GetClusterScopedKinds(), ServiceAccounts: limits.GetServiceAccounts()}
	stream := h.watchPlan(t, agent.token, "")
	before := stream.next(t)
	for _, s := range before.GetServices() {
		if got := s.GetApply().GetPolicy().GetLimits(); !proto.Equal(got, want) {
			t.Errorf("plan: %s has limits %v, want %v", s.GetName(), got, want)
		}
	}
	// A change of the project alone is a new spec for its services.
	limits.Namespaces = allow("blog")
	h.apply(t, projectDocument("shop", &fleetv1.ProjectSpec{Limits: limits}))
	for {
		after := stream.next(t).GetServices()
		if got := after[0].GetApply().GetPolicy().GetLimits().GetNamespaces().GetAllow(); !slices.Equal(got, []string{"blog"}) {
			continue // a plan of before, with the content of the sources
		}
		for i, s := range after {
			if s.GetSpecDigest() == before.GetServices()[i].GetSpecDigest() {
				t.Errorf("%s has the same digest with other limits", s.GetName())
			}
		}
		return
	}
}

// TestProjectsAreObjects: projects are applied, listed, counted and deleted when they are empty.
func TestProjectsAreObjects(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	admin, ctx := h.fleet(t, adminToken), t.Context()
	names := func() string {
		res, err := fleetcalls.List[*fleetv1.Project](ctx, admin, &fleetv1.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, p := range res.Objects {
			s := p.GetStatus()
			all = append(all, fmt.Sprintf("%s:%d,%d,%d", p.GetMetadata().GetName(), s.GetClusters(), s.GetRepositories(), s.GetServices()))
		}
		return strings.Join(all, " ")
	}
	if got := names(); got != "default:0,0,0" {
		t.Errorf("a new hub: got %q", got)
	}
	_, err := fleetcalls.Create(ctx, admin, in("shop", clusterDocument("one")).GetCluster())
	wantReason(t, err, "REFERENCE_NOT_FOUND")
	// In one call, in any order.
	h.apply(t, in("shop", serviceDocument("app", "one", "demo", "app")), in("shop", clusterDocument("one")), in("shop", repositoryDocument("demo")), projectDocument("shop", nil))
	if got := names(); got != "default:0,0,0 shop:1,1,1" {
		t.Errorf("after an apply: got %q", got)
	}
	err = fleetcalls.Delete[*fleetv1.Project](ctx, admin, "shop")
	wantReason(t, err, "IN_USE")
	if !strings.Contains(fmt.Sprint(err), "cluster/one, repository/demo, service/app") {
		t.Errorf("got %v, want what it holds", err)
	}
	err = fleetcalls.Delete[*fleetv1.Project](ctx, admin, "default")
	wantReason(t, err, "FIELD_INVALID")
	for _, call := range []func() error{
		func() error {
			err := fleetcalls.Delete[*fleetv1.Service](ctx, admin, "shop/app")
			return err
		},
		func() error {
			err := fleetcalls.Delete[*fleetv1.Cluster](ctx, admin, "shop/one")
			return err
		},
		func() error {
			err := fleetcalls.Delete[*fleetv1.Repository](ctx, admin, "shop/demo")
			return err
		},
		func() error {
			err := fleetcalls.Delete[*fleetv1.Project](ctx, admin, "shop")
			return err
		},
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); got != "default:0,0,0" {
		t.Errorf("in the end: got %q", got)
	}
	// The project default is edited like any other, and stays.
	got := h.apply(t, projectDocument("default", &fleetv1.ProjectSpec{Description: "what was there first"})).GetOutcomes()[0]
	if got.GetAction() != fleetv1.ApplyAction_APPLY_ACTION_CONFIGURED || got.GetDocument().GetProject().GetSpec().GetDescription() == "" {
		t.Errorf("got %v", got)
	}
}

// TestExampleOfProjects applies the documents that docs/guides/projects.md shows.
func TestExampleOfProjects(t *testing.T) {
	t.Parallel()
	const path = "../../examples/projects/fleet.yaml"
	page, err := os.ReadFile("../../docs/guides/projects.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(example)+"```") {
		t.Error("docs/guides/projects.md does not show the example")
	}
	h := startHub(t)
	documents := exampleDocuments(t, path)
	h.apply(t, documents...)
	res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "shop/web")
	if err != nil || res.GetSpec().GetCluster() != "platform/berlin" {
		t.Errorf("got %v, %v", res, err)
	}
	for _, outcome := range h.apply(t, documents...).GetOutcomes() {
		if outcome.GetAction() != fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
			t.Errorf("applied again: got %v", outcome)
		}
	}
}
