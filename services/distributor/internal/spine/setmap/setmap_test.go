// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package setmap_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/setmap"
)

func TestMap(t *testing.T) {
	t.Parallel()
	m := setmap.Map[string, int]{}
	m.Add("a", 2)
	m.Add("a", 1)
	m.Add("a", 2)
	m.Add("b", 1)
	m.Remove("b", 2)
	m.Remove("c", 1)
	if got := slices.Sorted(maps.Keys(m["a"])); !slices.Equal(got, []int{1, 2}) || len(m) != 2 {
		t.Errorf("got %v of %v, want 1 and 2", got, m)
	}
	m.Remove("a", 1)
	m.Remove("b", 1)
	if _, ok := m["b"]; ok || len(m["a"]) != 1 {
		t.Errorf("got %v, want the one value that is left", m)
	}
}
