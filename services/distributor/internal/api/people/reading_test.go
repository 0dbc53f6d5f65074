// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestReadingFollowsServices has services be made of other sources at random: the repositories that
// are read, and the ones that turn, equal the result of a walk over all services.
func TestReadingFollowsServices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		isWanted := func(repository string) bool { return repository != "foreign" }
		r, made := newReading(isWanted), map[string][]string{}
		read := func() map[string]bool {
			all := map[string]bool{}
			for _, repositories := range made {
				for _, repository := range repositories {
					if isWanted(repository) {
						all[repository] = true
					}
				}
			}
			return all
		}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "service")
			repositories := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "foreign"}), 0, 3).Draw(t, "repositories")
			var sources []catalog.Source
			for _, repository := range repositories {
				sources = append(sources, catalog.Source{Repository: repository})
			}
			before := read()
			made[name] = repositories
			after := read()
			var want []string
			for _, repository := range []string{"foreign", "x", "y"} {
				if before[repository] != after[repository] {
					want = append(want, repository)
				}
				if r.has(repository) != before[repository] {
					t.Fatalf("%s is read: %t, want %t", repository, r.has(repository), before[repository])
				}
			}
			if got := slices.Sorted(slices.Values(r.set(name, sources))); !slices.Equal(got, want) {
				t.Fatalf("%v turned, want %v; services are made of %v", got, want, made)
			}
		}
		maps.DeleteFunc(made, func(_ string, repositories []string) bool { return !slices.ContainsFunc(repositories, isWanted) })
		if len(r.made) != len(made) {
			t.Fatalf("%d services are remembered, want %d", len(r.made), len(made))
		}
	})
}
