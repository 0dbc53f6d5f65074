// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"strings"
)

const (
	// maxClose bounds the names that an error offers instead of the one that was not found.
	maxClose = 3
	// maxCompared bounds the names that are compared letter by letter.
	maxCompared = 10_000
	// maxTypos is how many letters may differ in a misspelled name; a short name allows fewer.
	maxTypos = 3
	// lettersPerTypo is how many letters of a name allow for one typo.
	lettersPerTypo = 3
)

// closeTo returns the full names of refs that a name which does not exist may have meant: the same
// short name of the other kind (branch or tag), the same with other capitals, then misspellings.
func (r Refs) closeTo(name string) []string {
	short := shortName(name)
	allowed := min(maxTypos, max(1, len(short)/lettersPerTypo))
	var found Refs
	typosOf := map[string]int{} // by full name
	for _, ref := range r[:min(len(r), maxCompared)] {
		other := shortName(ref.Name)
		switch {
		case strings.EqualFold(other, short):
			found = append(found, ref)
		case max(len(other), len(short))-min(len(other), len(short)) <= allowed:
			if typos := distance(short, other); typos <= allowed {
				found, typosOf[ref.Name] = append(found, ref), typos
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Ref) int { return typosOf[a.Name] - typosOf[b.Name] })
	return found.Names(maxClose)
}

func shortName(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, BranchPrefix), TagPrefix)
}

// distance returns how many bytes to insert, delete, replace or swap with their neighbour to make b
// of a.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differs := 1
			if a[i-1] == b[j-1] {
				differs = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+differs)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
