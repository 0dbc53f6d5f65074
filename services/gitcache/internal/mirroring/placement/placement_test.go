// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/placement"
)

const key = "uid-demo"

// order are four replicas in the order of the key.
func order() []string { return rendezvous.Order(key, []string{"a", "b", "c", "d"}) }

func TestShouldFollow(t *testing.T) {
	t.Parallel()
	o := order()
	for name, test := range map[string]struct {
		followers int
		owner     string
		want      []string
	}{
		"the next after the owner": {1, o[0], o[1:2]},
		"two":                      {2, o[0], o[1:3]},
		"none is wanted":           {0, o[0], nil},
		"the one who should own, and nobody else": {0, o[2], o[:1]},
		"another owner":          {1, o[1], o[:1]},
		"two, and another owner": {2, o[1], []string{o[0], o[2]}},
		"nobody owns it":         {2, "", nil},
		"an owner who has left":  {1, "gone", o[:1]},
	} {
		var got []string
		for _, self := range o {
			if (placement.View{Members: o, Self: self, Followers: test.followers}).ShouldFollow(key, test.owner) {
				got = append(got, self)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got followers %v, want %v", name, got, test.want)
		}
	}
}

func TestBetterOwner(t *testing.T) {
	t.Parallel()
	o := order()
	for self, want := range map[string]string{o[0]: "", o[1]: o[0], o[3]: o[0], "unknown": ""} {
		if got := (placement.View{Members: o, Self: self}).BetterOwner(key); got != want {
			t.Errorf("%s: got better owner %q, want %q", self, got, want)
		}
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	o := order()
	if got := (placement.View{Members: o, Self: o[1]}).Others(key); !slices.Equal(got, []string{o[0], o[2], o[3]}) {
		t.Errorf("got %v, want the others in the order of the key, %v", got, o)
	}
}

func TestAcquireDelay(t *testing.T) {
	t.Parallel()
	o := order()
	const limit = 5 * time.Second
	for name, test := range map[string]struct {
		members   []string
		self      string
		hasMirror bool
		limit     time.Duration
		want      time.Duration
	}{
		"alone":                {o[:1], o[0], false, limit, 0},
		"first":                {o, o[0], true, limit, 0},
		"second":               {o, o[1], true, limit, 250 * time.Millisecond},
		"first without mirror": {o, o[0], false, limit, 1250 * time.Millisecond},
		"last without mirror":  {o, o[3], false, limit, 2 * time.Second},
		"last, a short lease":  {o, o[3], false, time.Second, time.Second},
		"unknown to the rest":  {o, "unknown", true, limit, time.Second},
	} {
		got := placement.View{Members: test.members, Self: test.self}.AcquireDelay(key, test.hasMirror, test.limit)
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
