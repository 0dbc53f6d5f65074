// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

const (
	// recentPlans is how many replaced plans are kept for each cluster: an agent may still be
	// downloading for one.
	recentPlans = 3
	// pastVersions is how many versions of a cluster's plan are recognised as older ones.
	pastVersions = 32
)

// planSet is a cluster's current plan and the latest that it replaced, newest first. It is a value:
// it shares the plans, which do not change.
type planSet struct {
	current *plan.Plan
	recent  []*plan.Plan
}

// replaceBy returns the set after another plan became the current one.
func (s planSet) replaceBy(next *plan.Plan) planSet {
	recent := append([]*plan.Plan{s.current}, s.recent[:min(len(s.recent), recentPlans-1)]...)
	return planSet{current: next, recent: recent}
}

// find returns the plan of that version.
func (s planSet) find(version string) (*plan.Plan, bool) {
	for _, p := range s.all() {
		if p.Version == version {
			return p, true
		}
	}
	return nil, false
}

// bundle returns the bundle of that digest.
func (s planSet) bundle(d digest.Digest) (plan.Bundle, bool) {
	for _, p := range s.all() {
		if bundle, ok := p.Bundle(d); ok {
			return bundle, true
		}
	}
	return plan.Bundle{}, false
}

// all returns the plans, newest first.
func (s planSet) all() []*plan.Plan {
	if s.current == nil {
		return nil
	}
	return append([]*plan.Plan{s.current}, s.recent...)
}

// planHistory recognises the latest versions that a cluster's plan had before the current one, by
// their hashes. It is kept when the plan is dropped from memory.
type planHistory struct {
	hashes [pastVersions]uint64
	next   int
}

func (h *planHistory) add(hash uint64) {
	h.hashes[h.next%pastVersions] = hash
	h.next++
}

func (h *planHistory) has(hash uint64) bool {
	return h != nil && slices.Contains(h.hashes[:min(h.next, pastVersions)], hash)
}
