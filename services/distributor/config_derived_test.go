// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// layeredGlobal has all layers of a derived service beside the sets of its project.
func layeredGlobal() *fleetv1.GlobalService {
	labels := func(key, value string) *fleetv1.ClusterTarget {
		return &fleetv1.ClusterTarget{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	return &fleetv1.GlobalService{Metadata: &typev1.Metadata{Name: "web"}, Spec: &fleetv1.GlobalServiceSpec{
		Clusters: labels("tier", "edge"),
		Template: &fleetv1.ServiceSpec{
			Sources:    []*typev1.Source{{Repository: "demo", Path: "app"}},
			ConfigSets: []string{"base"},
			Config: &fleetv1.ServiceConfig{
				Values:     map[string]string{"CLUSTER": "${{ self.name }}", "C": "template", "D": "template", "E": "template"},
				References: map[string]string{"COPY": "hub://base/PASSWORD", "HOST": "hub://region-${cluster.labels.region}/HOST", "OWN": "cluster://shop/db#password"},
				Restart:    true,
			},
		},
		Overrides: []*fleetv1.ServiceOverride{{
			Name: "big", Clusters: labels("size", "big"), ConfigSets: []string{"large"},
			Config: &fleetv1.ServiceConfig{Values: map[string]string{"E": "override"}},
		}},
	}}
}

// layeredSets are the sets of layeredGlobal, in which the keys A to E are one of each layer.
func layeredSets(password string) []*fleetv1.Document {
	values := func(name string, pairs map[string]string) *fleetv1.Document {
		return setDocument(name, &fleetv1.ServiceConfig{Values: pairs})
	}
	base := setDocument("base", &fleetv1.ServiceConfig{
		Values:  map[string]string{"B": "base", "C": "base", "D": "base", "E": "base"},
		Secrets: map[string]string{"PASSWORD": password},
	})
	return []*fleetv1.Document{
		values("defaults", map[string]string{"A": "project", "B": "project", "C": "project", "D": "project", "E": "project"}),
		base, values("large", map[string]string{"D": "large", "E": "large"}),
		values("region-eu", map[string]string{"HOST": "db.eu"}), values("region-us", map[string]string{"HOST": "db.us"}),
		projectDocument("default", &fleetv1.ProjectSpec{ConfigSets: []string{"defaults"}}),
	}
}

// TestDerivedServicesHaveAllLayers composes the configuration of derived services of every layer, and edits
// each: exactly those services have another digest that obtain something else, and their agents obtain it.
// A restart changes nothing, and secrets of sets appear nowhere else.
func TestDerivedServicesHaveAllLayers(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); testDerivedServicesHaveAllLayers(t) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		database := postgrestest.New(t).Database(t)
		testDerivedServicesHaveAllLayers(t, func(c *distributor.Config) { c.DatabaseURL = database })
	})
}

