// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import "testing"

// TestEgressSeesBreaches checks that the instrument of the other tests detects breaches.
func TestEgressSeesBreaches(t *testing.T) {
	t.Parallel()
	type step struct {
		replica      string
		begin, lists bool
	}
	const list, objects, end = true, false, false
	for _, tc := range []struct {
		name  string
		steps []step
		want  int
	}{
		{"one after the other", []step{{"a", true, list}, {"a", end, list}, {"b", true, list}, {"b", end, list}}, 0},
		{"both at once", []step{{"a", true, list}, {"b", true, list}}, 1},
		{"a listing between another's listing and fetch", []step{
			{"a", true, list}, {"a", end, list}, {"b", true, list}, {"b", end, list}, {"a", true, objects},
		}, 1},
		{"a whole fetch", []step{{"a", true, list}, {"a", end, list}, {"a", true, objects}, {"a", end, objects}}, 0},
	} {
		e := newEgress()
		for _, s := range tc.steps {
			if s.begin {
				e.begin(s.replica, "repo", s.lists)
			} else {
				e.end(s.replica, "repo", s.lists)
			}
		}
		if got := len(e.overlaps()); got != tc.want {
			t.Errorf("%s: got %d breaches %v, want %d", tc.name, got, e.overlaps(), tc.want)
		}
	}
}
