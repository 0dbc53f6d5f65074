// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
)

// TestSecScopesNameTheObjectsOfOneProject binds a person to objects of one project, beside which
// there are others of the same names.
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
		stored, err := fleetcalls.Get[*fleetv1.AccessBinding](t.Context(), c.admin, name)
		if diff := cmp.Diff(scope, stored.GetSpec(), protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%s: got another binding (%v; -want +got):\n%s", name, err, diff)
		}
	}
	ada := c.fleet(t, secret)
	for _, reference := range []string{"shop/app", "shop/web"} {
		if _, err := fleetcalls.Get[*fleetv1.Service](t.Context(), ada, reference); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
	_, err1 := fleetcalls.Get[*fleetv1.Cluster](t.Context(), ada, "shop/one")
	_, err2 := fleetcalls.Get[*fleetv1.Repository](t.Context(), ada, "shop/demo")
	if err1 != nil || err2 != nil {
		t.Error(err1, err2)
	}
	for _, name := range []string{"app", "web"} {
		_, err := fleetcalls.Get[*fleetv1.Service](t.Context(), ada, name)
		wantReason(t, err, "NOT_FOUND")
	}
	_, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), ada, "one")
	wantReason(t, err, "NOT_FOUND")
	_, err = fleetcalls.Get[*fleetv1.Repository](t.Context(), ada, "demo")
	wantReason(t, err, "NOT_FOUND")
	_, err = fleetcalls.Get[*fleetv1.Project](t.Context(), ada, "shop")
	wantReason(t, err, "NOT_FOUND")
}

// TestSecRolesInAProject has an editor of a project, and an editor of a cluster that it shares, try
// actions that are theirs, and others.
func TestSecRolesInAProject(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, projectDocuments("shop", "stall")...)
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), serviceDocument("app", "one", "demo", "a"),
		in("shop", serviceDocument("app", "default/one", "default/demo", "a")), in("shop", repositoryDocument("own")),
		in("shop", clusterDocument("own")), in("stall", repositoryDocument("secret")))
	ada, _ := c.join(t, "ada")
	eve, _ := c.join(t, "eve")
	c.bind(t, "shops", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
	})
	c.bind(t, "ones", &fleetv1.AccessBindingSpec{
		Users: []string{"eve"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Clusters: named("one"), Repositories: []string{"demo"},
	})
	lent := in("shop", serviceDocument("web", "default/one", "default/demo", "a"))
	for _, attempt := range []struct {
		what, token string
		document    *fleetv1.Document
		reason      string
	}{
		{"a service of what others lend", ada, lent, ""},
		{"a service of their own", ada, in("shop", serviceDocument("web", "own", "own", "a")), ""},
		{"a change of their service", ada, in("shop", serviceDocument("app", "default/one", "default/demo", "b")), ""},
		{"a repository", ada, in("shop", repositoryDocument("more")), ""},
		{"a repository elsewhere", ada, in("stall", repositoryDocument("more")), "ACCESS_DENIED"},
		{"a service elsewhere", ada, in("stall", serviceDocument("web", "default/one", "default/demo", "a")), "REFERENCE_NOT_FOUND"},
		{"what nobody lends", ada, in("shop", serviceDocument("web", "own", "stall/secret", "a")), "REFERENCE_NOT_FOUND"},
		{"a cluster as an editor", ada, in("shop", clusterDocument("more")), "ACCESS_DENIED"},
		{"the limits of the project", ada, projectDocument("shop", &fleetv1.ProjectSpec{Description: "mine"}), "ACCESS_DENIED"},
		{"a service of the cluster's project", eve, serviceDocument("web", "one", "demo", "a"), ""},
		{"a service of another project", eve, lent, "ACCESS_DENIED"},
		{"a change of one in their cluster", eve, in("shop", serviceDocument("app", "default/one", "default/demo", "b")), ""},
	} {
		_, err := c.fleet(t, attempt.token).Apply(t.Context(), &fleetv1.ApplyRequest{DryRun: true, Documents: []*fleetv1.Document{attempt.document}})
		switch {
		case attempt.reason == "" && err != nil:
			t.Errorf("%s: %v", attempt.what, err)
		case attempt.reason != "" && err == nil:
			t.Errorf("%s: it was allowed", attempt.what)
		case attempt.reason != "":
			wantReason(t, err, attempt.reason)
		}
	}
	services, err := fleetcalls.List[*fleetv1.Service](t.Context(), c.fleet(t, ada), &fleetv1.ListRequest{})
	if got := services.Objects; err != nil || len(got) != 1 || got[0].GetMetadata().GetProject() != "shop" {
		t.Errorf("got services %v, %v, want that of shop", got, err)
	}
	projects, err := fleetcalls.List[*fleetv1.Project](t.Context(), c.fleet(t, ada), &fleetv1.ListRequest{})
	if got := projects.Objects; err != nil || len(got) != 1 || got[0].GetMetadata().GetName() != "shop" {
		t.Errorf("got projects %v, %v, want shop", got, err)
	}
	stored, err := fleetcalls.Get[*fleetv1.AccessBinding](t.Context(), c.admin, "shops")
	if err != nil || !slices.Equal(stored.GetSpec().GetProjects().GetNames(), []string{"shop"}) || stored.GetStatus().GetClusters() != 1 {
		t.Errorf("got %v, %v, want a binding of one project, which covers one cluster", stored, err)
	}
}

