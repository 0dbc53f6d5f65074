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
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
	"github.com/leatdev/leat/services/distributor"
)

// stagedConfig is the configuration of the service app of three clusters: a set, the document,
// which is a service's or a template's, and a layer above it, which is another set or an override.
type stagedConfig struct {
	isDerived bool
	set       *fleetv1.ServiceConfig
	own       *fleetv1.ServiceConfig
	above     map[string]string
}

var stagedClusters = []string{"one", "two", "three"}

func newStagedConfig(isDerived bool) *stagedConfig {
	return &stagedConfig{
		isDerived: isDerived,
		set:       &fleetv1.ServiceConfig{Values: map[string]string{"SET": "1"}, Secrets: map[string]string{"SECRET": hunter2 + "-1"}},
		own:       &fleetv1.ServiceConfig{Values: map[string]string{"OWN": "1"}, References: map[string]string{"DB": "vault://shop/db#password"}},
		above:     map[string]string{"ABOVE": "1"},
	}
}

func (c *stagedConfig) documents() []*fleetv1.Document {
	documents := []*fleetv1.Document{setDocument("base", c.set)}
	if c.isDerived {
		global := globalDocument("app", stagedClusters...)
		spec := global.GetGlobalService().GetSpec()
		spec.Template.ConfigSets, spec.Template.Config = []string{"base"}, c.own
		spec.Overrides = []*fleetv1.ServiceOverride{{
			Name: "above", Clusters: &fleetv1.ClusterTarget{All: true}, Config: &fleetv1.ServiceConfig{Values: c.above},
		}}
		return append(documents, global)
	}
	documents = append(documents, setDocument("more", &fleetv1.ServiceConfig{Values: c.above}))
	for _, cluster := range stagedClusters {
		document := serviceDocument("app", cluster, "demo", "app")
		document.GetService().Spec.ConfigSets, document.GetService().Spec.Config = []string{"base", "more"}, c.own
		documents = append(documents, document)
	}
	return documents
}

// given is the configuration that agents receive, as configOf shows it, where the reference leads
// to that.
func (c *stagedConfig) given(db string) string {
	all := maps.Clone(c.above)
	for _, some := range []map[string]string{c.set.Values, c.set.Secrets, c.own.Values, {"DB": hunter2 + db}} {
		maps.Copy(all, some)
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, key+"="+all[key])
	}
	return strings.Join(lines, " ")
}

// TestSecConfigurationsWaitForTheWaves edits each layer of the configuration of services under a policy: a value and
// a secret of a set, the document, a reference, and the layer above. Each edit reaches the canary
// alone until a person approves it, also at another replica and in the middle of a rollout. Values
// that a back end rotates reach all at once. A configuration with which the canary fails goes back.
func TestSecConfigurationsWaitForTheWaves(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { t.Parallel(); testConfigurationsWait(t, false) })
	t.Run("derived", func(t *testing.T) { t.Parallel(); testConfigurationsWait(t, true) })
}

