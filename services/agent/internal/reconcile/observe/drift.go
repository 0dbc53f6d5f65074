// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// driftReport is the report of a changed object, and the state that it describes. The same state is
// not explained twice.
type driftReport struct {
	report.ObjectDrift

	state DriftState
}

// DriftState identifies a state of an object that others have changed. It is comparable.
type DriftState struct {
	server                fingerprint.Sum
	isDeleted, isReplaced bool
}

func (t *track) driftState() DriftState {
	return DriftState{server: t.Server, isDeleted: t.isGone(), isReplaced: t.isReplaced}
}

// isExplainedLocked reports whether a report describes the object as it is.
func (s *known) isExplainedLocked(k inventory.Key, t *track) bool {
	found, isReported := s.reports[k]
	return isReported && found.state == t.driftState()
}

// needsRunLocked reports whether an object needs a run of its own. While a run applies the object,
// an observation may show the result of that; at the end of the run, the cluster's answer has
// decided.
func (s *known) needsRunLocked(k inventory.Key, t *track) bool {
	switch {
	case t.isTerminating || !t.hasDrifted():
		return false
	case t.isUnknown(): // it was being deleted when the run reached it
		return true
	case s.drift == syncpolicy.DriftReport:
		return !s.isExplainedLocked(k, t)
	default:
		return s.drift == syncpolicy.DriftCorrect
	}
}

// scheduleLocked schedules a run for an object that others have changed.
func (s *known) scheduleLocked(k inventory.Key, t *track, now time.Time) {
	t.notedRun = s.run
	if s.needsRunLocked(k, t) {
		s.correctionDue = earliest(s.correctionDue, t.correctableAt(now))
	}
}

// nextCorrectionLocked returns when changed objects need a run, or zero if none does. The latest
// run has examined the other changed objects and left them, so they wait for the next run.
func (s *known) nextCorrectionLocked(now time.Time) (at time.Time) {
	for k, t := range s.tracks.All() {
		isHeld := t.contest().until.After(now)
		if s.needsRunLocked(k, t) && (isHeld || t.notedRun == s.run) {
			at = earliest(at, t.correctableAt(now))
		}
	}
	return at
}

// SetDriftMode sets how runs treat drift, and schedules the next correction again.
func (s *Objects) SetDriftMode(mode syncpolicy.DriftMode, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.drift = mode
	s.known.correctionDue = s.known.nextCorrectionLocked(now)
}

// Schedule returns when changed objects are to be corrected, and when the latest contested object
// stops being contested, so that the status changes. Zero: never.
func (s *Objects) Schedule() (correctionDue, contestExpires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.correctionDue, s.known.contestExpires
}

// AreUndisturbed reports whether every object is in the state in which the latest run left it.
func (s *Objects) AreUndisturbed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.known.tracks.All() {
		if !t.isSeen || t.isUnknown() || t.isTerminating || t.hasDrifted() {
			return false
		}
	}
	return true
}

// Drift returns the changed objects to report, by key, at most report.MaxObjects. It drops reports
// of objects that are in the desired state again.
func (s *Objects) Drift(now time.Time) []report.ObjectDrift {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.known.contestExpires) {
		s.known.contestExpires = time.Time{}
	}
	var all []report.ObjectDrift
	for key, found := range s.known.reports {
		t := s.known.tracks.At(key)
		if t == nil || !t.isContested(now) && (!t.hasDrifted() || !s.known.isExplainedLocked(key, t)) {
			delete(s.known.reports, key)
			continue
		}
		all = append(all, found.ObjectDrift)
	}
	slices.SortFunc(all, func(a, b report.ObjectDrift) int { return a.Ref.Compare(b.Ref.Key) })
	return all[:min(len(all), report.MaxObjects)]
}

// DriftState returns the state of an object, for a later ReportDrift.
func (s *Objects) DriftState(k inventory.Key) DriftState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.tracks.ensure(k).driftState()
}

// ReportDrift records the changes that others have made in the object's given state.
func (s *Objects) ReportDrift(found report.ObjectDrift, state DriftState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.reportDriftLocked(driftReport{found, state})
}

func (s *known) reportDriftLocked(found driftReport) {
	if s.reports == nil {
		s.reports = map[inventory.Key]driftReport{}
	}
	s.reports[found.Ref.Key] = found
}

// MayBeContested reports whether the next correction of the object would exceed the limit, so that
// people must learn of the changes.
func (s *Objects) MayBeContested(k inventory.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known.tracks.At(k)
	return t != nil && t.contest().count >= freeCorrections
}

// ReportContest records the change that others repeat in an object. It has no effect on an object
// that is not contested.
func (s *Objects) ReportContest(found report.ObjectDrift, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.tracks.ensure(found.Ref.Key).isContested(now) {
		s.known.reportDriftLocked(driftReport{ObjectDrift: found})
		s.known.contestExpires = now.Add(contestWindow + time.Second)
	}
}

// earliest returns the earlier of two times. The zero time is later than any.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
