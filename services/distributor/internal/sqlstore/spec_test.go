// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// raw opens the subject's database beside the store.
func (s subject) raw(t *testing.T) *sql.DB {
	t.Helper()
	driver, address := "pgx", s.url
	if file, isSQLite := strings.CutPrefix(s.url, "sqlite://"); isSQLite {
		driver, address = "sqlite", file
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// earlierSpec is the spec of a service as a distributor wrote it before its options were one value.
const earlierSpec = `{"cluster":"one","namespace":"ns","sources":[{"repository":"demo","path":"a"}],"renderer":"plain",` +
	`"sync":{"prune":false,"createNamespace":true,"healthTimeout":60000000000,"forceConflicts":true,"pruneConfirmation":"sha256:x"},` +
	`"paused":true,"policy":{"drift":"report"},"dryRun":true}`

// testSpecsOfEarlierVersions reads the row of an earlier version. It reads a new row as such a
// version does, too: replicas of both run side by side while the hub is upgraded, and prune by what
// they read.
func testSpecsOfEarlierVersions(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	db := s.raw(t)
	if _, err := db.ExecContext(t.Context(), "UPDATE services SET spec = '"+earlierSpec+"'"); err != nil {
		t.Fatal(err)
	}
	want := catalog.ServiceSpec{
		Cluster: "one", Sources: []catalog.Source{{Repository: "demo", Path: "a"}},
		Options: &syncpolicy.Options{
			Namespace: "ns", CreateNamespace: new(true), Prune: new(false), HealthTimeout: time.Minute, ForceConflicts: true,
			PruneConfirmation: "sha256:x", Paused: true, DryRun: true, Renderer: syncpolicy.RenderPlain,
			Policy: syncpolicy.Policy{Drift: syncpolicy.DriftReport},
		},
	}
	got := changes(t, s, 0).Services[0]
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec of an earlier version (-want +got):\n%s", diff)
	}

	options := got.Spec.Wanted()
	options.PruneConfirmation, options.Policy.Drift = "", syncpolicy.DriftOff
	got.Spec.Options = &options
	apply(t, s, got)
	var text string
	if err := db.QueryRowContext(t.Context(), "SELECT spec FROM services").Scan(&text); err != nil {
		t.Fatal(err)
	}
	var earlier struct {
		Namespace string
		Sync      struct {
			Prune, CreateNamespace *bool
			HealthTimeout          time.Duration
			ForceConflicts         bool
			PruneConfirmation      string
		}
		Paused, DryRun bool
		Policy         syncpolicy.Policy
	}
	if err := json.Unmarshal([]byte(text), &earlier); err != nil {
		t.Fatal(err)
	}
	if sync := earlier.Sync; sync.Prune == nil || *sync.Prune || !*sync.CreateNamespace || sync.HealthTimeout != time.Minute || !sync.ForceConflicts ||
		sync.PruneConfirmation != "" || earlier.Namespace != "ns" || !earlier.Paused || !earlier.DryRun || earlier.Policy.Drift != syncpolicy.DriftOff {
		t.Errorf("an earlier version reads %+v from %s", earlier, text)
	}
}

// steps is a service that combines sources and renders them step by step.
func steps(name string) *catalog.Service {
	s := service(name, "one", "demo", "demo")
	s.Spec.Sources[0].Mount = "chart/web"
	s.Spec.Options = &syncpolicy.Options{Render: []renderstep.Step{
		{Path: "chart", Substitute: new(false), Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
			Values: map[string]any{"list": []any{1.5, map[string]any{}, nil}}, Parameters: map[string]string{"a": "b"},
		}},
		{FromPrevious: true, Renderer: renderstep.Kustomize},
	}}
	return s
}