func testConfigurationsWait(t *testing.T, isDerived bool) {
	url := postgrestest.New(t).Database(t)
	shared := func(c *distributor.Config) { c.DatabaseURL, c.Intervals.RolloutWait = url, await.Patience }
	h := startHub(t, shared, quickly)
	vault := vaultdouble.Start(t)
	put := func(path, password string) {
		vault.Put("secret", path, map[string]string{"password": hunter2 + password})
	}
	put("shop/db", "-db1")
	put("shop/next", "-next")
	h.git.set("demo", "app", newFolder(t, "c1", "first"))
	h.apply(t, repositoryDocument("demo"), vaultDocument(vault.URL, vault.Token(vaultToken)), clusterDocument("one"), clusterDocument("two"), clusterDocument("three"))
	c := newStagedConfig(isDerived)
	h.apply(t, c.documents()...)
	agents := newCrew(t, h, stagedClusters...)
	db := "-db1"
	before := c.given(db)
	await.True(t, "the first configuration everywhere", func() bool { return agents.isGiven(before, stagedClusters...) })
	h.apply(t, fleetdoc.Of(wavesPolicy("waves")))
	h.waitTakenOver(t, 3)
	if !agents.isGiven(before, stagedClusters...) {
		t.Error("the policy changed a configuration when it took services over")
	}

	for i, edit := range []struct {
		change func()
		key    string
	}{
		{func() { c.set.Values = map[string]string{"SET": "2"} }, "SET"},
		{func() { c.set.Secrets = map[string]string{"SECRET": hunter2 + "-2"} }, "SECRET"},
		{func() { c.own.Values = map[string]string{"OWN": "2"} }, "OWN"},
		{func() { c.own.References, db = map[string]string{"DB": "vault://shop/next#password"}, "-next" }, "DB"},
		{func() { c.above = map[string]string{"ABOVE": "2"} }, "ABOVE"},
	} {
		edit.change()
		outcomes := h.apply(t, c.documents()...)
		after, number := c.given(db), int64(i+1)
		if edit.key == "OWN" || edit.key == "DB" {
			checkNamed(t, edit.key, outcomes, number)
		} else if text := protojson.Format(outcomes); !strings.Contains(text, "held by rolloutpolicy waves until its rollout admits it") {
			t.Errorf("%s: got %s, want a warning that the edit is held", edit.key, text)
		}
		h.waitCanary(t, number)
		if changes := latestRollout(t, h, "waves").GetChanges(); !slices.Equal(changes, []string{"configuration " + edit.key}) {
			t.Errorf("%s: got that the rollout changes %q", edit.key, changes)
		}
		if !agents.isGiven(after, "one") || !agents.isGiven(before, "two", "three") {
			t.Errorf("%s: got %q, %q and %q, want the edit in the canary, and in no other cluster",
				edit.key, agents.given("one"), agents.given("two"), agents.given("three"))
		}
		h.waitService(t, "app@two", func(s *fleetv1.Service) bool {
			hold := s.GetStatus().GetHold()
			return hold.GetPolicy() == "waves" && slices.Equal(hold.GetSpecChanges(), []string{"configuration"})
		})
		explained, err := h.fleet(t, adminToken).ExplainServiceConfig(t.Context(), &fleetv1.ExplainServiceConfigRequest{Name: "app@two"})
		if err != nil || explained.GetHeldBy() != "waves" || !slices.Equal(explained.GetHeldKeys(), []string{edit.key}) {
			t.Errorf("%s: got %v, %v, want the key that the policy holds", edit.key, explained, err)
		}
		delivered, err := h.fleet(t, adminToken).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "app@two"})
		if shown := delivered.GetConfig(); err != nil || !strings.Contains(before, "SET="+shown.GetValues()["SET"]) || shown.GetReferences()["DB"] == "vault://shop/next#password" != (i > 3) ||
			strings.Contains(delivered.String()+explained.String(), hunter2) {
			t.Errorf("%s: got %v, %v, want what the service has, without secrets", edit.key, shown, err)
		}
		if edit.key == "SECRET" {
			h = moveCrew(t, h, agents, shared, quickly)
			put("shop/db", "-db2")
			h.refreshBackend(t, "shop/db")
			db = "-db2"
			after, before = c.given(db), strings.ReplaceAll(before, "-db1", db)
			await.True(t, "the rotation in all clusters", func() bool {
				return agents.isGiven(after, "one") && agents.isGiven(before, "two", "three")
			})
		}
		if agents.everGiven(fmt.Sprintf("%s=2", edit.key), "two", "three") || agents.everGiven("SECRET="+hunter2+"-2", "two", "three") && i == 1 {
			t.Errorf("%s: a cluster behind the canary had the edit before it was approved", edit.key)
		}
		h.approve(t)
		h.waitCompleted(t, number)
		if !agents.isGiven(after, stagedClusters...) {
			t.Errorf("%s: the rollout is complete, and not all clusters have the edit", edit.key)
		}
		before = after
	}

	// In the middle of a rollout.
	c.set.Values = map[string]string{"SET": "3"}
	h.apply(t, c.documents()...)
	h.waitCanary(t, 6)
	third := c.given(db)
	c.set.Values = map[string]string{"SET": "bad"}
	h.apply(t, c.documents()...)
	agents.spoilValue("SET=bad")
	if !agents.isGiven(third, "one") || !agents.isGiven(before, "two", "three") {
		t.Error("an edit came in the middle of a rollout")
	}
	h.approve(t)
	await.True(t, "the next rollout to go back", func() bool {
		r := latestRollout(t, h, "waves")
		return r.GetNumber() == 7 && r.GetState() == "rolledBack"
	})
	await.True(t, "the configuration that works everywhere", func() bool { return agents.isGiven(third, stagedClusters...) })
	if !agents.everGiven("SET=bad", "one") || agents.everGiven("SET=bad", "two", "three") {
		t.Error("the bad configuration must reach the canary, and nobody else")
	}
}

// moveCrew starts another replica, has agents and the test use it, and stops the first one.
func moveCrew(t *testing.T, h *hub, agents *crew, change ...func(*distributor.Config)) *hub {
	t.Helper()
	next := startReplica(t, h.git, change...)
	for _, cluster := range stagedClusters {
		if here, there := agents.planAt(t, h, cluster), agents.planAt(t, next, cluster); here != there {
			t.Errorf("%s: two replicas plan %s and %s", cluster, here, there)
		}
	}
	agents.hub.Store(next)
	h.stop(t)
	return next
}

func (c *crew) spoilValue(part string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.badValue = part
}
