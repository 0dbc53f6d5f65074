// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// MaxLooked is how many pinned tags one poll looks up: a poll has to end within its time limit,
	// whatever number of tags was ever resolved.
	MaxLooked = 500
	// latestLooked is how many tags every poll looks up where more are pinned: the ones that were
	// pinned last. The others have their turns in the rest.
	latestLooked = 400
)

// round holds the tags that one poll looks up.
type round struct {
	names []string
	// last is the tag after which the next round continues; empty: every pinned tag was looked up.
	last string
	// rounds is how many polls it takes until every tag was looked up.
	rounds int
}

// nextRound chooses among pinned tags, whose names rise. last is the last of the round before;
// empty where it is not known. Of any so many rounds in a row as rounds, while no pins change,
// every tag is in one.
func (m memo) nextRound(pinned []string, last string) round {
	if len(pinned) <= MaxLooked {
		return round{names: pinned, rounds: 1}
	}
	byTime := slices.Clone(pinned)
	slices.SortStableFunc(byTime, func(a, b string) int { return m.Pins[b].At.Compare(m.Pins[a].At) })
	names, others := byTime[:latestLooked:latestLooked], byTime[latestLooked:]
	slices.Sort(others)
	const turn = MaxLooked - latestLooked
	begin, isFound := slices.BinarySearchFunc(others, last, cmp.Compare[string])
	if isFound {
		begin++
	}
	for i := range turn { // there are more others than that
		names = append(names, others[(begin+i)%len(others)])
	}
	return round{names: names, last: names[len(names)-1], rounds: (len(others) + turn - 1) / turn}
}

// notices returns what people should know of a round of so many pinned tags.
func (r round) notices(pinned int) []string {
	if r.rounds <= 1 {
		return nil
	}
	return []string{fmt.Sprintf("%d tags are followed, more than the %d that one poll looks at: the %d that were resolved last are looked at with every poll, "+
		"each of the others with every %dth. Have services select ranges of versions, or fewer tags.", pinned, MaxLooked, latestLooked, r.rounds)}
}
