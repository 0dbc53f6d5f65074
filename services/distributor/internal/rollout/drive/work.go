// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// Work is a leader's. It is for one goroutine.
type Work struct {
	p    Params
	term int64
	// records are the latest rollouts, by the policy's uid.
	records map[string]*Record
	// watch reads the fleet. announced returns the objects that were announced since it was last
	// called; nil: that is not known.
	watch     Watch
	announced func() (keys []catalog.Key, lagged bool)
	// memories are by the policy's uid.
	memories map[string]*memory
	// looked is when the fleet was last read, and lookedAll when each service was.
	looked, lookedAll time.Time
	// granted are the wishes of newcomers that were resolved in this term, and have not been admitted.
	granted map[Wish]catalog.Snapshot
	// failed is when wishes were asked for in vain, and left how long the round may still ask.
	failed map[Wish]time.Time
	left   time.Duration
	// revision is one whose edits the last look has seen.
	revision int64
	// lacking are names of configurations that could not be stored, with when that was tried.
	lacking map[string]time.Time
	// digests are the digests of specs in plans.
	digests specDigests
	// tooLarge are the policies of which that was logged, by uid.
	tooLarge map[string]bool
}

// NewWork returns the work of a term.
func NewWork(p Params, term int64) *Work {
	return &Work{
		p: p, term: term, watch: p.Fleet.Watch(), memories: map[string]*memory{}, records: map[string]*Record{},
		granted: map[Wish]catalog.Snapshot{}, failed: map[Wish]time.Time{}, lacking: map[string]time.Time{}, tooLarge: map[string]bool{},
	}
}

// Params are a Driver's collaborators, all required.
type Params struct {
	Store    Store
	Election election.Store
	Fleet    Fleet
	Sources  Sources
	Objects  *fanout.Hub[catalog.Key]
	Metrics  *Metrics
	Logger   *slog.Logger
	// Holder names this replica, and no other process ever.
	Holder string
}
