// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// attempt is a document that a person applies, and the reason of the refusal; "": it is accepted.
type attempt struct {
	what     string
	reason   string
	document *fleetv1.Document
}

func (c *crowd) attempts(t *testing.T, secret string, all []attempt) {
	t.Helper()
	client := c.fleet(t, secret)
	for _, a := range all {
		_, err := client.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{a.document}, DryRun: true})
		switch {
		case a.reason != "" && err == nil:
			t.Errorf("%s: it was allowed", a.what)
		case a.reason != "":
			wantReason(t, err, a.reason)
		case err != nil:
			t.Errorf("%s: %v", a.what, err)
		}
	}
}

// TestSecBackEndsNeedTheRightToUseThem has editors of a cluster and of a service, who may not use
// the back ends that are open to the service's project, refer to their entries.
func TestSecBackEndsNeedTheRightToUseThem(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	refers := func(reference string) *fleetv1.Document {
		return referringDocument("app", map[string]string{"P": reference})
	}
	two := func(a, b string) *fleetv1.Document {
		return referringDocument("app", map[string]string{"P": a, "Q": b})
	}
	setOf := func(name, reference string) *fleetv1.Document {
		return setDocument(name, &fleetv1.ServiceConfig{References: map[string]string{"P": reference}})
	}
	const known, fact = "vault://shop/db#user", "vault://shop/${cluster.labels.x}#user?"
	labelled := clusterDocument("one")
	labelled.GetCluster().Metadata.Labels = map[string]string{"x": "db"}
	c.apply(t, labelled, repositoryDocument("demo"), vaultDocument("https://vault.example", vaultToken), two(known, fact), setOf("base", known),
		roleDocument("writer", []string{"get", "list", "create", "update"}, []string{"services", "configsets"}),
		roleDocument("reader", []string{"use"}, []string{"configsets", "repositories"}),
		roleDocument("user", []string{"use"}, []string{"configbackends"}))
	editor := typev1.AccessRole_ACCESS_ROLE_EDITOR
	ofDefault := &fleetv1.ProjectSelection{Names: []string{"default"}}
	eve, _ := c.join(t, "eve")
	c.bind(t, "eve", &fleetv1.AccessBindingSpec{Users: []string{"eve"}, Role: editor, Clusters: named("one"), Repositories: []string{"demo"}})
	fay, _ := c.join(t, "fay")
	c.bind(t, "fay", &fleetv1.AccessBindingSpec{Users: []string{"fay"}, Role: editor, Services: []string{"app"}})
	mia, _ := c.join(t, "mia") // writes everything in the project, and may use everything but back ends
	for _, role := range []string{"writer", "reader"} {
		c.bind(t, "mia-"+role, &fleetv1.AccessBindingSpec{Users: []string{"mia"}, RoleName: role, Projects: ofDefault})
	}
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: editor, Projects: ofDefault})
	for _, who := range []string{eve, fay, mia} {
		c.attempts(t, who, []attempt{
			{"another key", "ACCESS_DENIED", refers("vault://shop/db#password")},
			{"the whole entry", "ACCESS_DENIED", refers("vault://shop/db")},
			{"another path", "ACCESS_DENIED", refers("vault://shop/card#user")},
			{"one besides", "ACCESS_DENIED", two(known, "vault://shop/db#password")},
			{"a back end that does not exist", "ACCESS_DENIED", refers("absent://shop/db#password")},
			{"another fact", "ACCESS_DENIED", refers("vault://shop/${cluster.annotations.x}#user")},
			{"a fact in place of a text", "ACCESS_DENIED", refers("vault://shop/${cluster.name}#user?")},
			{"the known one", "", refers(known)},
			{"the known one under another name, which may be missing", "", two(fact, known+"?")},
			{"nothing", "", serviceDocument("app", "one", "demo", "app")},
		})
	}
	c.attempts(t, mia, []attempt{
		{"a set that refers", "ACCESS_DENIED", setOf("mine", known)},
		{"another reference of a set", "ACCESS_DENIED", setOf("base", "vault://shop/db#password")},
		{"the known reference of a set", "", setOf("base", known)},
		{"a service of their own", "ACCESS_DENIED", referringDocument("own", map[string]string{"P": known})},
	})
	c.bind(t, "mia-user", &fleetv1.AccessBindingSpec{Users: []string{"mia"}, RoleName: "user", Projects: ofDefault})
	for _, who := range []string{mia, ada} {
		c.attempts(t, who, []attempt{
			{"another key, with the right", "", refers("vault://shop/db#password")},
			{"a set, with the right", "", setOf("mine", known)},
			{"a back end that does not exist, with the right", "REFERENCE_NOT_FOUND", refers("absent://shop/db#password")},
		})
	}
}

