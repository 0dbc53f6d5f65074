// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// status is one replica's state of one repository. All parts of a repository share it.
//
// Its two halves have a lock each, and no goroutine holds both. Invariants over both hold by order:
//   - A fetch replaces the holding first and ends in fetching second, so that a caller who sees a
//     fetch ended sees its result. read therefore reads fetching first.
//   - A new definition changes the policy first and the definition second, so that no reader who sees
//     the new definition is delivered anything by the old policy. A fetch therefore reads the
//     definition first and takes the policy second. It may fetch an old definition under the new
//     policy; ending, it sees that the definition was replaced, and the next fetch begins at once.
type status struct {
	name, uid    string
	placementKey string
	self         string // name of this replica
	changes      *wake.Broadcast
	holding      *holding
	fetching     *fetching
	// news wakes the follower: the owner may have something new.
	news wake.Signal
}

func newStatus(def mirror.Definition, interval time.Duration, self string) *status {
	c := new(wake.Broadcast)
	s := &status{
		name: def.Name, uid: def.UID, placementKey: def.PlacementKey(), self: self, changes: c,
		holding: &holding{changes: c}, fetching: &fetching{changes: c}, news: wake.NewSignal(),
	}
	s.holding.setPolicy(def.Verification)
	s.fetching.state.define(def, interval, time.Time{})
	return s
}

func (s *status) definition() mirror.Definition { return s.fetching.read().definition }

func (s *status) epoch() uint64 { return s.fetching.read().epoch }

// read returns the state as callers and events show it.
func (s *status) read() mirror.State {
	f := s.fetching.read()
	return stateOf(f, s.holding.read(), s.self)
}

// discard forgets what the mirror holds, because it turned out to be damaged. The owner copies or
// clones it again at once, a follower copies it.
func (s *status) discard() {
	s.holding.discard()
	s.fetching.change(func(f *fetchState) { f.schedule = f.schedule.PollNow(time.Now()) })
	s.news.Set()
}

// stateOf puts the two halves together.
func stateOf(f fetchState, m mirrored, self string) mirror.State {
	s := mirror.State{
		Phase: phaseOf(f, m.content.Exists()), Problem: f.problem, FreshAt: m.content.FreshAt, ChangedAt: m.content.ChangedAt,
		DefaultBranch: m.content.DefaultBranch, RefCount: len(m.content.Refs), DiskBytes: m.content.DiskBytes,
		Epoch: m.content.Epoch, Failures: f.schedule.Failures, Fetches: f.fetches, HeldRefs: m.heldRefs,
		Notices: mirror.BoundNotices(m.content.Notices),
	}
	if s.Problem == nil {
		s.Problem = m.problem
	}
	if f.epoch != 0 {
		s.Epoch, s.Owner = f.epoch, self
		s.NextPollAt, _ = f.schedule.Due()
	}
	return s
}

func phaseOf(f fetchState, hasContent bool) mirror.Phase {
	isFailing := f.schedule.Failures > 0
	switch {
	case f.definition.Suspended:
		return mirror.PhaseSuspended
	case hasContent && isFailing:
		return mirror.PhaseStale
	case hasContent:
		return mirror.PhaseReady
	case isFailing:
		return mirror.PhaseFailed
	default:
		return mirror.PhaseCloning
	}
}