// testSteps stores steps and mounts. A replica of an earlier version reads a paused service: it would
// hand the chart to an agent as plain manifests.
func testSteps(t *testing.T, s subject) {
	paused := steps("paused")
	paused.Spec.Options.Paused = true
	objects := []catalog.Object{cluster("one"), repository("demo"), steps("app"), paused, service("plain", "one", "demo")}
	for i, outcome := range apply(t, s, objects...) {
		if service, ok := objects[i].(*catalog.Service); ok {
			want := service.Spec
			got, _ := outcome.Object.(*catalog.Service)
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("stored spec of %s (-want +got):\n%s", service.Name, diff)
			}
		}
	}
	for _, stored := range changes(t, s, 0).Services {
		for _, object := range objects {
			if service, ok := object.(*catalog.Service); ok && service.Name == stored.Name {
				if diff := cmp.Diff(service.Spec, stored.Spec); diff != "" {
					t.Errorf("spec of %s as it is read (-want +got):\n%s", stored.Name, diff)
				}
			}
		}
	}
	for _, outcome := range apply(t, s, objects...) {
		if outcome.Action != catalog.ActionUnchanged {
			t.Errorf("the same again: got %v of %v", outcome.Action, outcome.Object.Key())
		}
	}
	for name, want := range map[string]bool{"app@one": true, "paused@one": true, "plain@one": false} {
		var text string
		if err := s.raw(t).QueryRowContext(t.Context(), "SELECT spec FROM services WHERE name = '"+name+"'").Scan(&text); err != nil {
			t.Fatal(err)
		}
		var earlier struct{ Paused bool }
		if err := json.Unmarshal([]byte(text), &earlier); err != nil || earlier.Paused != want {
			t.Errorf("%s: an earlier version reads paused %v (%v), want %v, from %s", name, earlier.Paused, err, want, text)
		}
	}
}

var everythingForAll = catalog.ProjectShare{
	Projects: catalog.Selection{All: true}, Repositories: catalog.Selection{All: true}, Clusters: catalog.Selection{All: true},
}