// TestSecFactsNameNoOtherSet has a person who may not use sets put a fact in place of a part of the
// name of the set that a service uses already.
func TestSecFactsNameNoOtherSet(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	one := clusterDocument("one")
	one.GetCluster().Metadata.Labels = map[string]string{"x": "base"}
	secrets := &fleetv1.ServiceConfig{Secrets: map[string]string{"P": hunter2}}
	c.apply(t, one, repositoryDocument("demo"), setDocument("base", secrets), setDocument("x", secrets),
		referringDocument("app", map[string]string{"P": "hub://x/P"}))
	mallory, _ := c.join(t, "mallory")
	c.bind(t, "mallory", &fleetv1.AccessBindingSpec{Users: []string{"mallory"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Services: []string{"app"}})
	c.attempts(t, mallory, []attempt{
		{"a fact as the name", "REFERENCE_NOT_FOUND", referringDocument("app", map[string]string{"P": "hub://${cluster.labels.x}/P"})},
		{"the set as before", "", referringDocument("app", map[string]string{"P": "hub://x/P"})},
	})
}

// TestSecRepositoriesNeedTheRightToUseThem names a repository in every kind of document that has its
// content delivered.
func TestSecRepositoriesNeedTheRightToUseThem(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	charts := func(names ...string) *fleetv1.Document {
		document := repositoryDocument("demo")
		document.GetRepository().Spec.ChartRepositories = names
		return document
	}
	statuses := func(names ...string) *fleetv1.Document {
		return &fleetv1.Document{Object: &fleetv1.Document_Notifier{Notifier: &fleetv1.Notifier{Metadata: &typev1.Metadata{Name: "forge"}, Spec: &fleetv1.NotifierSpec{
			Sink: &fleetv1.NotifierSpec_CommitStatus{CommitStatus: &fleetv1.CommitStatusSink{
				Provider: "gitea", Url: "https://git.example", Token: proto.String("a token"), Repositories: names,
			}},
		}}}}
	}
	c.apply(t, clusterDocument("one"), charts("open"), repositoryDocument("private"), repositoryDocument("open"),
		roleDocument("teller", []string{"get", "create", "update"}, []string{"notifiers"}))
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Repositories: []string{"demo"}})
	c.bind(t, "ada-notifiers", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, RoleName: "teller", Projects: &fleetv1.ProjectSelection{Names: []string{"default"}}})
	c.attempts(t, ada, []attempt{
		{"charts of a repository that they may not use", "REFERENCE_NOT_FOUND", charts("open", "private")},
		{"charts of one that may not exist", "REFERENCE_NOT_FOUND", charts("absent")},
		{"charts of the known one", "", charts("open")},
		{"no charts", "", charts()},
		{"statuses of a repository that they may not use", "REFERENCE_NOT_FOUND", statuses("demo", "private")},
		{"statuses of their own", "", statuses("demo")},
	})
}

// TestSecSettingsOfAnAgentNeedItsAdministrator has people who may update a cluster, and are not its
// administrator, change each setting by which its services are kept apart, and each fact that leads them.
func TestSecSettingsOfAnAgentNeedItsAdministrator(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	with := func(agent *typev1.AgentSettings) *fleetv1.Document {
		document := clusterDocument("one")
		document.GetCluster().Spec.Agent = agent
		return document
	}
	locked := &typev1.AgentSettings{LockDown: true, DefaultServiceAccount: "leat/apply"}
	described := with(locked)
	described.GetCluster().Spec.Description = "the first one"
	annotated := with(locked)
	annotated.GetCluster().Metadata.Annotations = map[string]string{"example.com/team": "shop"}
	fresh := clusterDocument("two")
	fresh.GetCluster().Spec.Agent = locked
	c.apply(t, with(locked), roleDocument("describer", []string{"get", "list", "watch", "create", "update"}, []string{"clusters"}))
	ofDefault := &fleetv1.ProjectSelection{Names: []string{"default"}}
	eve, _ := c.join(t, "eve")
	c.bind(t, "eve", &fleetv1.AccessBindingSpec{Users: []string{"eve"}, RoleName: "describer", Projects: ofDefault})
	pam, _ := c.join(t, "pam") // administers the project, but not what others run in its clusters
	admin := typev1.AccessRole_ACCESS_ROLE_ADMIN
	c.bind(t, "pam", &fleetv1.AccessBindingSpec{Users: []string{"pam"}, Role: admin, Projects: ofDefault})
	ada, _ := c.join(t, "ada")
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, Role: admin, Clusters: named("one")})
	changes := map[string]*fleetv1.Document{
		"no lock":         with(&typev1.AgentSettings{DefaultServiceAccount: "leat/apply"}),
		"another account": with(&typev1.AgentSettings{LockDown: true, DefaultServiceAccount: "kube-system/cluster-admin"}),
		"no settings":     with(nil),
		"a log level":     with(&typev1.AgentSettings{LockDown: true, DefaultServiceAccount: "leat/apply", LogLevel: "debug"}),
		"a health rule": with(&typev1.AgentSettings{LockDown: true, DefaultServiceAccount: "leat/apply", HealthRules: []*typev1.HealthRule{
			{Kind: "ConfigMap", Degraded: "true", Message: "self.data.key"},
		}}),
		"an annotation": annotated,
	}
	for what, document := range changes {
		for _, who := range []string{eve, pam} {
			c.attempts(t, who, []attempt{{what, "ACCESS_DENIED", document}})
		}
		c.attempts(t, ada, []attempt{{what + ", by the administrator", "", document}})
	}
	for _, who := range []string{eve, pam} {
		c.attempts(t, who, []attempt{
			{"a description", "", described},
			{"a new cluster", "", clusterDocument("two")},
			{"a new cluster with settings", "ACCESS_DENIED", fresh},
		})
	}
}
