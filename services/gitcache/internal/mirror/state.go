// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"strings"
	"time"
)

// Phase is the state of a mirror.
type Phase string

// The phases.
const (
	PhaseCloning   Phase = "cloning"   // the first fetch has not finished
	PhaseReady     Phase = "ready"     // mirrored, and the last fetch succeeded
	PhaseStale     Phase = "stale"     // mirrored, but the last fetches failed
	PhaseFailed    Phase = "failed"    // never fetched successfully
	PhaseSuspended Phase = "suspended" // polling is suspended
)

// State is a replica's view of a repository. Only the owner's is up to date.
type State struct {
	Phase         Phase     `json:"phase"`
	Problem       *Problem  `json:"problem,omitempty"`
	FreshAt       time.Time `json:"fresh_at,omitzero"`
	ChangedAt     time.Time `json:"changed_at,omitzero"`
	NextPollAt    time.Time `json:"next_poll_at,omitzero"`
	DefaultBranch string    `json:"default_branch,omitempty"`
	RefCount      int       `json:"ref_count"`
	DiskBytes     int64     `json:"disk_bytes"`
	Epoch         uint64    `json:"epoch"`
	Owner         string    `json:"owner,omitempty"`
	Failures      int       `json:"failures"`
	Fetches       int64     `json:"fetches"`
	// HeldRefs are the full names of refs that are held back, at most MaxChangedRefs.
	HeldRefs []string `json:"held_refs,omitempty"`
	// Notices are sentences that people should know although nothing has failed, at most MaxNotices of
	// at most MaxNoticeBytes.
	Notices []string `json:"notices,omitempty"`
}

// The bounds of a state's fields besides problems.
const (
	MaxNotices     = 10
	MaxNoticeBytes = 1000
)

// BoundNotices returns the beginning of notices, within the bounds of a state and as valid UTF-8.
// Text of an upstream may be part of them.
func BoundNotices(notices []string) []string {
	var bounded []string
	for _, notice := range notices[:min(len(notices), MaxNotices)] {
		if len(notice) > MaxNoticeBytes {
			notice = notice[:MaxNoticeBytes-len("…")] + "…"
		}
		bounded = append(bounded, strings.ToValidUTF8(notice, ""))
	}
	return bounded
}

// MaxChangedRefs bounds the names in one event. Where more changed, the event states that any may
// have.
const MaxChangedRefs = 1000

// Event announces that something about a repository changed.
type Event struct {
	Repository string `json:"repository"`
	UID        string `json:"uid"`
	// Epoch is the owner's epoch; Sequence grows with every event of one epoch.
	Epoch    uint64 `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	// Changed are the full names of refs that moved, appeared or vanished. All: any may have.
	Changed []string `json:"changed,omitempty"`
	All     bool     `json:"all,omitempty"`
	State   State    `json:"state"`
	Deleted bool     `json:"deleted,omitempty"`
	// Traceparent is the W3C trace context of the fetch; empty when not traced.
	Traceparent   string        `json:"traceparent,omitempty"`
	Time          time.Time     `json:"time"`
	FetchDuration time.Duration `json:"fetch_duration,omitempty"`
}

// Merge adds a later event to one that has not been published yet.
func (e *Event) Merge(later Event) {
	changed := slices.Concat(e.Changed, later.Changed)
	slices.Sort(changed)
	changed = slices.Compact(changed)
	all := e.All || later.All || len(changed) > MaxChangedRefs
	*e = later
	e.Changed, e.All = changed, all
	if all {
		e.Changed = nil
	}
}