// TestSecAddressesOfRepositories has people choose where gitcache calls: only people who may create
// repositories of the hub let it call private networks.
func TestSecAddressesOfRepositories(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, projectDocuments("shop")...)
	ada, _ := c.join(t, "ada")
	lea, _ := c.join(t, "lea")
	c.bind(t, "shops", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
	})
	c.bind(t, "leads", &fleetv1.AccessBindingSpec{Users: []string{"lea"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Hub: true})
	at := func(name string, change func(*fleetv1.RepositorySpec)) *fleetv1.Document {
		document := in("shop", repositoryDocument(name))
		change(document.GetRepository().Spec)
		return document
	}
	url := func(u string) func(*fleetv1.RepositorySpec) {
		return func(s *fleetv1.RepositorySpec) { s.Url = u }
	}
	const own, elsewhere = "https://git.example/own.git", "http://169.254.169.254/latest/meta-data"
	key := appKey(t)
	withApp := func(s *fleetv1.RepositorySpec) {
		s.Url, s.Credential = own, &gitcachev1.Credential{Method: &gitcachev1.Credential_GithubApp{GithubApp: &gitcachev1.GitHubAppCredential{
			AppId: 1, InstallationId: 1, PrivateKey: key, ApiUrl: "https://10.0.0.2/api/v3",
		}}}
	}
	version := int64(0)
	for _, step := range []struct {
		what, token, name string
		change            func(*fleetv1.RepositorySpec)
		confined          bool
	}{
		{"an editor of the project writes one", ada, "own", url(own), true},
		{"the same again", ada, "own", func(s *fleetv1.RepositorySpec) { s.Url, s.Suspended = own, true }, true},
		{"an administrator applies it", adminToken, "own", url(own), false},
		{"the editor changes what leads nowhere else", ada, "own", url("https://git.example/other.git"), false},
		{"the editor moves it", ada, "own", url(elsewhere), true},
		{"an administrator moves it", adminToken, "own", url(own), false},
		{"the editor adds a proxy", ada, "own", func(s *fleetv1.RepositorySpec) { s.Url, s.ProxyUrl = own, "http://10.0.0.1:3128" }, true},
		{"an administrator takes it away", adminToken, "own", url(own), false},
		{"the editor names another API of an app", ada, "own", withApp, true},
		{"an administrator names it", adminToken, "own", withApp, false},
		{"the editor takes the credential away", ada, "own", func(s *fleetv1.RepositorySpec) { s.Url, s.Credential = own, &gitcachev1.Credential{} }, false},
		{"an editor of the hub writes one", lea, "lead", url(own), false},
	} {
		res, err := c.fleet(t, step.token).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{at(step.name, step.change)}})
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		applied := res.GetOutcomes()[0].GetDocument().GetRepository().GetMetadata().GetResourceVersion()
		if step.name == "own" && applied == version {
			t.Errorf("%s: nothing changed", step.what)
		}
		version = applied
		await.True(t, step.what, func() bool { return c.git.definition("shop."+step.name).GetVersion() == applied })
		if got := c.git.definition("shop." + step.name).GetPublicOnly(); got != step.confined {
			t.Errorf("%s: got it confined to public addresses: %t, want %t", step.what, got, step.confined)
		}
	}
}

