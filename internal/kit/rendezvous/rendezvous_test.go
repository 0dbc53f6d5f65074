// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rendezvous_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/leatdev/leat/internal/kit/rendezvous"
)

const keys = 5000

func members(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("http://gitcache-%d.gitcache:8080", i))
	}
	return all
}

func key(i int) string { return fmt.Sprintf("uid-%d", i) }

func TestBalance(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 9; n++ {
		all, first, second := members(n), map[string]int{}, map[string]int{}
		for i := range keys {
			order := rendezvous.Order(key(i), all)
			first[order[0]]++
			second[order[1]]++
		}
		for _, m := range all {
			fair := keys / n
			if got := first[m]; got < fair*8/10 || got > fair*12/10 {
				t.Errorf("%s of %d: got %d keys, want %d ± 20 %%", m, n, got, fair)
			}
			if got := second[m]; got < fair*8/10 || got > fair*12/10 {
				t.Errorf("%s of %d: got second place for %d keys, want %d ± 20 %%", m, n, got, fair)
			}
		}
	}
}

// TestMinimalMovement removes one member: the order of the others stays, for every key.
func TestMinimalMovement(t *testing.T) {
	t.Parallel()
	all := members(5)
	for i := range keys {
		before := rendezvous.Order(key(i), all)
		for gone := range all {
			rest := slices.Delete(slices.Clone(all), gone, gone+1)
			want := slices.DeleteFunc(slices.Clone(before), func(m string) bool { return m == all[gone] })
			if got := rendezvous.Order(key(i), rest); !slices.Equal(got, want) {
				t.Fatalf("%s without %s: got %v, want %v", key(i), all[gone], got, want)
			}
		}
	}
}

func TestOrderIgnoresOrder(t *testing.T) {
	t.Parallel()
	all := members(4)
	for i := range 100 {
		want := rendezvous.Order(key(i), all)
		shuffled := []string{all[2], all[0], all[3], all[1], all[0]}
		if got := rendezvous.Order(key(i), shuffled); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for place, m := range want {
			if got := rendezvous.Rank(key(i), all, m); got != place {
				t.Errorf("got rank %d of %s, want %d", got, m, place)
			}
		}
	}
	if got := rendezvous.Order("k", nil); len(got) != 0 {
		t.Errorf("got %v without members, want none", got)
	}
	if got := rendezvous.Rank("k", all, "stranger"); got != len(all) {
		t.Errorf("got rank %d of a stranger, want %d", got, len(all))
	}
}
