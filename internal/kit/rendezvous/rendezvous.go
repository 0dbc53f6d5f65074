// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rendezvous decides which member of a group should have a key, and which should come next,
// by rendezvous hashing: every member has a score for every key, and the highest comes first.
// Everybody with the same list of members computes the same order without communication. A new
// member takes over only its own keys, and the keys of a member that leaves go to the next one in
// their order. No other key moves.
package rendezvous

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// Order returns the members in the order of their claim to the key. The order in members and
// repetitions do not matter.
func Order(key string, members []string) []string {
	type scored struct {
		member string
		score  uint64
	}
	all := make([]scored, 0, len(members))
	for _, m := range members {
		all = append(all, scored{member: m, score: score(key, m)})
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.member, b.member))
	})
	ordered := make([]string, 0, len(all))
	for _, s := range all {
		ordered = append(ordered, s.member)
	}
	return slices.Compact(ordered)
}

// Rank returns the position of a member in the order for the key, from 0. A name that is not in
// members comes last.
func Rank(key string, members []string, member string) int {
	rank, mine := 0, score(key, member)
	for _, other := range members {
		if theirs := score(key, other); theirs > mine || (theirs == mine && other < member) {
			rank++
		}
	}
	if !slices.Contains(members, member) {
		return len(members)
	}
	return rank
}

// score uses a hash in which every bit depends on the whole input. The zero byte ends the member's
// name, which contains none.
func score(key, member string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + key))
	return binary.BigEndian.Uint64(sum[:])
}