func testDerivedServicesHaveAllLayers(t *testing.T, change ...func(*distributor.Config)) {
	log := &notes{}
	h := startHub(t, append(change, func(c *distributor.Config) {
		c.Telemetry.LogOutput, c.Telemetry.LogLevel = io.MultiWriter(log, t.Output()), "debug"
	})...)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	clusters := map[string]map[string]string{
		"small": {"tier": "edge", "region": "eu", "size": "small"}, "large": {"tier": "edge", "region": "us", "size": "big"},
	}
	h.apply(t, append(layeredSets(hunter2+"-1"), repositoryDocument("demo"), labelledCluster("small", clusters["small"]),
		labelledCluster("large", clusters["large"]), fleetdoc.Of(layeredGlobal()))...)
	agents := map[string]*agentKey{}
	for _, name := range []string{"small", "large"} {
		agents[name] = h.enrol(t, name)
		agents[name].report(t, h, 1, "v1", renderstep.WordsKnown()...)
	}
	digests := func() map[string]string {
		t.Helper()
		all := map[string]string{}
		for name, agent := range agents {
			await.True(t, "the derived service", func() bool {
				entry := entryOf(planOf(t, h, agent, ""), "web")
				all[name] = entry.GetConfigDigest()
				return len(entry.GetBundles()) == 1
			})
		}
		return all
	}
	wanted := map[string]map[string]string{
		"small": {"A": "project", "B": "base", "C": "template", "D": "template", "E": "template", "CLUSTER": "small", "HOST": "db.eu"},
		"large": {"A": "project", "B": "base", "C": "template", "D": "large", "E": "override", "CLUSTER": "large", "HOST": "db.us"},
	}
	password := hunter2 + "-1"
	last := digests()
	check := func(when string, changed ...string) {
		t.Helper()
		next := digests()
		await.True(t, when+" changes the configuration of "+strings.Join(changed, " and "), func() bool {
			next = digests()
			return !slices.ContainsFunc(changed, func(name string) bool { return next[name] == last[name] })
		})
		for name, agent := range agents {
			if next[name] == "" || !slices.Contains(changed, name) && next[name] != last[name] {
				t.Errorf("%s: got another digest of %s", when, name)
			}
			got, err := h.config(t, agent.token, "web", next[name])
			if err != nil || got.GetConfigDigest() != next[name] || !maps.Equal(got.GetValues(), wanted[name]) || len(got.GetSecrets()) != 2 ||
				string(got.GetSecrets()["PASSWORD"]) != password || string(got.GetSecrets()["COPY"]) != password || !got.GetRestart() ||
				!maps.Equal(got.GetReferences(), map[string]string{"OWN": "cluster://shop/db#password"}) {
				t.Errorf("%s: %s got %v with digest %s and %v, want %v with %s", when, name, got.GetValues(), got.GetConfigDigest(), err, wanted[name], next[name])
			}
		}
		last = next
	}
	check("the first plan")

	explained := h.explained(t, "web@large")
	for key, layer := range map[string]string{"A": "project defaults ", "B": "set base ", "C": "global  ", "D": "set large big", "E": "override  big"} {
		x := explained[key]
		if got := x.GetLayer() + " " + x.GetSet() + " " + x.GetOverride(); got != layer {
			t.Errorf("%s is explained by %q, want %q", key, got, layer)
		}
	}
	var shadows []string
	for _, s := range explained["E"].GetShadows() {
		shadows = append(shadows, strings.TrimSpace(s.GetLayer()+" "+s.GetSet()))
	}
	if want := []string{"set large", "global", "set base", "project defaults"}; !slices.Equal(shadows, want) {
		t.Errorf("got the shadows %v of a key of all layers, want %v", shadows, want)
	}
	if x := explained["COPY"]; x.GetReference() != "hub://base/PASSWORD" || !slices.Equal(x.GetThrough(), []string{"base"}) || !x.GetSecret() || !slices.Equal(x.GetSameAs(), []string{"PASSWORD"}) {
		t.Errorf("got %v", x)
	}
	delivered, err := h.fleet(t, adminToken).GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "web@large"})
	if err != nil || !maps.Equal(delivered.GetConfig().GetValues(), wanted["large"]) || len(delivered.GetConfig().GetSecrets()) != 2 || !delivered.GetConfig().GetRestart() {
		t.Errorf("got %v, %v, want what the layers hold together", delivered.GetConfig(), err)
	}

	set := func(name, key, value string) {
		h.apply(t, setDocument(name, &fleetv1.ServiceConfig{Values: map[string]string{key: value}}))
	}
	h.apply(t, layeredSets(password)...)
	check("the same sets again")
	set("region-eu", "HOST", "db2.eu")
	wanted["small"]["HOST"] = "db2.eu"
	check("a set that one cluster's label names", "small")
	h.apply(t, setDocument("large", &fleetv1.ServiceConfig{Values: map[string]string{"D": "larger", "E": "larger"}}))
	wanted["large"]["D"] = "larger"
	check("a set of the override", "large")
	password = hunter2 + "-2"
	h.apply(t, layeredSets(password)[1])
	check("a secret of the template's set", "small", "large")
	clusters["small"]["region"] = "us"
	h.apply(t, labelledCluster("small", clusters["small"]))
	wanted["small"]["HOST"] = "db.us"
	check("another label", "small")
	set("defaults", "A", "another")
	wanted["small"]["A"], wanted["large"]["A"] = "another", "another"
	check("a set of the project", "small", "large")
	h.apply(t, projectDocument("default", nil))
	delete(wanted["small"], "A")
	delete(wanted["large"], "A")
	check("the list of the project", "small", "large")
	next := layeredGlobal()
	next.Spec.Overrides[0].Config.Values["E"] = "another"
	h.apply(t, fleetdoc.Of(next))
	wanted["large"]["E"] = "another"
	check("a value of the override", "large")

	inUse := fleetcalls.Delete[*fleetv1.ConfigSet](t.Context(), h.fleet(t, adminToken), "base")
	wantReason(t, inUse, "IN_USE")
	inUse = fleetcalls.Delete[*fleetv1.ConfigSet](t.Context(), h.fleet(t, adminToken), "region-eu")
	wantReason(t, inUse, "IN_USE")
	if err := fleetcalls.Delete[*fleetv1.ConfigSet](t.Context(), h.fleet(t, adminToken), "defaults"); err != nil {
		t.Errorf("a set that nothing names: %v", err)
	}

	// A label that no set has: the service waits, and its agent changes nothing.
	clusters["small"]["region"] = "nowhere"
	h.apply(t, labelledCluster("small", clusters["small"]))
	h.waitService(t, "web@small", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetProblem().GetReason().String() == "REASON_CONFIG_MISSING"
	})
	await.True(t, "the service to be withheld", func() bool { return len(entryOf(planOf(t, h, agents["small"], ""), "web").GetBundles()) == 0 })
	clusters["small"]["region"] = "us"
	h.apply(t, labelledCluster("small", clusters["small"]))
	check("the label again")

	h.stop(t)
	h.start(t)
	for _, agent := range agents {
		agent.renew(t, h)
	}
	check("a restart")
	for _, text := range []string{log.String(), protojson.Format(delivered), protojson.Format(explained["COPY"])} {
		if strings.Contains(text, hunter2) {
			t.Errorf("a secret is shown in %.2000s", text)
		}
	}
}

