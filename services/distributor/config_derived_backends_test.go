// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
	"github.com/leatdev/leat/services/distributor"
)

// regionalGlobal refers to another path of the Vault in each region.
func regionalGlobal() *fleetv1.GlobalService {
	return &fleetv1.GlobalService{Metadata: &typev1.Metadata{Name: "web"}, Spec: &fleetv1.GlobalServiceSpec{
		Clusters: &fleetv1.ClusterTarget{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}},
		Template: &fleetv1.ServiceSpec{
			Sources: []*typev1.Source{{Repository: "demo", Path: "app"}},
			Config: &fleetv1.ServiceConfig{
				Values: map[string]string{"A": "a"}, References: map[string]string{"PASSWORD": "vault://shop/${cluster.labels.region}#password"},
			},
		},
	}}
}

// TestDerivedServicesObtainValuesOfBackEnds follows values of a Vault to the agents of derived services, at
// two replicas of the hub where the database allows it: waiting, read once for all services of a region,
// rotated, withdrawn, and through a restart while the Vault is sealed. A change reaches exactly the
// services that obtain something else.
func TestDerivedServicesObtainValuesOfBackEnds(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); testDerivedServicesObtainValuesOfBackEnds(t, false) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		database := postgrestest.New(t).Database(t)
		testDerivedServicesObtainValuesOfBackEnds(t, true, func(c *distributor.Config) { c.DatabaseURL = database })
	})
}

func testDerivedServicesObtainValuesOfBackEnds(t *testing.T, isShared bool, change ...func(*distributor.Config)) {
	log := &notes{}
	h := startHub(t, append(change, quickly, func(c *distributor.Config) {
		c.Telemetry.LogOutput, c.Telemetry.LogLevel = io.MultiWriter(log, t.Output()), "debug"
	})...)
	replicas := []*hub{h}
	if isShared {
		replicas = append(replicas, startReplica(t, h.git, append(change, quickly)...))
	}
	vault := vaultdouble.Start(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	regions := map[string]string{"a": "eu", "b": "eu", "c": "us"}
	documents := []*fleetv1.Document{vaultDocument(vault.URL, vault.Token(vaultToken)), repositoryDocument("demo"), fleetdoc.Of(regionalGlobal())}
	for name, region := range regions {
		documents = append(documents, labelledCluster(name, edge(region)))
	}
	h.apply(t, documents...)
	agents := map[string]*agentKey{}
	for name := range regions {
		agents[name] = h.enrol(t, name)
	}
	waits := func(name string) {
		t.Helper()
		h.waitService(t, "web@"+name, func(s *fleetv1.Service) bool {
			return troubleOf(s) == errorsv1.Reason_REASON_CONFIG_MISSING && strings.Contains(s.GetStatus().GetProblem().GetMessage(), "no such entry")
		})
		if entry := entryOf(planOf(t, h, agents[name], ""), "web"); entry == nil || len(entry.GetBundles()) != 0 {
			t.Errorf("got %v for the agent of %s, want a service that is withheld", entry, name)
		}
	}
	for name := range regions {
		waits(name)
	}
	if x := h.explained(t, "web@a")["PASSWORD"]; x.GetState() != fleetv1.ConfigState_CONFIG_STATE_MISSING || x.GetLayer() != "global" || x.GetResolvedReference() != "vault://shop/eu#password" {
		t.Errorf("got %v of a value that is missing", x)
	}

	last := map[string]string{}
	check := func(when string, passwords map[string]string, changed ...string) {
		t.Helper()
		for _, replica := range replicas {
			for name, password := range passwords {
				digest := ""
				await.True(t, when+": the service of "+name, func() bool {
					entry := entryOf(planOf(t, replica, agents[name], ""), "web")
					digest = entry.GetConfigDigest()
					return len(entry.GetBundles()) == 1 && (digest != last[name]) == slices.Contains(changed, name)
				})
				got, err := replica.config(t, agents[name].token, "web", digest)
				if err != nil || got.GetConfigDigest() != digest || string(got.GetSecrets()["PASSWORD"]) != password || got.GetValues()["A"] != "a" || len(got.GetSecrets()) != 1 {
					t.Errorf("%s: %s got %d secrets with digest %s and %v, want %s", when, name, len(got.GetSecrets()), got.GetConfigDigest(), err, digest)
				}
			}
		}
		for name := range passwords {
			last[name] = entryOf(planOf(t, h, agents[name], ""), "web").GetConfigDigest()
		}
	}
	put := func(region, password string) {
		vault.Put("secret", "shop/"+region, map[string]string{"password": hunter2 + password})
		before := vault.Reads("secret", "shop/"+region)
		h.refreshBackend(t, "shop/"+region)
		await.True(t, "the read", func() bool { return vault.Reads("secret", "shop/"+region) > before })
	}
	put("eu", "-1")
	check("the first value", map[string]string{"a": hunter2 + "-1", "b": hunter2 + "-1"}, "a", "b")
	waits("c")
	put("us", "-us")
	check("the other region", map[string]string{"a": hunter2 + "-1", "b": hunter2 + "-1", "c": hunter2 + "-us"}, "c")
	put("eu", "-2")
	check("a rotation", map[string]string{"a": hunter2 + "-2", "b": hunter2 + "-2", "c": hunter2 + "-us"}, "a", "b")
	if x := h.explained(t, "web@a")["PASSWORD"]; x.GetState() != fleetv1.ConfigState_CONFIG_STATE_CURRENT || x.GetVersion() != "2" || !x.GetSecret() {
		t.Errorf("got %v of a value that was read", x)
	}
	h.apply(t, labelledCluster("b", edge("us")))
	check("another label", map[string]string{"a": hunter2 + "-2", "b": hunter2 + "-us", "c": hunter2 + "-us"}, "b")

	vault.Remove("secret", "shop/eu")
	h.refreshBackend(t, "shop/eu")
	h.waitService(t, "web@a", func(s *fleetv1.Service) bool {
		return troubleOf(s) == errorsv1.Reason_REASON_CONFIG_MISSING && strings.Contains(s.GetStatus().GetProblem().GetMessage(), "stays in use")
	})
	check("a value that was withdrawn", map[string]string{"a": hunter2 + "-2", "b": hunter2 + "-us", "c": hunter2 + "-us"})

	// Another reference of the document changes nothing of what the service has by the first.
	next := regionalGlobal()
	next.Spec.Template.Config.References["COPY"] = "vault://shop/us#none?"
	h.apply(t, fleetdoc.Of(next))
	check("another reference", map[string]string{"a": hunter2 + "-2", "b": hunter2 + "-us", "c": hunter2 + "-us"})

	err := h.deleteBackend(t)
	wantReason(t, err, "IN_USE")
	if !strings.Contains(err.Error(), "web") {
		t.Errorf("got %v, want it to name the global service", err)
	}
	backend, err := fleetcalls.Get[*fleetv1.ConfigBackend](t.Context(), h.fleet(t, adminToken), "vault")
	if err != nil || backend.GetStatus().GetEntries() != 2 {
		t.Errorf("got %v, %v, want a state of two entries", backend, err)
	}
	delivered, err := h.fleet(t, adminToken).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "web@a"})
	if err != nil || delivered.GetConfig().GetReferences()["PASSWORD"] != "vault://shop/eu#password" || strings.Contains(delivered.String(), hunter2) {
		t.Errorf("got %v, %v, want the reference and no value", delivered.GetConfig(), err)
	}

	h.stop(t)
	vault.Seal(true)
	h.start(t)
	for _, agent := range agents {
		agent.renew(t, h)
	}
	check("a restart", map[string]string{"a": hunter2 + "-2", "b": hunter2 + "-us", "c": hunter2 + "-us"})
	if strings.Contains(log.String(), hunter2) {
		t.Error("a secret is in the log")
	}
}

