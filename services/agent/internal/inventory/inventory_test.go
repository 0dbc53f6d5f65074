// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

func object(kind, name string) inventory.Object {
	return inventory.Object{Ref: inventory.Ref{Key: inventory.Key{Kind: kind, Namespace: "web", Name: name}, Version: "v1"}, UID: "uid-" + name}
}

func names(objects []inventory.Object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.Name)
	}
	return all
}

func TestDecide(t *testing.T) {
	t.Parallel()
	many := func(kind string, n int) (objects []inventory.Object) {
		for i := range n {
			objects = append(objects, object(kind, fmt.Sprint(kind, i)))
		}
		return objects
	}
	for name, test := range map[string]struct {
		total                   int
		gone                    []inventory.Object
		confirmed               bool
		delete, detach, guarded int
	}{
		"nothing":                            {total: 10},
		"few of few":                         {total: 4, gone: many("ConfigMap", 4), delete: 4},
		"five of many":                       {total: 17, gone: many("ConfigMap", 5), delete: 5},
		"exactly the share":                  {total: 20, gone: many("ConfigMap", 6), delete: 6},
		"more than the share":                {total: 19, gone: many("ConfigMap", 6), guarded: 6},
		"everything":                         {total: 5, gone: many("ConfigMap", 5), guarded: 5},
		"confirmed":                          {total: 5, gone: many("ConfigMap", 5), confirmed: true, delete: 5},
		"precious ones are never deleted":    {total: 5, gone: many("Namespace", 5), confirmed: true, detach: 5},
		"precious ones do not count":         {total: 9, gone: append(many("PersistentVolumeClaim", 5), many("ConfigMap", 4)...), delete: 4, detach: 5},
		"a stopped prune detaches nothing":   {total: 9, gone: append(many("Namespace", 1), many("ConfigMap", 5)...), guarded: 5},
		"a namesake of another group may go": {total: 9, gone: []inventory.Object{{Ref: inventory.Ref{Key: inventory.Key{Group: "x.test", Kind: "Namespace", Name: "n"}}}}, delete: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := inventory.DefaultGuard().Decide(test.total, test.gone, test.confirmed)
			if len(got.Delete) != test.delete || len(got.Detach) != test.detach || len(got.Guarded) != test.guarded {
				t.Errorf("got %d deleted, %d detached, %d guarded, want %d, %d, %d",
					len(got.Delete), len(got.Detach), len(got.Guarded), test.delete, test.detach, test.guarded)
			}
			if got.Stopped() != (test.guarded > 0) {
				t.Errorf("stopped: got %v", got.Stopped())
			}
		})
	}
}

// anyObject draws objects from few names, so that sets overlap.
func anyObject() *rapid.Generator[inventory.Object] {
	return rapid.Custom(func(t *rapid.T) inventory.Object {
		return inventory.Object{
			Ref: inventory.Ref{
				Key: inventory.Key{
					Group:     rapid.SampledFrom([]string{"", "apps", "rbac.authorization.k8s.io", "apiextensions.k8s.io"}).Draw(t, "group"),
					Kind:      rapid.SampledFrom([]string{"ConfigMap", "Role", "Namespace", "CustomResourceDefinition"}).Draw(t, "kind"),
					Namespace: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace"),
					Name:      rapid.SampledFrom([]string{"x", "y", "system:z", "a.b-c"}).Draw(t, "name"),
				},
				Version: rapid.SampledFrom([]string{"v1", "v1beta1"}).Draw(t, "version"),
			},
			UID: rapid.SampledFrom([]string{"", "uid-1", "uid-2"}).Draw(t, "uid"),
		}
	})
}

func TestSetProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := inventory.NewSet(rapid.SliceOf(anyObject()).Draw(t, "a")...)
		b := inventory.NewSet(rapid.SliceOf(anyObject()).Draw(t, "b")...)
		gone := a.Minus(b)
		kept := 0
		for _, o := range a.Objects() {
			if _, ok := b.Get(o.Key); ok {
				kept++
			}
		}
		if len(gone)+kept != a.Len() {
			t.Fatalf("got %d gone and %d kept, want %d together", len(gone), kept, a.Len())
		}
		for _, o := range gone {
			if _, ok := b.Get(o.Key); ok {
				t.Fatalf("%s is gone and desired", o.Key)
			}
		}
		clone := a.Clone()
		for _, o := range gone {
			clone.Remove(o.Key)
		}
		if len(clone.Minus(b)) != 0 || !a.Equal(inventory.NewSet(a.Objects()...)) {
			t.Fatal("removing what is gone leaves something gone, or changed the original")
		}
	})
}

