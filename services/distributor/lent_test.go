// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
)

const (
	teamKey   = "example.com/team"
	closedKey = "example.com/closed"
	closed    = "value-of-the-owner-alone"
)

// lending is the project default, which lends the cluster one to shop with these annotations.
func lending(keys ...string) *fleetv1.Document {
	return projectDocument("default", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
		Projects: &fleetv1.Selection{Names: []string{"shop"}}, Clusters: &fleetv1.Selection{Names: []string{"one"}}, ClusterAnnotations: keys,
	}}})
}

// TestSecLentClustersKeepTheirAnnotations reads annotations of a cluster by each way that services have,
// in a project that the cluster is lent to: without a list in the share, with one, and after it was
// taken back.
func TestSecLentClustersKeepTheirAnnotations(t *testing.T) {
	t.Parallel()
	h := startHub(t, quickly)
	c := &crowd{hub: h, admin: h.fleet(t, adminToken)}
	vault := vaultdouble.Start(t)
	back := vaultDocument(vault.URL, vault.Token(vaultToken))
	back.GetConfigBackend().Spec.Projects = []string{"shop"}
	one := labelledCluster("one", map[string]string{"region": "eu"})
	one.GetCluster().Metadata.Annotations = map[string]string{teamKey: "blue", closedKey: closed}
	c.git.set("demo", "app", newFolder(t, "c1", "one"))
	c.apply(t, back, one, repositoryDocument("demo"), projectDocument("shop", nil), in("shop", repositoryDocument("demo")), lending())
	ada, _ := c.join(t, "ada")
	c.bind(t, "adas", &fleetv1.AccessBindingSpec{
		Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
	})
	agent := c.enrol(t, "one")
	apply := func(document *fleetv1.Document) (string, error) {
		res, err := c.fleet(t, ada).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		return protojson.Format(res), err
	}
	must := func(document *fleetv1.Document) {
		t.Helper()
		if _, err := apply(document); err != nil {
			t.Fatal(err)
		}
	}
	global := func(name, key string) *fleetv1.Document {
		document := in("shop", globalDocument(name, "default/one"))
		document.GetGlobalService().Spec.Template.Config = &fleetv1.ServiceConfig{
			Values: map[string]string{"REGION": "${{ self.labels.region }}", "READ": fmt.Sprintf("${{ self.annotations[%q] }}", key)},
		}
		return document
	}
	referring := func(key string) *fleetv1.Document {
		document := in("shop", referringDocument("refers", map[string]string{"READ": "vault://shop/${cluster.annotations." + key + "}#value"}))
		document.GetService().Spec.Cluster = "default/one"
		return document
	}
	// see returns what the services know: keys that the agent gives the templates of one, the annotations
	// that its plan shows to ada, and whether the agent holds the service to a list.
	see := func(name, asks string) (toTemplates, shown []string, isListed bool) {
		t.Helper()
		list := entryOf(planOf(t, c.hub, agent, ""), name).GetApply().GetPolicy().GetLimits().GetClusterAnnotations()
		facts, err := c.fleet(t, asks).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: strings.ReplaceAll(name, ".", "/") + "@default/one"})
		if err != nil {
			t.Fatal(err)
		}
		if got := facts.GetFacts().GetLabels()["region"]; got != "eu" {
			t.Errorf("got the region %q, want the label of a cluster that is lent", got)
		}
		return list.GetAllow(), slices.Sorted(maps.Keys(facts.GetFacts().GetAnnotations())), list != nil
	}
	must(in("shop", serviceDocument("app", "default/one", "demo", "app")))
	c.apply(t, serviceDocument("mine", "one", "demo", "app"))
	if _, _, isListed := see("mine", adminToken); isListed {
		t.Error("a service of the cluster's own project is held to a list")
	}

	// Without a list the project knows labels alone.
	for _, key := range []string{teamKey, closedKey} {
		if _, err := apply(referring(key)); err == nil {
			t.Errorf("a reference with %s was accepted", key)
		} else {
			wantReason(t, err, "FIELD_INVALID")
		}
	}
	must(global("web", teamKey))
	if member := c.members(t, "shop/web")["default/one"]; len(member.GetService().GetSpec().GetSources()) > 0 || member.GetProblem() == nil {
		t.Errorf("got %v, want nothing derived, and why", member)
	}
	if list, shown, isListed := see("shop.app", ada); !isListed || len(list) > 0 || len(shown) > 0 {
		t.Errorf("got the list %q of the agent and %q shown, want an empty list and nothing", list, shown)
	}

	// With a list it knows the listed ones.
	c.apply(t, lending("example.com/t*"))
	if list, shown, _ := see("shop.app", ada); !slices.Equal(list, []string{teamKey}) || !slices.Equal(shown, []string{teamKey}) {
		t.Errorf("got the list %q of the agent and %q shown, want the team", list, shown)
	}
	web := c.members(t, "shop/web")["default/one"]
	if got := web.GetService().GetSpec().GetConfig().GetValues()["READ"]; got != "blue" {
		t.Errorf("got %q, want the listed annotation", got)
	}
	must(referring(teamKey))
	if _, err := apply(referring(closedKey)); err == nil {
		t.Error("a reference with an annotation that is not listed was accepted")
	}
	must(global("closed", closedKey))
	if member := c.members(t, "shop/closed")["default/one"]; len(member.GetService().GetSpec().GetSources()) > 0 || strings.Contains(protojson.Format(member), closed) {
		t.Errorf("got %v of an annotation that is not listed", member)
	}

	// Values that are no longer listed stay with services that have them, and these report why they do
	// not follow.
	c.apply(t, lending())
	web = c.members(t, "shop/web")["default/one"]
	if web.GetProblem() == nil || web.GetService().GetSpec().GetConfig().GetValues()["READ"] != "blue" {
		t.Errorf("got %v, want the service as it was", web)
	}
	if list, shown, isListed := see("shop.app", ada); !isListed || len(list) > 0 || len(shown) > 0 {
		t.Errorf("got the list %q of the agent and %q shown, want nothing again", list, shown)
	}

	// A person who lists an annotation needs the role admin for the cluster, as to lend it.
	c.apply(t, roleDocument("planner", []string{"*"}, []string{"projects"}))
	c.bind(t, "plans", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, RoleName: "planner", Hub: true})
	_, err := apply(lending(closedKey))
	wantReason(t, err, "ACCESS_DENIED")
	if _, err := apply(lending()); err != nil {
		t.Errorf("got %v for a share that stays as it is", err)
	}
}

