// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"iter"

	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// memory is the leader's memory of a policy from round to round, so that a round costs what has
// changed.
//
// It begins as nothing, and nothing of it is stored. Anything that no longer fits together causes a
// reading of all members: a rollout that another replica wrote, a round that ended early, a member
// that joined.
type memory struct {
	members []Seen
	// changed are the indexes of the members that this round reads, and gone the uids of members that
	// are not covered any more. If isAll, it reads all.
	changed []int
	gone    []string
	isAll   bool
	// newcomers are the uids of services that are to be taken over.
	newcomers map[string]struct{}
	// record is the rollout that was followed, and byUID has its members.
	record *Record
	byUID  map[string]*rollout.Progress
	// settled is the rollout after which no member was to have another release at the last look, and isSettled
	// is true if there was such a look. The rollout may be nil: there has been none.
	settled   *Record
	isSettled bool
}

func newMemory() *memory {
	return &memory{newcomers: map[string]struct{}{}, byUID: map[string]*rollout.Progress{}, isAll: true}
}

// take begins a round with its view. Members that the round before did not settle are read, too.
func (k *memory) take(members []Seen, changes Changes, isAll bool) {
	k.isAll = k.isAll || isAll || len(k.changed)+len(k.gone) > 0
	k.members, k.changed, k.gone = members, changes.Seen, changes.Gone
	if k.isAll {
		clear(k.newcomers)
	}
	for _, uid := range k.gone {
		delete(k.newcomers, uid)
	}
	for m := range k.seen() {
		if uid := m.Service.UID; m.isTakenOver() || len(m.Spec.Sources) == 0 {
			delete(k.newcomers, uid)
		} else {
			k.newcomers[uid] = struct{}{}
		}
	}
}

// seen returns the members that this round reads.
func (k *memory) seen() iter.Seq[*Seen] {
	return func(yield func(*Seen) bool) {
		if k.isAll {
			for i := range k.members {
				if !yield(&k.members[i]) {
					return
				}
			}
			return
		}
		for _, i := range k.changed {
			if !yield(&k.members[i]) {
				return
			}
		}
	}
}

// missed returns the uids of the rollout's members that are not covered any more. there are the
// ones that take part, if all were read.
func (k *memory) missed(there map[string]struct{}) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !k.isAll {
			for _, uid := range k.gone {
				if k.byUID[uid] != nil && !yield(uid) {
					return
				}
			}
			return
		}
		for uid := range k.byUID {
			if _, isThere := there[uid]; !isThere && !yield(uid) {
				return
			}
		}
	}
}

// hasNews reports whether a member is to have another release than it is held at, after the latest rollout,
// which may be nil. Members go back to what a rollout that was replaced began with, so after one there is news.
func (k *memory) hasNews(latest *Record) bool {
	if latest != nil && latest.Run.State == rollout.Replaced {
		return true
	}
	k.isAll = k.isAll || !k.isSettled || k.settled != latest
	var refused refusals
	if latest != nil {
		refused = refusalsOf(latest.Refused)
	}
	for m := range k.seen() {
		if from := m.Held.Release(); m.isMember() && m.target(from, refused).Name() != from.Name() {
			k.isSettled = false
			return true
		}
	}
	k.settled, k.isSettled = latest, true
	k.settle()
	return false
}

// follow brings the memory in line with the rollout that is about to take a step.
func (k *memory) follow(record *Record) {
	if k.record == record {
		return
	}
	k.record, k.isAll = record, true
	k.byUID = make(map[string]*rollout.Progress, len(record.Run.Members))
	for _, p := range record.Run.Members {
		k.byUID[p.UID] = p
	}
}

// step takes over the rollout after a step.
func (k *memory) step(next *Record) {
	changed, left := rollout.Differ(k.record.Run, next.Run)
	for _, uid := range left {
		delete(k.byUID, uid)
	}
	for _, p := range changed {
		k.byUID[p.UID] = p
	}
	// A joining member may bring others with it.
	k.isAll = k.isAll || next.Run.Counts.Members > k.record.Run.Counts.Members-len(left)
	k.record = next
}

// settle ends the round: the rollout knows what was seen in it.
func (k *memory) settle() { k.changed, k.gone, k.isAll = nil, nil, false }
