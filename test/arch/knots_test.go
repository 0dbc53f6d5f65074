// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// knot returns the names of the largest set of files of which each reaches every other one, over the names that files
// use of each other; empty if there is none of two files. None of these can be read without all the others.
func (r *room) knot() []string {
	next := make([][]int, len(r.files))
	for arrow := range r.arrows {
		next[arrow[0]] = append(next[arrow[0]], arrow[1])
	}
	// reach returns which files file reaches.
	reach := func(file int) []bool {
		seen, open := make([]bool, len(r.files)), []int{file}
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			for _, to := range next[at] {
				if !seen[to] {
					seen[to], open = true, append(open, to)
				}
			}
		}
		return seen
	}
	reached := make([][]bool, len(r.files))
	for i := range reached {
		reached[i] = reach(i)
	}
	var largest []string
	for i := range r.files {
		var knot []string
		for j, name := range r.files {
			if reached[i][j] && reached[j][i] {
				knot = append(knot, name)
			}
		}
		if len(knot) > max(len(largest), 1) {
			largest = knot
		}
	}
	return largest
}

// maxKnot returns how many files of a package may be in one knot: a quarter of them where there are many, half where
// there are few, and any number where all of them can be read in an hour.
func maxKnot(files int) int {
	switch {
	case files >= 20:
		return files / 4
	case files >= 8:
		return files / 2
	default:
		return files
	}
}

// tangle is a knot that is larger than the limit, and may be for now.
type tangle struct {
	files int    // how many it may have; it only shrinks
	since string // the day on which it was measured
	why   string
}

// tangles are the packages that may exceed maxKnot.
var tangles = map[string]tangle{}

// TestKnotsAreSmall enforces that most files of a package can be read without all the others.
func TestKnotsAreSmall(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, r := range rooms(t) {
		knot, limit := r.knot(), maxKnot(len(r.files))
		if len(knot) <= limit {
			continue
		}
		used[r.path] = true
		if excepted, ok := tangles[r.path]; ok {
			switch {
			case len(knot) < excepted.files:
				t.Errorf("%s: its knot has %d files, and the exception allows %d: lower it", r.path, len(knot), excepted.files)
			case len(knot) == excepted.files:
				continue
			}
			limit = excepted.files
		}
		if len(knot) > limit {
			t.Errorf("%s: %d of %d files reach each other, want at most %d: %s", r.path, len(knot), len(r.files), limit, strings.Join(knot, ", "))
		}
	}
	for path, excepted := range tangles {
		if !used[path] {
			t.Errorf("%s is within the limit or does not exist: remove its exception (%s)", path, excepted.why)
		}
		if _, err := time.Parse(time.DateOnly, excepted.since); err != nil || excepted.why == "" {
			t.Errorf("%s: an exception has a day and a reason, got %+v", path, excepted)
		}
	}
}

// TestKnotsAreFound tries knot on drawings.
func TestKnotsAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what   string
		arrows string
		want   string
	}{
		{"files that name nobody", "", ""},
		{"a chain", "ab bc cd", ""},
		{"a pair", "ab ba cd", "ab"},
		{"the larger of two", "ab ba cd de ec", "cde"},
		{"over a third one", "ab bc ca ad", "abc"},
		{"a file that names itself", "aa", ""},
	} {
		r := room{files: []string{"a", "b", "c", "d", "e"}, arrows: map[[2]int]bool{}}
		for arrow := range strings.FieldsSeq(test.arrows) {
			r.arrows[[2]int{slices.Index(r.files, arrow[:1]), slices.Index(r.files, arrow[1:])}] = true
		}
		if got := strings.Join(r.knot(), ""); got != test.want {
			t.Errorf("%s (%s): got %q, want %q", test.what, test.arrows, got, test.want)
		}
	}
}
