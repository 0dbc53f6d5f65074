// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// testUndoRecords makes random edits and keeps the catalog after each. Undoing the records of the last
// one, of the one before, and so on leads back to each of these catalogs, and at last to an empty one.
func testUndoRecords(t *testing.T, s subject) {
	w := observe(t, s)
	e := &edits{rand: rand.New(rand.NewPCG(2, 3))}
	type version struct {
		sequence int64
		objects  map[journal.ObjectName]string
	}
	versions := []version{{}}
	for range 120 {
		_, _ = e.step(as(t.Context(), "ada", "because of ada"), w) // a refused edit changes nothing
		records := w.records(t)
		if len(records) > 0 {
			versions = append(versions, version{records[len(records)-1].Sequence, documentsOf(t, presentOf(t, w, s))})
		}
	}
	past, records := presentOf(t, w, s), w.records(t)
	if len(records) < 60 {
		t.Fatalf("got %d records of 120 edits", len(records))
	}
	for i := len(versions) - 1; i >= 0; i-- {
		for len(records) > 0 && records[len(records)-1].Sequence > versions[i].sequence {
			if err := past.Undo(records[len(records)-1]); err != nil {
				t.Fatal(err)
			}
			records = records[:len(records)-1]
		}
		if diff := cmp.Diff(versions[i].objects, documentsOf(t, past), cmpEmpty); diff != "" {
			t.Fatalf("after record %d (-as it was +undone):\n%s", versions[i].sequence, diff)
		}
	}
	for _, r := range w.records(t) {
		if r.Kind == string(catalog.KindUser) && r.Verb == catalog.VerbCreate {
			if err := past.Undo(r); !errors.Is(err, journal.ErrInconsistent) {
				t.Errorf("got %v for a record that is undone twice, want %v", err, journal.ErrInconsistent)
			}
		}
	}
}

// cmpEmpty treats the empty catalog as nil.
var cmpEmpty = cmp.Transformer("nil", func(m map[journal.ObjectName]string) map[journal.ObjectName]string {
	if len(m) == 0 {
		return nil
	}
	return m
})

// presentOf returns the objects of the catalog, as the hub describes them.
func presentOf(t *testing.T, w *witness, s subject) *journal.Past {
	t.Helper()
	past := journal.NewPast("Cluster", "Service", "User", "AccessBinding")
	c := changes(t, s, 0)
	err := w.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		var keys []catalog.Key
		for _, o := range c.Clusters {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Services {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Users {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Bindings {
			keys = append(keys, o.Key())
		}
		for _, key := range keys {
			object, err := tx.Get(ctx, key)
			if err != nil {
				return err
			}
			document, err := people.Describe(object)
			if err != nil {
				return err
			}
			name := key.Name
			if key.Kind.InProject() {
				name = objectname.Display(name)
			}
			if err := past.Put(journal.ObjectName{Kind: string(key.Kind), Name: name}, document); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return past
}

// documentsOf returns the documents of the objects of a Past.
func documentsOf(t *testing.T, past *journal.Past) map[journal.ObjectName]string {
	t.Helper()
	all := map[journal.ObjectName]string{}
	for _, kind := range []catalog.Kind{catalog.KindCluster, catalog.KindService, catalog.KindUser, catalog.KindAccessBinding} {
		for _, name := range past.Names(string(kind)) {
			object := journal.ObjectName{Kind: string(kind), Name: name}
			document, err := past.Document(object)
			if err != nil {
				t.Fatal(err)
			}
			all[object] = string(document)
		}
	}
	return all
}
