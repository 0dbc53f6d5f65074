// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// reading counts the objects that edits read one by one.
type reading struct {
	catalog.Editable

	gets int
}

func (r *reading) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return r.Editable.Edit(ctx, func(ctx context.Context, tx catalog.Tx) error { return fn(ctx, readingTx{tx, r}) })
}

type readingTx struct {
	catalog.Tx

	r *reading
}

func (t readingTx) Get(ctx context.Context, key catalog.Key) (catalog.Object, error) {
	t.r.gets++
	return t.Tx.Get(ctx, key)
}

// testReadsBesideAnEdit reads in the middle of an edit. Calls of people whose tokens are looked up
// would wait otherwise for another person's edit.
func testReadsBesideAnEdit(t *testing.T, s subject) {
	clusters := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the edit waits for the read
		defer cancel()
		changes, err := s.Changes(ctx, 0)
		if err != nil {
			t.Error(err)
		}
		return len(changes.Clusters)
	}
	apply(t, s, cluster("one"))
	_, err := catalog.NewEditor(&beside{s, func() {
		if n := clusters(); n != 1 {
			t.Errorf("read %d clusters beside the edit, want the one from before it", n)
		}
	}}).Apply(t.Context(), []catalog.Object{cluster("two")}, false)
	if err != nil {
		t.Fatal(err)
	}
	if n := clusters(); n != 2 {
		t.Errorf("read %d clusters after the edit, want both", n)
	}
}

// beside calls do in each edit, after everything was written.
type beside struct {
	catalog.Editable

	do func()
}

func (b *beside) Edit(ctx context.Context, fn func(ctx context.Context, tx catalog.Tx) error) error {
	return b.Editable.Edit(ctx, func(ctx context.Context, tx catalog.Tx) error {
		err := fn(ctx, tx)
		b.do()
		return err
	})
}

// testReadsOnce has an edit of many services name the same cluster and repository, and the project default.
func testReadsOnce(t *testing.T, s subject) {
	counted := &reading{Editable: s}
	objects := []catalog.Object{repository("demo"), cluster("one")}
	for i := range 100 {
		objects = append(objects, service(fmt.Sprintf("app-%03d", i), "one", "demo"))
	}
	if _, err := catalog.NewEditor(counted).Apply(t.Context(), objects, false); err != nil {
		t.Fatal(err)
	}
	if most := len(objects) + 10; counted.gets > most {
		t.Errorf("an edit of %d objects read %d, want at most %d", len(objects), counted.gets, most)
	}
}

// testWaveClusters has a policy name more clusters than one statement reads: own ones, and shared
// ones of another project. They are not read one by one, because every other edit waits meanwhile.
func testWaveClusters(t *testing.T, s subject) {
	const own, shared = 600, 100
	lender := &catalog.Project{Metadata: catalog.Metadata{Name: "shop"}, Spec: catalog.ProjectSpec{Shares: []catalog.ProjectShare{
		{Projects: catalog.Selection{Names: []string{"default"}}, Clusters: catalog.Selection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}},
	}}}
	objects, names := []catalog.Object{lender}, []string{}
	for i := range own + shared {
		name := fmt.Sprintf("c%03d", i)
		if i >= own {
			name = "shop." + name
		}
		objects, names = append(objects, cluster(name)), append(names, name)
	}
	hidden := cluster("shop.hidden")
	hidden.Labels = nil
	apply(t, s, append(objects, hidden)...)
	policy := func(names ...string) *catalog.RolloutPolicy {
		p := &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}}
		for i := range 3 {
			from, to := i*len(names)/3, (i+1)*len(names)/3
			p.Spec.Strategy.Waves = append(p.Spec.Strategy.Waves, rollout.Wave{Name: fmt.Sprint("w", i), Clusters: names[from:to]})
		}
		return p
	}
	counted := &reading{Editable: s}
	editor := catalog.NewEditor(counted)
	if _, err := editor.Apply(t.Context(), []catalog.Object{policy(names...)}, false); err != nil {
		t.Fatal(err)
	}
	if counted.gets > 10 {
		t.Errorf("the edit read %d objects one by one, want a few", counted.gets)
	}
	for _, tt := range []struct{ name, project string }{{"nowhere", ""}, {"shop.nowhere", "default"}, {"shop.hidden", "default"}} {
		_, err := editor.Apply(t.Context(), []catalog.Object{policy(append(names[:699:699], tt.name)...)}, false)
		refused, ok := errors.AsType[*catalog.ReferenceError](err)
		if !ok || refused.Key.Name != tt.name || refused.Project != tt.project || refused.Path != "documents[0].spec.waves[2].clusters[233]" {
			t.Errorf("got %v for cluster %s, want that it is refused at its place", err, tt.name)
		}
	}
}