// TestSecNarrowerShareIsGuarded has the owner of lent clusters list fewer annotations, which a condition of another
// project reads. It takes no more services away than the global service allows.
func TestSecNarrowerShareIsGuarded(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	share := func(keys ...string) *fleetv1.Document {
		return projectDocument("default", &fleetv1.ProjectSpec{Shares: []*fleetv1.ProjectShare{{
			Projects: &fleetv1.Selection{Names: []string{"shop"}}, Clusters: &fleetv1.Selection{All: true}, ClusterAnnotations: keys,
		}}})
	}
	clusters := []string{"one", "two", "three"}
	for _, name := range clusters {
		document := clusterDocument(name)
		document.GetCluster().Metadata.Annotations = map[string]string{teamKey: "blue", closedKey: closed}
		h.apply(t, document)
	}
	h.git.set("demo", "app", newFolder(t, "c1", "first"))
	h.apply(t, projectDocument("shop", nil), in("shop", repositoryDocument("demo")), share("**"))
	global := in("shop", globalDocument("web"))
	global.GetGlobalService().Spec.Clusters = &fleetv1.ClusterTarget{
		Names: []string{"default/one", "default/two", "default/three"}, When: fmt.Sprintf(`%q in self.annotations && self.annotations[%[1]q] == "blue"`, teamKey),
	}
	h.apply(t, global)
	if got := len(h.members(t, "shop/web")); got != 3 {
		t.Fatalf("got %d members, want 3", got)
	}
	for name, keys := range map[string][]string{"another key": {closedKey}, "no key that there is": {"example.com/none"}} {
		for _, isDry := range []bool{true, false} {
			_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{share(keys...)}, DryRun: isDry})
			wantReason(t, err, "REMOVAL_GUARDED")
			if err != nil && !strings.Contains(err.Error(), "from 3 of 3 clusters") {
				t.Errorf("%s: got %v, want it to count the clusters", name, err)
			}
		}
	}
	h.apply(t, share(teamKey)) // the condition still holds
	h.apply(t, share("**"))
	global.GetGlobalService().Spec.Removal = &fleetv1.RemovalPolicy{MaxPercent: new(int32(100))}
	h.apply(t, global, share("example.com/none"))
	if got := len(h.members(t, "shop/web")); got != 0 {
		t.Errorf("got %d members after a removal that is allowed, want none", got)
	}
}
