// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

func configSet(name string, config *catalog.Config) *catalog.ConfigSet {
	return &catalog.ConfigSet{Metadata: catalog.Metadata{Name: name}, Spec: catalog.ConfigSetSpec{Config: config}}
}

func listing(name string, config *catalog.Config, sets ...string) *catalog.Service {
	s := configured(name, config)
	s.Spec.ConfigSets = sets
	return s
}

func projectWith(name string, spec catalog.ProjectSpec) *catalog.Project {
	return &catalog.Project{Metadata: catalog.Metadata{Name: name}, Spec: spec}
}

// composed is the configuration that agents receive, and the log about it.
type composed struct {
	s subject
}

func (c composed) logged(t *testing.T, name string) *catalog.Service {
	t.Helper()
	for _, service := range changes(t, c.s, 0).Services {
		if service.LocalName() == name {
			return service
		}
	}
	t.Fatalf("there is no service %s", name)
	return nil
}

// want compares what an agent is given, and returns the digest.
func (c composed) want(t *testing.T, when, name string, want map[string]string) string {
	t.Helper()
	logged := c.logged(t, name)
	config, digest, err := c.s.Config(t.Context(), logged.UID)
	if err != nil || digest != logged.ConfigDigest {
		t.Fatalf("%s: got digest %q and %v, want %q", when, digest, err, logged.ConfigDigest)
	}
	if diff := cmp.Diff(want, plain(config)); diff != "" {
		t.Errorf("%s: %s is given (-want +got):\n%s", when, name, diff)
	}
	return digest
}

func (c composed) refused(t *testing.T, want string, objects ...catalog.Object) {
	t.Helper()
	if _, err := catalog.NewEditor(c.s).Apply(t.Context(), objects, false); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want that it is refused with %q", err, want)
	}
}