// TestDerivedConfigurationAtTwoReplicas edits a set at one replica, and asks the other one.
func TestDerivedConfigurationAtTwoReplicas(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	onPostgres := func(c *distributor.Config) { c.DatabaseURL = url }
	h := startHub(t, onPostgres)
	other := startReplica(t, h.git, onPostgres)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, append(layeredSets(hunter2+"-1"), repositoryDocument("demo"),
		labelledCluster("one", map[string]string{"tier": "edge", "region": "eu"}), fleetdoc.Of(layeredGlobal()))...)
	agent := h.enrol(t, "one")
	agent.report(t, h, 1, "v1", renderstep.WordsKnown()...)
	digest := func(replica *hub, isNext func(string) bool) (digest string) {
		t.Helper()
		await.True(t, "the derived service", func() bool {
			digest = entryOf(planOf(t, replica, agent, ""), "web").GetConfigDigest()
			return digest != "" && isNext(digest)
		})
		return digest
	}
	first := digest(h, func(string) bool { return true })
	digest(other, func(d string) bool { return d == first })
	h.apply(t, layeredSets(hunter2 + "-2")[1])
	second := digest(other, func(d string) bool { return d != first })
	digest(h, func(d string) bool { return d == second })
	for _, replica := range []*hub{h, other} {
		got, err := replica.config(t, agent.token, "web", second)
		if err != nil || got.GetConfigDigest() != second || string(got.GetSecrets()["PASSWORD"]) != hunter2+"-2" {
			t.Errorf("got digest %s, %v, want %s with the second secret", got.GetConfigDigest(), err, second)
		}
	}
}

// TestSecGlobalServicesNeedTheRightToUseSets has a person who may write global services and services of a
// project, and may not use its sets, try to have the secrets of a set delivered.
func TestSecGlobalServicesNeedTheRightToUseSets(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), setDocument("base", &fleetv1.ServiceConfig{Secrets: map[string]string{"P": hunter2}}),
		projectDocument("shop", nil), in("shop", setDocument("foreign", &fleetv1.ServiceConfig{Secrets: map[string]string{"P": hunter2}})),
		roleDocument("writer", []string{"get", "list", "create", "update", "delete"}, []string{"services", "globalservices", "configsets", "clusters", "repositories"}),
		roleDocument("reader", []string{"use"}, []string{"repositories"}))
	token, _ := c.join(t, "mallory")
	for _, role := range []string{"writer", "reader"} {
		c.bind(t, role, &fleetv1.AccessBindingSpec{RoleName: role, Users: []string{"mallory"}, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}}})
	}
	mallory := c.fleet(t, token)
	overridden := func(o *fleetv1.ServiceOverride) *fleetv1.Document {
		document := globalDocument("web", "one")
		o.Name, o.Clusters = "all", &fleetv1.ClusterTarget{All: true}
		document.GetGlobalService().Spec.Overrides = []*fleetv1.ServiceOverride{o}
		return document
	}
	referring := func(text string) *fleetv1.ServiceConfig {
		return &fleetv1.ServiceConfig{References: map[string]string{"P": text}}
	}
	listed := globalDocument("web", "one")
	listed.GetGlobalService().Spec.Template.ConfigSets = []string{"base"}
	attempts := []*fleetv1.Document{listed, overridden(&fleetv1.ServiceOverride{ConfigSets: []string{"base"}})}
	for _, text := range []string{"hub://base/P", "hub://b${cluster.labels.x}/P?", "hub://shop/foreign/P"} {
		document := globalDocument("web", "one")
		document.GetGlobalService().Spec.Template.Config = referring(text)
		attempts = append(attempts, document, overridden(&fleetv1.ServiceOverride{Config: referring(text)}))
	}
	for _, document := range attempts {
		_, err := mallory.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{proto.CloneOf(document)}})
		if err == nil || !strings.Contains(err.Error(), "use configsets") && !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("got %v for %v, want that it is refused", err, document)
		}
	}
	if _, err := mallory.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{globalDocument("web", "one")}}); err != nil {
		t.Errorf("without a set: %v", err)
	}
	// Administrators, too, use no set that another project does not share.
	foreign := globalDocument("web", "one")
	foreign.GetGlobalService().Spec.Template.ConfigSets = []string{"shop/foreign"}
	_, err := c.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{foreign}})
	wantReason(t, err, "REFERENCE_NOT_FOUND")
}
