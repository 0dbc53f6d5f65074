// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// TestIndexIsAMap applies the same operations to an Index and to a map.
func TestIndexIsAMap(t *testing.T) {
	t.Parallel()
	letter := rapid.SampledFrom([]string{"", "a", "b", "ab"})
	key := rapid.Custom(func(t *rapid.T) inventory.Key {
		return inventory.Key{Group: letter.Draw(t, "group"), Kind: letter.Draw(t, "kind"), Namespace: letter.Draw(t, "namespace"), Name: letter.Draw(t, "name")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var x inventory.Index[int]
		want := map[inventory.Key]int{}
		clone, cloned := x.Clone(), maps.Clone(want)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
				x.Put(k, v)
				want[k] = v
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				x.Remove(k)
				delete(want, k)
			},
			"remove some": func(t *rapid.T) {
				limit := rapid.Int().Draw(t, "limit")
				x.RemoveFunc(func(_ inventory.Key, v *int) bool { return *v < limit })
				maps.DeleteFunc(want, func(_ inventory.Key, v int) bool { return v < limit })
			},
			"clone": func(*rapid.T) { clone, cloned = x.Clone(), maps.Clone(want) },
			"":      func(t *rapid.T) { compareIndex(t, &x, want); compareIndex(t, &clone, cloned) },
		})
	})
}

func compareIndex(t *rapid.T, x *inventory.Index[int], want map[inventory.Key]int) {
	var keys []inventory.Key
	got := map[inventory.Key]int{}
	for k, v := range x.All() {
		keys = append(keys, k)
		got[k] = *v
		if at := x.At(k); at == nil || *at != *v {
			t.Fatalf("%v: got %v, want %d", k, at, *v)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || x.Len() != len(want) {
		t.Fatalf("index (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(keys, inventory.Key.Compare) {
		t.Fatalf("got %v, want it in order", keys)
	}
}

// TestSetKeepsObjects puts objects with UIDs of all sorts into a set.
func TestSetKeepsObjects(t *testing.T) {
	t.Parallel()
	for _, uid := range []string{
		"", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3F2504E0-4F89-11D3-9A0C-0305E82C3301", "00000000-0000-0000-0000-000000000000",
		"3f2504e0-4f89-11d3-9a0c-0305e82c330", "3f2504e0x4f89-11d3-9a0c-0305e82c3301", "3f2504e0-4f89-11d3-9a0c-0305e82c330g", "odd",
	} {
		want := inventory.Object{
			Ref: inventory.Ref{Key: inventory.Key{Group: "g", Kind: "K", Namespace: "ns", Name: "n"}, Version: "v1"},
			UID: uid, Wave: -7, Wish: inventory.Keep, Agreed: true, Counted: true,
		}
		set := inventory.NewSet(want)
		got, _ := set.Get(want.Key)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("object (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]inventory.Object{want}, set.Objects()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	}
}
