// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
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

func many(kind string, n int) (objects []inventory.Object) {
	for i := range n {
		objects = append(objects, object(kind, fmt.Sprint(kind, i)))
	}
	return objects
}

func agreed(objects []inventory.Object) []inventory.Object {
	for i := range objects {
		objects[i].Agreed = true
	}
	return objects
}

func counted(objects []inventory.Object) []inventory.Object {
	for i := range objects {
		objects[i].Counted = true
	}
	return objects
}

func TestGuard(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		departure inventory.Departure
		want      bool
	}{
		"nothing":               {inventory.Departure{Base: 10, Left: 10}, false},
		"nothing of nothing":    {inventory.Departure{}, false},
		"few of few":            {inventory.Departure{Base: 5, Left: 1, Going: many("ConfigMap", 4)}, false},
		"all of few":            {inventory.Departure{Base: 4, Going: many("ConfigMap", 4)}, true},
		"the only one":          {inventory.Departure{Base: 1, Going: many("ConfigMap", 1)}, true},
		"five of many":          {inventory.Departure{Base: 17, Left: 12, Going: many("ConfigMap", 5)}, false},
		"exactly the share":     {inventory.Departure{Base: 20, Left: 14, Going: many("ConfigMap", 6)}, false},
		"more than the share":   {inventory.Departure{Base: 19, Left: 13, Going: many("ConfigMap", 6)}, true},
		"agreed":                {inventory.Departure{Base: 5, Going: agreed(many("ConfigMap", 5))}, false},
		"half agreed":           {inventory.Departure{Base: 20, Left: 8, Going: append(agreed(many("A", 6)), many("B", 6)...)}, false},
		"more than agreed":      {inventory.Departure{Base: 20, Left: 1, Going: append(agreed(many("A", 6)), many("B", 7)...)}, true},
		"several failed prunes": {inventory.Departure{Base: 20, Pruned: 4, Left: 13, Going: many("ConfigMap", 3)}, true},
		"tried again":           {inventory.Departure{Base: 20, Pruned: 6, Left: 14, Going: counted(many("ConfigMap", 6))}, false},
		"tried again, and more": {inventory.Departure{Base: 20, Pruned: 6, Left: 13, Going: append(counted(many("A", 6)), many("B", 1)...)}, true},
		"emptied meanwhile":     {inventory.Departure{Base: 4, Pruned: 3, Going: counted(many("ConfigMap", 3))}, true},
		"protected ones count":  {inventory.Departure{Base: 10, Left: 1, Going: many("Namespace", 9)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := inventory.DefaultGuard().Holds(test.departure); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestDigestNamesTheSet(t *testing.T) {
	t.Parallel()
	a, b := object("ConfigMap", "a"), object("ConfigMap", "b")
	other := a
	other.UID = "another"
	digest := inventory.Digest("s", []inventory.Object{a, b})
	if got := inventory.Digest("s", []inventory.Object{b, a}); got != digest {
		t.Errorf("got %s and %s, want the order not to count", digest, got)
	}
	for name, got := range map[string]string{
		"less": inventory.Digest("s", []inventory.Object{a}), "another UID": inventory.Digest("s", []inventory.Object{other, b}),
		"another service": inventory.Digest("t", []inventory.Object{a, b}),
	} {
		if got == digest {
			t.Errorf("%s: got the same digest, want another", name)
		}
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
					Name:      rapid.SampledFrom([]string{"x", "y", "system:z", "a.b-c", "with space", "line\nbreak"}).Draw(t, "name"),
				},
				Version: rapid.SampledFrom([]string{"v1", "v1beta1"}).Draw(t, "version"),
			},
			UID:    rapid.SampledFrom([]string{"", "uid-1", "=x y", "5c1b0b44-36a5-4c29-9f6f-3b8a4a5d8f10", "5C1B0B44-36A5-4C29-9F6F-3B8A4A5D8F10"}).Draw(t, "uid"),
			Wave:   rapid.IntRange(-3, 3).Draw(t, "wave"),
			Wish:   rapid.SampledFrom([]inventory.Wish{inventory.NoWish, inventory.Keep, inventory.Permit}).Draw(t, "wish"),
			Agreed: rapid.Bool().Draw(t, "agreed"), Counted: rapid.Bool().Draw(t, "counted"),
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

// TestGuardProperties checks for any sizes that objects which leave without an agreement are within
// the share, or fewer than five, and never all.
func TestGuardProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		going := inventory.NewSet(rapid.SliceOf(anyObject()).Draw(t, "going")...).Objects()
		d := inventory.Departure{Left: rapid.IntRange(0, 100).Draw(t, "left"), Pruned: rapid.IntRange(0, 10).Draw(t, "pruned"), Going: going}
		d.Base = len(going) + d.Left
		if inventory.DefaultGuard().Holds(d) {
			return
		}
		unasked, uncounted := 0, 0
		for _, o := range going {
			switch {
			case o.Agreed:
			case o.Counted:
				unasked++
			default:
				unasked, uncounted = unasked+1, uncounted+1
			}
		}
		if n := uncounted + d.Pruned; unasked > 0 && (d.Left == 0 || n >= 5 && n*100 > 30*d.Base) {
			t.Fatalf("%d of %d may go, %d of them without an agreement", len(going), d.Base, unasked)
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := inventory.Record{
			Service: "web", Owner: "o", ServiceUID: "u", Prune: rapid.Bool().Draw(t, "prune"), Guarded: "sha256:1", Base: 3, Pruned: 2, Touched: true,
			Deletion: syncpolicy.Deletion{Propagation: syncpolicy.DeleteOrphan, Timeout: time.Minute, Detach: true, Namespaces: true},
			Applied:  inventory.Applied{SpecDigest: "s", Digests: []string{"d"}, Commits: []string{"c"}, At: time.Unix(1, 2).UTC(), Took: time.Second, First: rapid.Bool().Draw(t, "first")},
			Objects:  inventory.NewSet(rapid.SliceOf(anyObject()).Draw(t, "objects")...),
			Hooks: inventory.Hooks{
				Change: "c", Run: "r", Ended: map[string]string{"a": "", "b": "failed"},
				Objects: rapid.SliceOfN(anyObject(), 1, 3).Draw(t, "hooks"), DeleteHooks: []json.RawMessage{json.RawMessage(`{"kind":"Job"}`)},
			},
		}
		head, shards, err := want.Encode()
		if err != nil {
			t.Fatal(err)
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

// TestInstalls follows a service: installed objects stay installed until something else is applied.
func TestInstalls(t *testing.T) {
	t.Parallel()
	one, two := inventory.Applied{SpecDigest: "s", Digests: []string{"one"}}, inventory.Applied{SpecDigest: "s", Digests: []string{"two"}}
	again := one
	again.SyncRequest, again.Commits = "asked", []string{"c2"}
	var last inventory.Applied
	for _, step := range []struct {
		next       inventory.Applied
		isComplete bool
		want       bool
	}{
		{one, false, true},
		{two, false, true},
		{one, true, true},
		{one, true, true},
		{again, true, true},
		{two, false, false},
		{one, true, true},
		{two, true, false},
		{two, true, false},
		{one, true, false},
	} {
		got := last.Installs(step.next)
		if got != step.want {
			t.Fatalf("%v after %v: installs is %v", step.next, last, got)
		}
		if step.isComplete {
			last = step.next
			last.At, last.First = time.Unix(1, 0), got
		}
	}
}

func TestDecodeRefusesHalves(t *testing.T) {
	t.Parallel()
	record := inventory.Record{Service: "web", Objects: inventory.NewSet(many("ConfigMap", inventory.ShardObjects+1)...)}
	head, shards, err := record.Encode()
	if err != nil || len(shards) != 2 {
		t.Fatalf("got %d shards, %v, want 2", len(shards), err)
	}
	for name, test := range map[string]struct {
		head   string
		shards [][]byte
	}{
		"missing shard":  {string(head), shards[:1]},
		"no JSON":        {"{", shards},
		"other format":   {`{"format":3}`, shards},
		"no kind":        {string(head), [][]byte{[]byte("a - 0 -\n")}},
		"half a kind":    {string(head), [][]byte{[]byte("/v1/ConfigMap\na - 0 -\n")}},
		"too few words":  {string(head), [][]byte{[]byte("/v1/ConfigMap/web\na - 0\n")}},
		"no wave":        {string(head), [][]byte{[]byte("/v1/ConfigMap/web\na - x -\n")}},
		"no uid":         {string(head), [][]byte{[]byte("/v1/ConfigMap/web\na .x 0 -\n")}},
		"old, no uid":    {`{"format":1,"objects":1}`, [][]byte{[]byte("/v1/ConfigMap/web/a\n")}},
		"old, too short": {`{"format":1,"objects":1}`, [][]byte{[]byte("v1/ConfigMap/web/a uid\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := inventory.Decode([]byte(test.head), test.shards); !errors.Is(err, inventory.ErrMalformed) || got.Objects.Len() > 0 {
				t.Errorf("got %d objects, %v, want ErrMalformed", got.Objects.Len(), err)
			}
		})
	}
}

// TestOldFormat reads the format of agents that did not record waves.
func TestOldFormat(t *testing.T) {
	t.Parallel()
	head := `{"format":1,"service":"web","prune":true,"base":2,"objects":2}`
	got, err := inventory.Decode([]byte(head), [][]byte{[]byte("/v1/ConfigMap/web/a uid-a\n"), []byte("apps/v1/Deployment/web/b \n")})
	if err != nil {
		t.Fatal(err)
	}
	deployment := inventory.Object{Ref: inventory.Ref{Key: inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "b"}, Version: "v1"}}
	if want := inventory.NewSet(object("ConfigMap", "a"), deployment); !got.Objects.Equal(want) || !got.Prune || got.Base != 2 {
		t.Errorf("got %+v, want %v", got, want.Objects())
	}
}

// TestNewerFormat ignores words that later agents add to an object.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	got, err := inventory.Decode([]byte(`{"format":2,"objects":1}`), [][]byte{[]byte("/v1/ConfigMap/web\na =uid-a 0 - more and more\n")})
	if want := inventory.NewSet(object("ConfigMap", "a")); err != nil || !got.Objects.Equal(want) {
		t.Errorf("got %+v, %v, want one object", got, err)
	}
}

// TestOneChangeOneShard changes one of ten thousand objects.
func TestOneChangeOneShard(t *testing.T) {
	t.Parallel()
	record := inventory.Record{Service: "web"}
	for i := range 10_000 {
		o := object("ConfigMap", fmt.Sprintf("settings-of-shop-%d", i))
		o.UID = fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		record.Objects.Put(o)
	}
	_, before, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	record.Objects.Put(object("ConfigMap", "settings-of-shop-77"))
	_, after, err := record.Encode()
	if err != nil || len(after) != len(before) {
		t.Fatalf("got %d shards, %v, want %d", len(after), err, len(before))
	}
	changed, total := 0, 0
	for i := range after {
		total += len(after[i])
		if string(before[i]) != string(after[i]) {
			changed++
		}
		if len(after[i]) > 64<<10 {
			t.Errorf("shard %d: got %d bytes, want at most 64 KiB", i, len(after[i]))
		}
	}
	if changed != 1 || total > 1<<20 {
		t.Errorf("got %d shards changed of %d with %d bytes, want 1 of less than 1 MiB", changed, len(after), total)
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
