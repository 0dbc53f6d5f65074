// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// TestHooksAreValues shows that returned values never change later.
func TestHooksAreValues(t *testing.T) {
	t.Parallel()
	a, b := object("Job", "a"), object("Job", "b")
	var zero inventory.Hooks
	first := zero.Begin("change", "run").Put(a).Put(b).End("a", "").End("b", "broke")
	want := inventory.Hooks{Change: "change", Run: "run", Ended: map[string]string{"a": "", "b": "broke"}, Objects: []inventory.Object{a, b}}
	check := func() {
		t.Helper()
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("first (-want +got):\n%s", diff)
		}
	}
	check()
	again := a
	again.UID = "another"
	second := first.Retry("run-2").Put(again).End("c", "")
	if diff := cmp.Diff([]inventory.Object{b, again}, second.Objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "", "c": ""}, second.Ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	if !first.Failed() || second.Failed() || second.Run != "run-2" || second.Change != "change" {
		t.Errorf("got failed %v and %v, run %q of %q", first.Failed(), second.Failed(), second.Run, second.Change)
	}
	check()
	third := first.Begin("other", "run-3").Remove(a.Key)
	if _, ok := third.Get(a.Key); ok || third.Ended != nil || third.Run != "run-3" {
		t.Errorf("got %+v, want no %s and nothing ended", third, a.Key)
	}
	if got, ok := third.Get(b.Key); !ok || got != b {
		t.Errorf("got %v, %v, want %v", got, ok, b)
	}
	check()
	if diff := cmp.Diff(inventory.Hooks{}, zero); diff != "" {
		t.Errorf("zero (-want +got):\n%s", diff)
	}
}