// appKey returns the private key of a GitHub App.
func appKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// TestSecProjectsGiveNothing has a person who may change all projects, and is an editor in one of
// them, try to reach with it others' objects.
func TestSecProjectsGiveNothing(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	limits := &fleetv1.ProjectLimits{Namespaces: &typev1.AllowList{Allow: []string{"shop"}}}
	c.apply(t, roleDocument("planner", []string{"*"}, []string{"projects"}),
		projectDocument("shop", &fleetv1.ProjectSpec{Limits: limits}), projectDocument("platform", nil), projectDocument("empty", &fleetv1.ProjectSpec{Limits: limits}),
		in("platform", clusterDocument("one")), in("platform", repositoryDocument("charts")), in("shop", repositoryDocument("own")))
	secret, _ := c.join(t, "ada")
	c.bind(t, "plans", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, RoleName: "planner", Hub: true})
	c.bind(t, "shops", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop", "empty"}},
	})
	ada := c.fleet(t, secret)
	share := func(share *fleetv1.ProjectShare) *fleetv1.ProjectSpec {
		share.Projects = &fleetv1.Selection{Names: []string{"shop"}}
		return &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{share}}
	}
	labelled := projectDocument("shop", &fleetv1.ProjectSpec{Limits: limits})
	labelled.GetProject().Metadata.Labels = map[string]string{"tier": "trusted"}
	for what, document := range map[string]*fleetv1.Document{
		"a foreign cluster":      projectDocument("platform", share(&fleetv1.ProjectShare{Clusters: &fleetv1.Selection{Names: []string{"one"}}})),
		"a foreign repository":   projectDocument("platform", share(&fleetv1.ProjectShare{Repositories: &fleetv1.Selection{All: true}})),
		"a namespace":            projectDocument("shop", &fleetv1.ProjectSpec{Limits: &fleetv1.ProjectLimits{Namespaces: &typev1.AllowList{Allow: []string{"shop", "kube-system"}}}}),
		"no limits":              projectDocument("shop", nil),
		"labels":                 labelled,
		"a share of a new one":   projectDocument("more", share(&fleetv1.ProjectShare{Clusters: &fleetv1.Selection{All: true}})),
		"a share of the default": projectDocument("default", share(&fleetv1.ProjectShare{Clusters: &fleetv1.Selection{All: true}})),
	} {
		_, err := ada.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		if err == nil {
			t.Errorf("%s: it was allowed", what)
			continue
		}
		wantReason(t, err, "ACCESS_DENIED")
	}
	if err := fleetcalls.Delete[*fleetv1.Project](t.Context(), ada, "empty"); err == nil {
		t.Error("a project was removed with its limits, and could be made again without")
	} else {
		wantReason(t, err, "ACCESS_DENIED")
	}
	for what, document := range map[string]*fleetv1.Document{
		"what they may use":   projectDocument("shop", &fleetv1.ProjectSpec{Limits: limits, Shares: []*fleetv1.ProjectShare{{Projects: &fleetv1.Selection{All: true}, Repositories: &fleetv1.Selection{Names: []string{"own"}}}}}),
		"a description":       projectDocument("platform", &fleetv1.ProjectSpec{Description: "clusters"}),
		"a new project":       projectDocument("new", nil),
		"limits for somebody": projectDocument("default", &fleetv1.ProjectSpec{Limits: limits}),
	} {
		if _, err := ada.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