// testConfigSets follows sets through edits: who is given what, and whose digest changes.
func testConfigSets(t *testing.T, s subject) {
	c := composed{s}
	editor := catalog.NewEditor(s)
	apply(t, s, cluster("one"), repository("demo"))
	// A project may list sets that the same edit makes.
	apply(t, s,
		projectWith("default", catalog.ProjectSpec{ConfigSets: []string{"base", "more"}}),
		configSet("base", &catalog.Config{Values: values{"A": "base", "B": "base", "C": "base"}, Secrets: secrets{"S": "hunter2-base"}}),
		configSet("more", &catalog.Config{Values: values{"B": "more"}}),
		configSet("own", &catalog.Config{Secrets: secrets{"C": "hunter2-own"}, References: values{"D": "hub://base/S", "E": "hub://own/C", "F": "hub://base/NONE?"}}),
		listing("a", &catalog.Config{Values: values{"A": "a"}}, "own"), listing("b", nil),
	)
	whole := map[string]string{"A": "a", "B": "more", "secret C": "hunter2-own", "secret D": "hunter2-base", "secret E": "hunter2-own", "secret S": "hunter2-base"}
	ofA := c.want(t, "made", "a", whole)
	ofB := c.want(t, "made", "b", map[string]string{"A": "base", "B": "more", "C": "base", "secret S": "hunter2-base"})

	// A shadowed value changes nothing, and a value that only one service obtains changes only that.
	apply(t, s, configSet("base", &catalog.Config{Values: values{"A": "base", "B": "other", "C": "base"}, Secrets: secrets{"S": ""}}))
	if c.want(t, "shadowed", "a", whole) != ofA || c.logged(t, "b").ConfigDigest != ofB {
		t.Error("a digest changes with a value that is shadowed")
	}
	since := changes(t, s, 0).Revision
	apply(t, s, configSet("own", &catalog.Config{Secrets: secrets{"C": "hunter2-new"}, References: values{"D": "hub://base/S", "E": "hub://own/C"}}))
	whole["secret C"], whole["secret E"] = "hunter2-new", "hunter2-new"
	if c.want(t, "changed", "a", whole) == ofA {
		t.Error("a digest stays with another secret of a set")
	}
	if got := changes(t, s, since); len(got.Services) != 1 || got.Services[0].LocalName() != "a" || len(got.ConfigSets) != 1 {
		t.Errorf("got %d services and %d sets that changed with a set of one service", len(got.Services), len(got.ConfigSets))
	}
	for _, set := range changes(t, s, 0).ConfigSets {
		for key, text := range set.Spec.Config.Secrets {
			if text != "" {
				t.Errorf("the log holds the secret %s of set %s", key, set.Name)
			}
		}
	}

	explained, err := sqlstore.NewEntries(s.Store).Explain(t.Context(), c.logged(t, "a").UID)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]configs.Explained{}
	for _, x := range explained {
		keys[x.Key] = x
	}
	own, base := layers.Origin{Kind: layers.OfSet, Set: "own"}, layers.Origin{Kind: layers.OfProject, Set: "base"}
	want := configs.Explained{Key: "C", Layer: own, Shadows: []configs.Shadow{{Layer: base}}, SameAs: []string{"E"}, IsSecret: true, IsGiven: true, IsLatest: true}
	if diff := cmp.Diff(want, keys["C"]); diff != "" {
		t.Errorf("C is explained (-want +got):\n%s", diff)
	}
	if x := keys["D"]; x.Reference != "hub://base/S" || !x.IsSecret || !cmp.Equal(x.Through, []string{"base"}) || x.Layer != own {
		t.Errorf("got %+v of a reference to a set", x)
	}
	if strings.Contains(fmt.Sprintf("%+v", explained), "hunter2") {
		t.Error("an explanation holds a secret")
	}

	// A key that is gone has its users wait; nothing else is wrong.
	apply(t, s, configSet("base", &catalog.Config{Values: values{"C": "base"}}))
	if got := c.logged(t, "a"); !got.ConfigWaits || got.ConfigProblem == nil || got.ConfigProblem.Reason != reason.ConfigMissing {
		t.Errorf("got %v of a service whose reference leads to a key that is gone", got.ConfigProblem)
	}
	if c.logged(t, "b").ConfigWaits {
		t.Error("a service without the reference waits")
	}
	apply(t, s, configSet("base", &catalog.Config{Values: values{"C": "base"}, Secrets: secrets{"S": "hunter2-base"}}))
	if got := c.logged(t, "a"); got.ConfigWaits || got.ConfigProblem != nil {
		t.Errorf("got %v of a service whose reference leads to a value again", got.ConfigProblem)
	}

	// A set in use is not deleted.
	_, err = editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigSet, Name: "base"})
	if err == nil || !strings.Contains(err.Error(), "project/default") || !strings.Contains(err.Error(), "configset/own") {
		t.Errorf("got %v, want that a project and a set use the set", err)
	}
	if _, err := editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigSet, Name: "own"}); err == nil || !strings.Contains(err.Error(), "service/a@one") {
		t.Errorf("got %v, want that a service uses the set", err)
	}
	c.refused(t, "leads in a circle", configSet("x", &catalog.Config{References: values{"K": "hub://x/K"}}))
	c.refused(t, "leads in a circle",
		configSet("x", &catalog.Config{References: values{"K": "hub://y/K"}}), configSet("y", &catalog.Config{References: values{"K": "hub://x/K"}}))
	c.refused(t, "does not have", configSet("x", &catalog.Config{References: values{"K": "hub://base/NONE"}}))
	c.refused(t, "does not exist", configSet("x", &catalog.Config{References: values{"K": "hub://none/K"}}))
	c.refused(t, "does not exist", listing("a", nil, "none"))
	c.refused(t, "does not exist", projectWith("default", catalog.ProjectSpec{ConfigSets: []string{"none"}}))
	c.refused(t, "twice", listing("a", nil, "own", "own"))
	c.refused(t, "does not name a key", listing("a", &catalog.Config{References: values{"K": "hub://base"}}))

	// Everything that is sealed opens by a new key alone.
	if _, err := sqlstore.NewRotation(s.Store).RotateSealingKey(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if n := resealed(t, s.Store, 2); n < 2 {
		t.Errorf("got %d values that were sealed again, want those of two sets", n)
	}
	if done, err := sqlstore.NewRotation(s.Store).RetireSealingKeys(t.Context()); err != nil || !done {
		t.Errorf("got %v, %v, want the former key retired", done, err)
	}
	delete(whole, "B")
	c.want(t, "after a rotation", "a", map[string]string{"A": "a", "B": "more", "secret C": "hunter2-new", "secret D": "hunter2-base", "secret E": "hunter2-new", "secret S": "hunter2-base"})

	apply(t, s, projectWith("default", catalog.ProjectSpec{}), listing("a", &catalog.Config{}))
	if digest := c.want(t, "without sets", "a", map[string]string{}); digest != "" {
		t.Errorf("got digest %s of nothing", digest)
	}
	for _, name := range []string{"own", "more", "base"} {
		if _, err := editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigSet, Name: name}); err != nil {
			t.Error(err)
		}
	}
}