// testServicesOfEarlierVersions opens a database whose services are named without their clusters: each
// keeps its uid, and then leaves room for another cluster's service of its name.
func testServicesOfEarlierVersions(t *testing.T, s subject) {
	apply(t, s, &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}, Spec: catalog.ProjectSpec{Shares: []catalog.ProjectShare{everythingForAll}}})
	lend := catalog.DefaultProject()
	lend.Spec.Shares = []catalog.ProjectShare{everythingForAll}
	apply(t, s, lend)
	apply(t, s, cluster("one"), cluster("shop.two"), repository("demo"), service("app", "one", "demo"), service("shop.app", "shop.two", "demo"))
	_, before := uids(t, s)
	for _, statement := range []string{
		"UPDATE services SET name = 'app' WHERE name = 'app@one'",
		"UPDATE services SET name = 'shop.app' WHERE name = 'shop.app@shop.two'",
		"DELETE FROM bun_migrations WHERE name = '20261203000000'",
	} {
		result, err := s.raw(t).ExecContext(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := result.RowsAffected(); rows != 1 || err != nil {
			t.Fatalf("%s: changed %d rows (%v), want one", statement, rows, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Store = open(t, s.url)
	apply(t, s, service("app", "shop.two", "demo"))
	after := map[string]string{}
	for _, service := range changes(t, s, 0).Services {
		after[service.Name] = service.UID
	}
	for name, uid := range map[string]string{"app@one": before["app"], "shop.app@shop.two": before["shop.app"]} {
		if after[name] != uid {
			t.Errorf("%s: got uid %q, want %q", name, after[name], uid)
		}
	}
	if other := after["app@shop.two"]; len(after) != 3 || other == "" || other == before["app"] {
		t.Errorf("got %v, want a third service beside them", after)
	}
}

// testManagersOfEarlierVersions opens a database in which an annotation names the manager of an object. One
// that exists still manages the object; other annotations stay.
func testManagersOfEarlierVersions(t *testing.T, s subject) {
	apply(t, s, &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}})
	apply(t, s, repository("fleet"), repository("shop.fleet"))
	source := func(path, repository string) *catalog.FleetSource {
		return &catalog.FleetSource{Metadata: catalog.Metadata{Name: path}, Spec: catalog.FleetSourceSpec{Source: catalog.Source{Repository: repository, Path: "fleet"}}}
	}
	apply(t, s, source("tree", "fleet"), source("shop.tree", "shop.fleet"), cluster("one"), cluster("two"), cluster("three"), cluster("four"))
	for name, annotations := range map[string]string{
		"one":   `{"example.com/a":"b","leat.dev/managed-by":"fleetsource/tree"}`,
		"two":   `{"leat.dev/managed-by":"fleetsource/shop/tree"}`,
		"three": `{"leat.dev/managed-by":"fleetsource/gone"}`,
		"four":  `{"example.com/a":"\"leat.dev/managed-by\":\"fleetsource/tree\""}`,
	} {
		if _, err := s.raw(t).ExecContext(t.Context(), "UPDATE clusters SET annotations = '"+annotations+"' WHERE name = '"+name+"'"); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range sqlstore.ObjectTables() {
		for _, column := range []string{"manager", "manager_uid"} {
			if _, err := s.raw(t).ExecContext(t.Context(), "ALTER TABLE "+table+" DROP COLUMN "+column); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.raw(t).ExecContext(t.Context(), "DELETE FROM bun_migrations WHERE name = '20261220010000'"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Store = open(t, s.url)
	uids := map[string]string{}
	for _, f := range changes(t, s, 0).FleetSources {
		uids[f.Name] = f.UID
	}
	want := map[string]catalog.SourceRef{"one": {Path: "tree", UID: uids["tree"]}, "two": {Path: "shop.tree", UID: uids["shop.tree"]}, "three": {}, "four": {}}
	for _, c := range changes(t, s, 0).Clusters {
		if c.Manager != want[c.Name] {
			t.Errorf("%s: got the manager %v, want %v", c.Name, c.Manager, want[c.Name])
		}
		if _, ok := c.Annotations["example.com/a"]; ok != (c.Name == "one" || c.Name == "four") || len(c.Annotations) > 1 {
			t.Errorf("%s: got the annotations %v", c.Name, c.Annotations)
		}
	}
}

// testReservedKeysStay lets an object keep a reserved key that it has had since before, and obtain no other.
func testReservedKeysStay(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	with := func(labels, annotations map[string]string) *catalog.Cluster {
		c := cluster("one")
		c.Labels, c.Annotations = labels, annotations
		return c
	}
	type pairs = map[string]string
	if _, err := create(t.Context(), editor, with(nil, pairs{"leat.dev/team": "shop"})); err == nil {
		t.Error("a new object has a reserved key")
	}
	apply(t, s, with(nil, nil))
	if _, err := s.raw(t).ExecContext(t.Context(), `UPDATE clusters SET annotations = '{"leat.dev/team":"shop"}'`); err != nil {
		t.Fatal(err)
	}
	for name, next := range map[string]*catalog.Cluster{
		"changed":     with(nil, pairs{"leat.dev/team": "other"}),
		"added":       with(nil, pairs{"leat.dev/team": "shop", "leat.dev/more": ""}),
		"now a label": with(pairs{"leat.dev/team": "shop"}, nil),
	} {
		if _, err := update(t.Context(), editor, next); err == nil {
			t.Errorf("%s: it was accepted", name)
		}
	}
	for _, annotations := range []pairs{{"leat.dev/team": "shop", "example.com/a": "b"}, nil} {
		if _, err := update(t.Context(), editor, with(nil, annotations)); err != nil {
			t.Errorf("%v: %v", annotations, err)
		}
	}
}

// testSourcesFitTheirRepositories has sources of each type of repository. A repository keeps its
// type, so what was checked stays true.
func testSourcesFitTheirRepositories(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("git"), repository("helm"), repository("oci"))
	for _, kind := range []string{"helm", "oci"} {
		if _, err := s.raw(t).ExecContext(t.Context(), "UPDATE repositories SET type = '"+kind+"' WHERE name = '"+kind+"'"); err != nil {
			t.Fatal(err)
		}
	}
	version, layer := catalog.Ref{Kind: catalog.RefSemver, Value: "~4.2"}, catalog.ArtifactLayer{Files: true}
	for _, test := range []struct {
		source catalog.Source
		want   string // the field that does not fit; "" for none
	}{
		{catalog.Source{Repository: "git"}, ""},
		{catalog.Source{Repository: "git", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}, ""},
		{catalog.Source{Repository: "git", Chart: "web"}, "chart"},
		{catalog.Source{Repository: "git", Layer: layer}, "layer"},
		{catalog.Source{Repository: "helm", Chart: "web", Ref: version}, ""},
		{catalog.Source{Repository: "helm", Chart: "web"}, ""},
		{catalog.Source{Repository: "helm", Ref: version}, "chart"},
		{catalog.Source{Repository: "helm", Chart: "web", Layer: layer}, "layer"},
		{catalog.Source{Repository: "helm", Chart: "web", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}, "ref.branch"},
		{catalog.Source{Repository: "helm", Chart: "web", Ref: catalog.Ref{Kind: catalog.RefName, Value: "refs/tags/web/1"}}, "ref.name"},
		{catalog.Source{Repository: "oci", Layer: layer, Ref: catalog.Ref{Kind: catalog.RefTag, Value: "1.0"}}, ""},
		{catalog.Source{Repository: "oci", Ref: catalog.Ref{Kind: catalog.RefCommit, Value: strings.Repeat("a", 64)}}, ""},
		{catalog.Source{Repository: "oci", Ref: catalog.Ref{Kind: catalog.RefCommit, Value: strings.Repeat("a", 40)}}, "ref.commit"},
		{catalog.Source{Repository: "git", Ref: catalog.Ref{Kind: catalog.RefCommit, Value: "abcdef0"}}, ""},
		{catalog.Source{Repository: "oci", Chart: "web"}, "chart"},
		{catalog.Source{Repository: "oci", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}, "ref.branch"},
	} {
		app := &catalog.Service{Metadata: catalog.Metadata{Name: "app@one"}, Spec: catalog.ServiceSpec{
			Cluster: "one", Sources: []catalog.Source{{Repository: "git"}, test.source},
		}}
		_, err := catalog.NewEditor(s).Apply(t.Context(), []catalog.Object{app}, true)
		got := ""
		if e, ok := errors.AsType[*fielderr.Error](err); ok {
			got = strings.TrimPrefix(e.Path, "documents[0].spec.sources[1].")
		}
		if got != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%+v: got %v, want field %q", test.source, err, test.want)
		}
	}
	other := repository("helm")
	other.Spec.Type = upstream.TypeGit
	_, err := catalog.NewEditor(s).Apply(t.Context(), []catalog.Object{other}, false)
	if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "documents[0].spec.type" {
		t.Errorf("another type: got %v, want it refused", err)
	}
}

// testRoomInPlans fills the plan of a cluster with inline values. Its agent receives a plan in one
// message, so a service too many would cost it all of them.
func testRoomInPlans(t *testing.T, s subject) {
	large := func(name, cluster string) *catalog.Service {
		s := service(name, cluster, "demo")
		s.Spec.Options = &syncpolicy.Options{Render: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{
			Values: map[string]any{"text": strings.Repeat("x", 60<<10)},
		}}}}
		return s
	}
	apply(t, s, cluster("one"), cluster("two"), repository("demo"))
	var objects []catalog.Object
	for i := range 84 {
		objects = append(objects, large(fmt.Sprintf("app-%d", i), "one"))
	}
	apply(t, s, objects...)
	editor := catalog.NewEditor(s)
	_, err := editor.Apply(t.Context(), []catalog.Object{large("more-1", "one"), large("more-2", "one")}, false)
	if field, ok := errors.AsType[*fielderr.Error](err); !ok || field.Path != "documents[0].spec.render" || !strings.Contains(err.Error(), "put values into files") {
		t.Errorf("got %v, want a refusal of spec.render that says what to do", err)
	}
	changed := large("app-3", "one")
	changed.Spec.Options.Render[0].Helm.ReleaseName = "other"
	apply(t, s, changed, service("small", "one", "demo"), large("elsewhere", "two"))
}
