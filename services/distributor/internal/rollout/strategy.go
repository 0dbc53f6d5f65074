// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Defaults of a strategy.
const (
	DefaultMaxUnavailablePercent = 10
	DefaultOfflineAfter          = 10 * time.Minute
	DefaultFailAfter             = 5 * time.Minute
	DefaultHealthTimeout         = 30 * time.Minute
)

// Names of the waves that every run has after its strategy's.
const (
	// WaveRest holds the members that no wave of the strategy selects.
	WaveRest = "rest"
	// WaveLate holds the members that joined after the run began.
	WaveLate = "late"
)

// Strategy is how members come to a candidate. Its JSON is its stored form.
type Strategy struct {
	Waves []Wave `json:"waves,omitempty"`
	// MaxUnavailable bounds the members that are unavailable at one time, for any reason. Zero:
	// DefaultMaxUnavailablePercent.
	MaxUnavailable Share `json:"maxUnavailable,omitzero"`
	// OfflineAfter is after how long a wave no longer waits for a member whose cluster is offline.
	// Zero: DefaultOfflineAfter.
	OfflineAfter time.Duration `json:"offlineAfter,omitempty"`
	// FailsOffline counts a member as failed that was seen after it was admitted, and whose cluster is offline
	// for OfflineAfter since. False: a wave no longer waits for it.
	FailsOffline bool `json:"failsOffline,omitempty"`
	// FailAfter is how long a member must be failed or degraded with the candidate until it counts as
	// failed. Zero: DefaultFailAfter.
	FailAfter time.Duration `json:"failAfter,omitempty"`
	// HealthTimeout is after how long a member that is not healthy counts as failed, whatever its
	// agent reports. Zero: DefaultHealthTimeout.
	HealthTimeout time.Duration `json:"healthTimeout,omitempty"`
	Budget        Budget        `json:"budget,omitzero"`
	// PausesOnHalt keeps what members have when the budget is spent. False: they go back.
	PausesOnHalt bool `json:"pausesOnHalt,omitempty"`
	// Replaces lets a newer candidate end a run. False: the newer candidate waits for its end.
	Replaces bool `json:"replaces,omitempty"`
	// Windows are the times when members are admitted; none: always. Denying ones are recurring
	// freezes.
	Windows []syncpolicy.Window `json:"windows,omitempty"`
	Freezes []Freeze            `json:"freezes,omitempty"`
}

// Wave is a part of the members. A member belongs to the first wave that fits.
type Wave struct {
	Name string `json:"name"`
	// Clusters are paths of clusters, and Labels the labels of a cluster or of the service that a member
	// must have. A member has to fit both; empty ones fit all.
	Clusters []string          `json:"clusters,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	// EachOf takes Count of the fitting members for each value of a cluster's label; members without
	// the label count as one value. Empty: no such limit.
	EachOf string `json:"eachOf,omitempty"`
	Count  int    `json:"count,omitempty"`
	// Percent takes so many of all members that the candidate changes, rounded up. Zero: no such limit.
	Percent int `json:"percent,omitempty"`
	// OrderBy is a cluster's label by whose values members are ordered. Empty: an order that differs
	// from run to run.
	OrderBy string `json:"orderBy,omitempty"`
	// Concurrent bounds the members of the wave that are on their way at one time. Zero: the limit of
	// unavailable members alone.
	Concurrent int `json:"concurrent,omitempty"`
	// Soak is how long all members of the wave must be healthy without a break.
	Soak time.Duration `json:"soak,omitempty"`
	// Approval is the approval that the next wave needs from people. Nil: nothing.
	Approval *Approval `json:"approval,omitempty"`
}

// Approval asks for people. The caller checks who they are.
type Approval struct {
	// Groups are the groups of which each person must be in one; empty: every approver.
	Groups []string `json:"groups,omitempty"`
	// Count is how many persons have to approve. Zero: one.
	Count int `json:"count,omitempty"`
	// NotByAuthor refuses the approval of a person who wrote a part of the candidate.
	NotByAuthor bool `json:"notByAuthor,omitempty"`
}

// Needed returns how many persons have to approve.
func (a *Approval) Needed() int {
	if a == nil {
		return 0
	}
	return max(a.Count, 1)
}

// Share is a number of members: a count, or a percentage of all.
type Share struct {
	Count   int `json:"count,omitempty"`
	Percent int `json:"percent,omitempty"`
}

// of returns the number for n members: at least one.
func (s Share) of(n int) int {
	if s.Count > 0 {
		return s.Count
	}
	return max(percentOf(cmp.Or(s.Percent, DefaultMaxUnavailablePercent), n), 1)
}

// percentOf rounds up.
func percentOf(percent, n int) int { return (percent*n + 99) / 100 }

// Budget is how many members may fail before a run halts.
type Budget struct {
	// Failed members are tolerated; one more halts the run.
	Failed int `json:"failed,omitempty"`
	// OfRun counts the members of all waves. False: the members of the current wave.
	OfRun bool `json:"ofRun,omitempty"`
	// Window counts failures of the last time only. Zero: all.
	Window time.Duration `json:"window,omitempty"`
}

// Freeze is a span of time in which no member is admitted. Members still go back in it.
type Freeze struct {
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

// withDefaults fills in unset fields.
func (s Strategy) withDefaults() Strategy {
	s.OfflineAfter = cmp.Or(s.OfflineAfter, DefaultOfflineAfter)
	s.FailAfter = cmp.Or(s.FailAfter, DefaultFailAfter)
	s.HealthTimeout = cmp.Or(s.HealthTimeout, DefaultHealthTimeout)
	return s
}