// testConfigFacts has references that hold facts, and labels that change or lead elsewhere.
func testConfigFacts(t *testing.T, s subject) {
	c := composed{s}
	labelled := func(region string) *catalog.Cluster {
		one := cluster("one")
		one.Labels = map[string]string{"region": region}
		return one
	}
	annotated := func(folder string) *catalog.Cluster {
		one := labelled("us")
		one.Annotations = map[string]string{"example.com/folder": folder}
		return one
	}
	apply(t, s, labelled("eu"), repository("demo"))
	outcomes := apply(t, s, vaultBackend(),
		configSet("region-eu", &catalog.Config{Values: values{"HOST": "eu.example"}}), configSet("region-us", &catalog.Config{Values: values{"HOST": "us.example"}}),
		configSet("base", &catalog.Config{References: values{
			"PASSWORD": "vault://shop/${cluster.labels.region}#password", "HOST": "hub://region-${cluster.labels.region}/HOST",
		}}),
		listing("a", nil, "base"),
	)
	entries, at := sqlstore.NewEntries(s.Store), time.Now()
	save := func(path string) {
		t.Helper()
		if _, err := entries.Save(t.Context(), outcomes[0].Object.Meta().UID, path, passwordEntry("hunter2-"+path), at, at.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	save("shop/eu")
	c.want(t, "in eu", "a", map[string]string{"HOST": "eu.example", "secret PASSWORD": "hunter2-shop/eu"})
	apply(t, s, labelled("us"))
	if !c.logged(t, "a").ConfigWaits {
		t.Error("a service does not wait for the entry of another region")
	}
	save("shop/us")
	c.want(t, "in us", "a", map[string]string{"HOST": "us.example", "secret PASSWORD": "hunter2-shop/us"})
	if p := c.logged(t, "a").ConfigProblem; p != nil {
		t.Errorf("got %v", p)
	}
	// No annotation, which may be any text, leads elsewhere.
	apply(t, s, configSet("base", &catalog.Config{References: values{"PASSWORD": "vault://shop/${cluster.annotations.example.com/folder}#password"}}))
	for _, folder := range []string{"", ".", "..", "a/b", "../admin", "us#other", "%2e%2e", "*", "us?", "us\\x", "a b", "${project}", strings.Repeat("a", 300)} {
		apply(t, s, annotated(folder))
		got := c.logged(t, "a")
		if got.ConfigProblem == nil || got.ConfigProblem.Reason != reason.ConfigReferenceInvalid || !got.ConfigWaits {
			t.Errorf("folder %q: got %v, want that the service waits", folder, got.ConfigProblem)
		}
		c.want(t, "folder "+folder, "a", map[string]string{})
	}
	apply(t, s, annotated("us"))
	c.want(t, "again us", "a", map[string]string{"secret PASSWORD": "hunter2-shop/us"})
	// One whose path is not allowed is refused where it is known, and gives nothing elsewhere.
	c.refused(t, "does not allow", configured("b", &catalog.Config{References: values{"K": "vault://${cluster.labels.region}/db#password"}}))
	c.refused(t, "is not set", configured("b", &catalog.Config{References: values{"K": "vault://shop/${cluster.labels.none}#password"}}))
	apply(t, s, configured("b", &catalog.Config{References: values{"K": "vault://shop/${cluster.labels.none}#password?"}}))
	apply(t, s, configSet("wide", &catalog.Config{References: values{"K": "vault://${cluster.labels.region}/root#password"}}), listing("wide", nil, "wide"))
	if got := c.logged(t, "wide"); got.ConfigProblem == nil || !strings.Contains(got.ConfigProblem.Message, "does not allow this path") {
		t.Errorf("got %v of a path that is not allowed", got.ConfigProblem)
	}
}

// testConfigShares has a project use the sets of another one.
func testConfigShares(t *testing.T, s subject) {
	c := composed{s}
	shared := func(names ...string) *catalog.Project {
		spec := catalog.ProjectSpec{}
		if len(names) > 0 {
			spec.Shares = []catalog.ProjectShare{{Projects: catalog.Selection{Names: []string{"default"}}, ConfigSets: catalog.Selection{Names: names}}}
		}
		return projectWith("platform", spec)
	}
	apply(t, s, cluster("one"), repository("demo"), shared("open"),
		configSet("platform.open", &catalog.Config{Values: values{"A": "open"}}), configSet("platform.closed", &catalog.Config{Secrets: secrets{"B": "hunter2"}}))
	c.refused(t, "does not share it", listing("a", nil, "platform.closed"))
	c.refused(t, "does not share it", configured("a", &catalog.Config{References: values{"B": "hub://platform/closed/B"}}))
	c.refused(t, "does not share it", projectWith("default", catalog.ProjectSpec{ConfigSets: []string{"platform.closed"}}))
	c.refused(t, "fact in the name of a project", configured("a", &catalog.Config{References: values{"B": "hub://${cluster.labels.env}/closed/B"}}))
	// A set that the edit cannot read gives nothing either.
	apply(t, s, listing("sly", &catalog.Config{References: values{"B": "hub://platform/clos${cluster.labels.part}/B?"}}))
	one := cluster("one")
	one.Labels = map[string]string{"part": "ed"}
	apply(t, s, one)
	c.want(t, "not shared", "sly", map[string]string{})
	// And it does not keep the set from its owner.
	if _, err := catalog.NewEditor(s).Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigSet, Name: "platform.closed"}); err != nil {
		t.Errorf("a service that may not use the set keeps it: %v", err)
	}
	apply(t, s, listing("a", &catalog.Config{References: values{"B": "hub://platform/open/A"}}, "platform.open"))
	c.want(t, "shared", "a", map[string]string{"A": "open", "B": "open"})
	// A share that is taken back ends no list that is stored, and references that are.
	apply(t, s, shared())
	if got := c.logged(t, "a"); !got.ConfigWaits || got.ConfigProblem.Reason != reason.ConfigMissing {
		t.Errorf("got %v of a reference to a set that is shared no longer", got.ConfigProblem)
	}
	c.want(t, "taken back", "a", map[string]string{"A": "open"})
	apply(t, s, shared("open"))
	c.want(t, "shared again", "a", map[string]string{"A": "open", "B": "open"})
}
