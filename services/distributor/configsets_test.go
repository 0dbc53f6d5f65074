// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// TestConfigSetsReachAgents follows sets to the agent, at two replicas: an edit at one reaches agents of
// the other, and only services that obtain something else have another digest. Secrets of sets appear
// nowhere else.
func TestConfigSetsReachAgents(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); testConfigSetsReachAgents(t) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		database := postgrestest.New(t).Database(t)
		testConfigSetsReachAgents(t, func(c *distributor.Config) { c.DatabaseURL = database })
	})
}

func testConfigSetsReachAgents(t *testing.T, change ...func(*distributor.Config)) {
	log := &notes{}
	h := startHub(t, append(change, quickly, func(c *distributor.Config) {
		c.Telemetry.LogOutput, c.Telemetry.LogLevel = io.MultiWriter(log, t.Output()), "debug"
	})...)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	other := serviceDocument("other", "one", "demo", "app")
	app := serviceDocument("app", "one", "demo", "app")
	app.GetService().Spec.ConfigSets = []string{"base"}
	app.GetService().Spec.Config = &fleetv1.ServiceConfig{References: map[string]string{"COPY": "hub://base/PASSWORD"}}
	set := func(password string) *fleetv1.Document {
		return setDocument("base", &fleetv1.ServiceConfig{
			Values: map[string]string{"HOST": "db.example"}, Secrets: map[string]string{"PASSWORD": password},
		})
	}
	seen := []string{protojson.Format(h.apply(t, set(hunter2+"-1"), app, other))}
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	plan := stream.nextWith(t, content.snapshot.GetDigest())
	digests := map[string]string{}
	for _, s := range plan.GetServices() {
		digests[s.GetName()] = s.GetConfigDigest()
	}
	if digests["other"] != "" || digests["app"] == "" {
		t.Fatalf("got digests %v, want one of the service that lists the set", digests)
	}
	want := func(digest, password string) {
		t.Helper()
		got, err := h.config(t, agent.token, "app", digest)
		if err != nil || got.GetConfigDigest() != digest || string(got.GetSecrets()["PASSWORD"]) != password || string(got.GetSecrets()["COPY"]) != password ||
			got.GetValues()["HOST"] != "db.example" || len(got.GetSecrets()) != 2 || len(got.GetValues()) != 1 {
			t.Errorf("got %d secrets and %v of digest %s, %v", len(got.GetSecrets()), got.GetValues(), got.GetConfigDigest(), err)
		}
	}
	want(digests["app"], hunter2+"-1")
	// An equal set changes nothing; another secret reaches the agent.
	h.apply(t, set(hunter2+"-1"))
	seen = append(seen, protojson.Format(h.apply(t, set(hunter2+"-2"))))
	_, rotated := stream.configDigest(t, "app", digests["app"])
	want(rotated, hunter2+"-2")

	admin := h.fleet(t, adminToken)
	explained := h.explained(t, "app")
	if x := explained["PASSWORD"]; x.GetLayer() != "set" || x.GetSet() != "base" || !x.GetSecret() || len(x.GetSameAs()) != 1 || x.GetSameAs()[0] != "COPY" {
		t.Errorf("got %v", x)
	}
	if x := explained["COPY"]; x.GetLayer() != "service" || x.GetReference() != "hub://base/PASSWORD" || len(x.GetThrough()) != 1 {
		t.Errorf("got %v", x)
	}
	shown, err := fleetcalls.Get[*fleetv1.ConfigSet](t.Context(), h.fleet(t, adminToken), "base")
	if err != nil || shown.GetSpec().GetConfig().GetValues()["HOST"] != "db.example" {
		t.Errorf("got %v, %v", shown, err)
	}
	delivered, err := admin.GetServicePlan(t.Context(), &fleetv1.GetServicePlanRequest{Name: "app"})
	if err != nil || delivered.GetConfig().GetValues()["HOST"] != "db.example" || len(delivered.GetConfig().GetSecrets()) != 2 {
		t.Errorf("got %v, %v, want what the layers hold together", delivered.GetConfig(), err)
	}
	inUse := fleetcalls.Delete[*fleetv1.ConfigSet](t.Context(), h.fleet(t, adminToken), "base")
	wantReason(t, inUse, "IN_USE")
	audit, err := admin.ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if text := protojson.Format(audit); !strings.Contains(text, "spec.config.secrets.PASSWORD") {
		t.Error("the record of the set does not say that its secret was replaced")
	}
	h.stop(t)
	h.start(t)
	agent.token = h.refresh(t, agent)
	want(rotated, hunter2+"-2")
	h.stop(t)
	seen = append(seen, log.String(), protojson.Format(shown), protojson.Format(delivered), protojson.Format(audit), protojson.Format(plan), inUse.Error(),
		protojson.Format(explained["PASSWORD"]), protojson.Format(explained["COPY"]))
	for _, text := range seen {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret is shown in %.2000s", text)
		}
	}
	err = filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("a secret stands in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSetsAtTwoReplicas edits a set at one replica, while the agent watches the other one.
func TestSetsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t).Database(t)
	git := startFakeGit(t)
	shared := func(c *distributor.Config) { c.DatabaseURL = database }
	one, two := startReplica(t, git, shared), startReplica(t, git, shared)
	content := newFolder(t, "c1", "one")
	one.demo(t, content)
	app := serviceDocument("app", "one", "demo", "app")
	app.GetService().Spec.ConfigSets = []string{"base"}
	one.apply(t, setDocument("base", &fleetv1.ServiceConfig{Secrets: map[string]string{"P": hunter2 + "-1"}}), app)
	agent := one.enrol(t, "one")
	stream := two.watchPlan(t, agent.token, "")
	first := stream.nextWith(t, content.snapshot.GetDigest()).GetServices()[0].GetConfigDigest()
	one.apply(t, setDocument("base", &fleetv1.ServiceConfig{Secrets: map[string]string{"P": hunter2 + "-2"}}))
	_, next := stream.configDigest(t, "app", first)
	got, err := two.config(t, agent.token, "app", next)
	if err != nil || got.GetConfigDigest() != next || string(got.GetSecrets()["P"]) != hunter2+"-2" {
		t.Errorf("got digest %s, %v, want %s", got.GetConfigDigest(), err, next)
	}
}

