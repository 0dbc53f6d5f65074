// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestDepart has members leave one after the other, as reports come: no more than the policy allows of the
// clusters that there were before the first.
func TestDepart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		clusters  int
		percent   *int32
		wantsLeft int
	}{
		{1, nil, 1}, {4, nil, 1}, {19, nil, 1}, {20, nil, 2}, {29, nil, 2}, {100, nil, 10}, {4, new(int32(50)), 2}, {4, new(int32(0)), 1}, {4, new(int32(100)), 4},
	} {
		policy, members, departures := catalog.RemovalPolicy{MaxPercent: test.percent}, map[string]struct{}{}, catalog.Departures{}
		for i := range test.clusters {
			members[fmt.Sprint(i)] = struct{}{}
		}
		for i := range test.clusters {
			uid := fmt.Sprint(i)
			state := policy.Depart(departures, members)
			departures[uid] = catalog.Departure{State: state, Revision: int64(i + 1)}
			// Every other one is still seen as a member: another replica has just taken the report.
			if state == catalog.DepartureLeft && i%2 == 0 {
				delete(members, uid)
			}
		}
		if left, held := departures.Count(); left != test.wantsLeft || left+held != test.clusters {
			t.Errorf("%d clusters, %v percent: %d left and %d are held, want %d to leave", test.clusters, test.percent, left, held, test.wantsLeft)
		}
	}
}

// TestDigestOfDepartures agrees to one question alone.
func TestDigestOfDepartures(t *testing.T) {
	t.Parallel()
	held := func(revision int64) catalog.Departure {
		return catalog.Departure{State: catalog.DepartureHeld, Revision: revision}
	}
	one := catalog.Departures{"a": held(3), "b": held(4), "c": {State: catalog.DepartureLeft, Revision: 2}}
	same := catalog.Departures{"b": held(4), "a": held(3)}
	if got := one.Digest("g"); got == "" || got != same.Digest("g") {
		t.Errorf("got %q and %q, want one digest of what is held", got, same.Digest("g"))
	}
	for name, other := range map[string]string{
		"another global service": one.Digest("h"), "one more": catalog.Departures{"a": held(3), "b": held(4), "d": held(5)}.Digest("g"),
		"one less": catalog.Departures{"a": held(3)}.Digest("g"), "asked again": catalog.Departures{"a": held(3), "b": held(9)}.Digest("g"),
	} {
		if other == one.Digest("g") {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if got := (catalog.Departures{"c": {State: catalog.DepartureLeft}}).Digest("g"); got != "" {
		t.Errorf("got %q where nothing is held", got)
	}
}