// TestGuardProperties holds whatever the sizes: without a confirmation no more than the share, or fewer than five, are
// deleted, and precious objects never.
func TestGuardProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gone := inventory.NewSet(rapid.SliceOf(anyObject()).Draw(t, "gone")...).Objects()
		total := len(gone) + rapid.IntRange(0, 100).Draw(t, "rest")
		d := inventory.DefaultGuard().Decide(total, gone, false)
		if n := len(d.Delete); n >= 5 && n*100 > 30*total {
			t.Fatalf("deletes %d of %d", n, total)
		}
		for _, o := range d.Delete {
			if inventory.Precious(o.Key) {
				t.Fatalf("deletes %s", o.Key)
			}
		}
		if !d.Stopped() && len(d.Delete)+len(d.Detach) != len(gone) {
			t.Fatalf("got %d deleted and %d detached, want %d together", len(d.Delete), len(d.Detach), len(gone))
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := inventory.Record{
			Service: "web", Owner: "o", ServiceUID: "u", Prune: rapid.Bool().Draw(t, "prune"), Guarded: "sha256:1", Base: 3, Touched: true,
			Applied: inventory.Applied{SpecDigest: "s", Digests: []string{"d"}, Commits: []string{"c"}, At: time.Unix(1, 2).UTC(), Took: time.Second},
			Objects: inventory.NewSet(rapid.SliceOf(anyObject()).Draw(t, "objects")...),
			Hooks: inventory.Hooks{
				Change: "c", Run: "r", Ended: map[string]string{"a": "", "b": "failed"},
				Objects: rapid.SliceOfN(anyObject(), 1, 3).Draw(t, "hooks"), Farewell: []json.RawMessage{json.RawMessage(`{"kind":"Job"}`)},
			},
		}
		limit := rapid.IntRange(1, 500).Draw(t, "limit")
		head, shards, err := want.Encode(limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, shard := range shards {
			if len(shard) > limit && strings.Count(string(shard), "\n") > 1 {
				t.Fatalf("got a shard of %d bytes, want at most %d", len(shard), limit)
			}
		}
		got, err := inventory.Decode(head, shards)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Objects.Equal(want.Objects) {
			t.Fatalf("objects: got %v, want %v", got.Objects.Objects(), want.Objects.Objects())
		}
		got.Objects, want.Objects = inventory.Set{}, inventory.Set{}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(inventory.Set{})); diff != "" {
			t.Fatalf("record (-want +got):\n%s", diff)
		}
	})
}

func TestDecodeRefusesHalves(t *testing.T) {
	t.Parallel()
	record := inventory.Record{Service: "web", Objects: inventory.NewSet(object("ConfigMap", "a"), object("ConfigMap", "b"))}
	head, shards, err := record.Encode(10)
	if err != nil || len(shards) != 2 {
		t.Fatalf("got %d shards, %v, want 2", len(shards), err)
	}
	for name, test := range map[string]struct {
		head   string
		shards [][]byte
	}{
		"missing shard":  {string(head), shards[:1]},
		"no JSON":        {"{", shards},
		"other format":   {`{"format":2}`, shards},
		"no uid":         {string(head), [][]byte{[]byte("/v1/ConfigMap/web/a\n")}},
		"too few fields": {string(head), [][]byte{[]byte("v1/ConfigMap/web/a uid\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := inventory.Decode([]byte(test.head), test.shards); !errors.Is(err, inventory.ErrMalformed) || got.Objects.Len() > 0 {
				t.Errorf("got %d objects, %v, want ErrMalformed", got.Objects.Len(), err)
			}
		})
	}
}

func TestOrderAndNames(t *testing.T) {
	t.Parallel()
	set := inventory.NewSet(object("Role", "b"), object("ConfigMap", "c"), object("ConfigMap", "a"))
	if diff := cmp.Diff([]string{"a", "c", "b"}, names(set.Objects())); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	key := inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "front"}
	if got, want := key.String(), "Deployment.apps web/front"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (inventory.Key{Kind: "Node", Name: "n"}).String(), "Node n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