// TestSecSetsNeedTheRightToUseThem has people who may edit a service, and may not use sets, try to have
// the secrets of a set delivered to it.
func TestSecSetsNeedTheRightToUseThem(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, clusterDocument("one"), repositoryDocument("demo"), setDocument("base", &fleetv1.ServiceConfig{Secrets: map[string]string{"P": hunter2}}),
		roleDocument("writer", []string{"get", "list", "create", "update"}, []string{"services", "projects", "configsets", "clusters", "repositories"}),
		roleDocument("reader", []string{"use"}, []string{"repositories"}))
	token, _ := c.join(t, "mallory")
	for _, role := range []string{"writer", "reader"} {
		c.bind(t, role, &fleetv1.AccessBindingSpec{RoleName: role, Users: []string{"mallory"}, Projects: &fleetv1.ProjectSelection{Names: []string{"default"}}})
	}
	mallory := c.fleet(t, token)
	listed := serviceDocument("app", "one", "demo", "app")
	listed.GetService().Spec.ConfigSets = []string{"base"}
	documents := []*fleetv1.Document{
		listed,
		setDocument("mine", &fleetv1.ServiceConfig{References: map[string]string{"P": "hub://base/P"}}),
		setDocument("mine", &fleetv1.ServiceConfig{References: map[string]string{"P": "hub://b${cluster.labels.x}/P"}}),
	}
	for _, text := range []string{"hub://base/P", "hub://b${cluster.labels.x}/P?"} {
		referring := serviceDocument("app", "one", "demo", "app")
		referring.GetService().Spec.Config = &fleetv1.ServiceConfig{References: map[string]string{"P": text}}
		documents = append(documents, referring)
	}
	for _, document := range documents {
		_, err := mallory.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		if err == nil || !strings.Contains(err.Error(), "use configsets") && !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("got %v for %v, want that it is refused", err, document)
		}
	}
	if _, err := mallory.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{serviceDocument("app", "one", "demo", "app")}}); err != nil {
		t.Errorf("without a set: %v", err)
	}
}

// TestExampleOfConfigSets applies the documents that docs/guides/configuration.md shows.
func TestExampleOfConfigSets(t *testing.T) {
	t.Parallel()
	const path = "../../examples/configsets/sets.yaml"
	page, err := os.ReadFile("../../docs/guides/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(example)+"```") {
		t.Error("docs/guides/configuration.md does not show the example")
	}
	h := startHub(t, quickly)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, exampleDocuments(t, path)...)
	agent := h.enrol(t, "berlin")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	got, err := h.config(t, agent.token, "shop", plan.GetServices()[0].GetConfigDigest())
	values := got.GetValues()
	if err != nil || values["REPLICAS"] != "3" || values["LOG_LEVEL"] != "info" || values["DB_HOST"] != "db.eu.example" || string(got.GetSecrets()["DB_PASSWORD"]) != "replace-me" {
		t.Errorf("got %v, %v, want what the page says", values, err)
	}
}