func (h *hub) deleteBackend(t *testing.T) error {
	t.Helper()
	err := fleetcalls.Delete[*fleetv1.ConfigBackend](t.Context(), h.fleet(t, adminToken), "vault")
	return err
}

// TestSecGlobalServicesStayWithinBackEnds has a person who may write global services and services, and may
// not use back ends, refer to one; and an administrator one that is closed to the project, and one by a
// label of a cluster.
func TestSecGlobalServicesStayWithinBackEnds(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	closed := vaultDocument("https://vault.example", vaultToken)
	closed.GetConfigBackend().Metadata.Name = "closed"
	closed.GetConfigBackend().Spec.Projects = []string{"other"}
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), vaultDocument("https://vault.example", vaultToken), closed,
		roleDocument("writer", []string{"get", "list", "create", "update", "delete"}, []string{"services", "globalservices", "clusters", "repositories"}),
		roleDocument("reader", []string{"use"}, []string{"repositories"}))
	token, _ := c.join(t, "mallory")
	for _, role := range []string{"writer", "reader"} {
		c.bind(t, role, &fleetv1.AccessBindingSpec{RoleName: role, Users: []string{"mallory"}, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}}})
	}
	referring := func(text string) []*fleetv1.Document {
		config := &fleetv1.ServiceConfig{References: map[string]string{"P": text}}
		template, override := globalDocument("web", "one"), globalDocument("web", "one")
		template.GetGlobalService().Spec.Template.Config = config
		override.GetGlobalService().Spec.Overrides = []*fleetv1.ServiceOverride{{Name: "all", Clusters: &fleetv1.ClusterTarget{All: true}, Config: config}}
		return []*fleetv1.Document{template, override}
	}
	attempt := func(token, text, want string) {
		t.Helper()
		for _, document := range referring(text) {
			_, err := c.fleet(t, token).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{proto.CloneOf(document)}})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want that it is refused with %q", text, err, want)
			}
		}
	}
	attempt(token, "vault://shop/db#password", "use configbackends")
	attempt(token, "vault://shop/${cluster.labels.region}#password", "use configbackends")
	attempt(adminToken, "vault://admin/root#password", "spec.")
	attempt(adminToken, "${cluster.labels.region}://shop/db#password", "references[P]")
	attempt(adminToken, "closed://shop/db#password", "does not exist")
	attempt(adminToken, "closed://shop/${cluster.name}#password", "does not exist")
}
