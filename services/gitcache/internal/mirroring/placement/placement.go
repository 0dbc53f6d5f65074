// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package placement decides which replicas should own a repository and which should follow it.
//
// Every decision is a pure function of the replicas that live now and of the repository's key.
// Replicas that know the same members therefore decide alike, without a word between them. While
// they know different members, two may want the same repository or none may: the lease keeps owners
// apart, and the next check of the members corrects the rest.
package placement

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/rendezvous"
)

const (
	// turnDelay is how much later than the replica before it in the order a replica asks for a free
	// lease.
	turnDelay    = 250 * time.Millisecond
	maxTurnDelay = time.Second
	// noMirrorDelay lets replicas that hold a mirror ask before replicas that would have to copy
	// it.
	noMirrorDelay = 1250 * time.Millisecond
)

// View is one replica's view of the others.
type View struct {
	// Members are the live replicas. Self is this one; it is missing from Members before its first
	// heartbeat.
	Members []string
	Self    string
	// Followers is how many replicas besides the owner keep a copy.
	Followers int
}

// Others returns the other replicas, those first that are most likely to hold a mirror.
func (v View) Others(key string) []string {
	return slices.DeleteFunc(rendezvous.Order(key, v.Members), func(member string) bool { return member == v.Self })
}

// BetterOwner returns the replica that should own the repository instead of this one, or "" where
// this one should. It returns "" also while this replica is not a member: its knowledge of the
// others may be as old as their knowledge of it.
func (v View) BetterOwner(key string) string {
	if !slices.Contains(v.Members, v.Self) {
		return ""
	}
	if first := rendezvous.Order(key, v.Members)[0]; first != v.Self {
		return first
	}
	return ""
}

// ShouldFollow reports whether this replica should keep a copy of the owner's mirror. The followers
// are the next in the order after the owner. Where another replica should be the owner, that one
// follows even if no other one does, because it takes over only what it holds. No replica follows
// while the repository has no owner ("").
func (v View) ShouldFollow(key, owner string) bool {
	order := rendezvous.Order(key, v.Members)
	wanted := v.Followers
	if len(order) > 0 && order[0] != owner {
		wanted = max(wanted, 1)
	}
	rank := slices.Index(slices.DeleteFunc(order, func(member string) bool { return member == owner }), v.Self)
	return owner != "" && rank >= 0 && rank < wanted
}

// IsPlaced reports whether the order gives this replica the repository, as its owner or as a
// follower. Unlike [View.ShouldFollow] it needs no owner, so it can be asked from memory.
func (v View) IsPlaced(key string) bool {
	return len(v.Members) > 1 && rendezvous.Rank(key, v.Members, v.Self) <= v.Followers
}

// AcquireDelay returns how long this replica lets others ask for a free lease first, at most limit.
// The order is a courtesy: it spares copies, and the lease alone keeps owners apart.
func (v View) AcquireDelay(key string, hasMirror bool, limit time.Duration) time.Duration {
	if len(v.Members) < 2 {
		return 0
	}
	wait := min(time.Duration(rendezvous.Rank(key, v.Members, v.Self))*turnDelay, maxTurnDelay)
	if !hasMirror {
		wait += noMirrorDelay
	}
	return min(wait, limit)
}
