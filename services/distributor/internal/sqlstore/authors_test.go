// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// kindOf returns an object of the kind that the test has read.
func kindOf[O catalog.Object](t *testing.T, object catalog.Object) O {
	t.Helper()
	typed, ok := object.(O)
	if !ok {
		t.Fatalf("got a %T", object)
	}
	return typed
}

// testAuthors edits objects as several people. The authors of services' content stay on record when
// others change the rest.
func testAuthors(t *testing.T, s subject) {
	ctx := t.Context()
	template := service("x", "one")
	template.Spec.Sources = []catalog.Source{{Repository: "demo"}}
	global := &catalog.GlobalService{Metadata: catalog.Metadata{Name: "all"}, Spec: catalog.GlobalServiceSpec{
		Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{Names: []string{"one"}}}, Template: catalog.ServiceTemplate{Spec: template.Spec},
	}}
	global.Spec.Template.Spec.Cluster = ""
	source := &catalog.FleetSource{Metadata: catalog.Metadata{Name: "gitops"}, Spec: catalog.FleetSourceSpec{Source: catalog.Source{Repository: "demo"}}}
	person := func(name string) context.Context {
		return catalog.WithOrigin(ctx, catalog.Origin{Subject: "user:" + name})
	}
	objects := []catalog.Object{repository("demo"), cluster("one"), service("app", "one", "demo"), service("git", "one", "demo"), global, source}
	outcomes, err := catalog.NewEditor(s).Apply(person("maker"), objects, false)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // of objects, by uid
	for _, outcome := range outcomes {
		names[outcome.Object.Meta().UID] = outcome.Object.Key().Name
	}
	sourceUID := outcomes[5].Object.Meta().UID
	// authors returns the stored authors, as text.
	authors := func() []string {
		t.Helper()
		stored, err := sqlstore.RolloutsOf(s.Store).Authors(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		all := []string{}
		for _, author := range stored {
			all = append(all, fmt.Sprintf("%s by %s at %d", names[author.ObjectUID], strings.Replace(author.Subject, sourceUID, "gitops", 1), author.Revision))
		}
		slices.Sort(all)
		return all
	}
	edit := func(ctx context.Context, editor *catalog.Editor, key catalog.Key, change func(catalog.Object)) {
		t.Helper()
		var object catalog.Object
		err := s.Edit(ctx, func(ctx context.Context, tx catalog.Tx) (err error) {
			object, err = tx.Get(ctx, key)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		change(object)
		if _, err := update(ctx, editor, object); err != nil {
			t.Fatal(err)
		}
	}
	app := catalog.Key{Kind: catalog.KindService, Name: "app@one"}
	fromGit := catalog.Key{Kind: catalog.KindService, Name: "git@one"}
	setOptions := func(namespace string, isPaused bool) func(catalog.Object) {
		return func(object catalog.Object) {
			spec := &kindOf[*catalog.Service](t, object).Spec
			options := spec.Wanted()
			options.Namespace, options.Paused = namespace, isPaused
			spec.Options = &options
		}
	}
	override := func(o catalog.ServiceOverride) func(catalog.Object) {
		return func(object catalog.Object) {
			kindOf[*catalog.GlobalService](t, object).Spec.Overrides = []catalog.ServiceOverride{o}
		}
	}
	label := func(object catalog.Object) { object.Meta().Labels = map[string]string{"env": "dev"} }
	hub := catalog.NewEditor(s)
	inOne := catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{Names: []string{"one"}}}
	if diff := cmp.Diff([]string{}, authors()); diff != "" {
		t.Errorf("authors of new objects (-want +got):\n%s", diff)
	}
	for _, step := range []func(){
		func() { edit(person("ada"), hub, app, setOptions("two", false)) }, // revision 2
		func() { edit(person("bob"), hub, app, setOptions("two", true)) },
		func() { edit(person("bob"), hub, app, func(o catalog.Object) { o.Meta().Annotations = nil }) },
		func() {
			if _, err := hub.RequestSync(person("bob"), app.Name, false); err != nil {
				t.Fatal(err)
			}
		},
		func() { edit(person("carl"), hub, app, setOptions("three", true)) }, // 6
		func() {
			edit(person("bob"), hub, global.Key(), override(catalog.ServiceOverride{Name: "o", Clusters: inOne, Patch: catalog.ServicePatch{Paused: new(true)}}))
		},
		func() {
			edit(person("ada"), hub, global.Key(), override(catalog.ServiceOverride{Name: "o", Clusters: inOne, Patch: catalog.ServicePatch{Namespace: new("x")}}))
		}, // 8
		func() { edit(person("dan"), hub, catalog.Key{Kind: catalog.KindCluster, Name: "one"}, label) }, // 9
		func() {
			edit(person("bob"), hub, source.Key(), func(o catalog.Object) { kindOf[*catalog.FleetSource](t, o).Spec.Suspended = true })
		},
	} {
		step()
	}
	want := []string{"all by user:ada at 8", "app@one by user:ada at 2", "app@one by user:carl at 6", "one by user:dan at 9"}
	if diff := cmp.Diff(want, authors()); diff != "" {
		t.Errorf("authors of edits (-want +got):\n%s", diff)
	}

	// maker created the fleet source, so they count in what it writes first.
	git := hub.ManagedAs(catalog.Manager{Source: catalog.SourceRef{Path: "gitops", UID: sourceUID}, Version: 10, Adopt: true})
	bySource := catalog.WithOrigin(ctx, catalog.Origin{Subject: "fleetsource:gitops"})
	write := func(namespace string) {
		t.Helper()
		next := service("git", "one", "demo")
		setOptions(namespace, false)(next)
		if _, err := git.Apply(bySource, []catalog.Object{next}, false); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	write("two")
	want = append(want, "git@one by fleetsource:gitops at 12", "git@one by user:maker at 11")
	slices.Sort(want)
	if diff := cmp.Diff(want, authors()); diff != "" {
		t.Errorf("authors of what a fleet source writes (-want +got):\n%s", diff)
	}

	for _, key := range []catalog.Key{app, fromGit, global.Key(), {Kind: catalog.KindCluster, Name: "one"}, source.Key()} {
		if _, err := hub.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{}, authors()); diff != "" {
		t.Errorf("authors of deleted objects (-want +got):\n%s", diff)
	}
}

// testManyAuthors has more people edit a service than are remembered.
func testManyAuthors(t *testing.T, s subject) {
	apply(t, s, repository("demo"), cluster("one"), service("app", "one", "demo"))
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		for i := range catalog.MaxAuthors + 3 {
			if err := tx.PutAuthors(ctx, []catalog.Author{{ObjectUID: "x", Subject: fmt.Sprintf("user:%d", i), Revision: int64(i + 1), At: catalog.Now()}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := sqlstore.RolloutsOf(s.Store).Authors(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	hasLatest := slices.ContainsFunc(stored, func(a catalog.Author) bool { return a.Subject == fmt.Sprintf("user:%d", catalog.MaxAuthors+2) })
	if len(stored) != catalog.MaxAuthors || !hasLatest {
		t.Errorf("got %d authors, the latest among them: %v, want %d", len(stored), hasLatest, catalog.MaxAuthors)
	}
}

// testAuthorsOfConfigs edits what configurations are made of, as several people. Each counts as an author of the
// object that they edited, and a pause or a description leaves them there.
func testAuthorsOfConfigs(t *testing.T, s subject) {
	ctx, hub := t.Context(), catalog.NewEditor(s)
	person := func(name string) context.Context {
		return catalog.WithOrigin(ctx, catalog.Origin{Subject: "user:" + name})
	}
	apply := func(by string, objects ...catalog.Object) {
		t.Helper()
		if _, err := hub.Apply(person(by), objects, false); err != nil {
			t.Fatal(err)
		}
	}
	set := func(description, value string) *catalog.ConfigSet {
		return &catalog.ConfigSet{Metadata: catalog.Metadata{Name: "base"}, Spec: catalog.ConfigSetSpec{
			Description: description, Config: &catalog.Config{Values: map[string]string{"A": value}},
		}}
	}
	configured := func(isPaused bool, value string, sets ...string) *catalog.Service {
		next := service("app", "one", "demo")
		options := next.Spec.Wanted()
		options.Paused = isPaused
		next.Spec.Options, next.Spec.Config, next.Spec.ConfigSets = &options, &catalog.Config{Values: map[string]string{"B": value}}, sets
		return next
	}
	project := func(sets ...string) *catalog.Project {
		return &catalog.Project{Metadata: catalog.Metadata{Name: "default"}, Spec: catalog.ProjectSpec{ConfigSets: sets}}
	}
	apply("maker", repository("demo"), cluster("one"), set("", "1"), configured(false, "1"), project())
	apply("ada", set("", "2"))
	apply("bob", set("described", "2"))
	apply("carl", configured(false, "2"))
	apply("bob", configured(true, "2"))
	apply("dan", configured(true, "2", "base"))
	apply("eve", project("base"))
	stored, err := sqlstore.RolloutsOf(s.Store).Authors(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, author := range stored {
		got = append(got, author.Subject)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"user:ada", "user:carl", "user:dan", "user:eve", "user:maker"}, got); diff != "" {
		t.Errorf("authors (-want +got):\n%s", diff)
	}
}
