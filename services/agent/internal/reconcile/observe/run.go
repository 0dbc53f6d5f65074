// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// BeginRun records that a run begins. The run sees all changes until now.
func (s *Objects) BeginRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.correctionDue = time.Time{}
	s.known.run++
}

// EndRun records that the run has ended with these objects, and schedules corrections of changes
// that it has not seen.
func (s *Objects) EndRun(listed inventory.Set, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.listed = listed
	s.known.correctionDue = s.known.nextCorrectionLocked(now)
}

// List replaces the listed objects by the objects of a stored inventory. From now on observations
// of these count. The set belongs to Objects from then on.
func (s *Objects) List(listed inventory.Set, once []inventory.Once) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.listed = listed
	s.known.once.isUnsaved = !slices.Equal(once, s.known.once.all())
}

// Put updates one listed object, such as its UID.
func (s *Objects) Put(o inventory.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.listed.Put(o)
}

// Remove removes an object from the list, with its state.
func (s *Objects) Remove(k inventory.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.listed.Remove(k)
	s.known.tracks.Remove(k)
	s.known.once.remove(k)
	s.known.isUnsaved = true
}

// Verdict is the action of a run for one object.
type Verdict int

// The verdicts.
const (
	Keep    Verdict = iota // it is in the desired state, or left as it is
	Install                // apply the manifest
	Repair                 // apply the manifest again, because others have changed the object
	Explain                // report the differences
)

// Mode is how a run treats drift.
type Mode struct {
	// Drift is the policy's mode.
	Drift syncpolicy.DriftMode
	// CorrectsAll means that the run corrects drift in any mode: a person requested it, or it
	// applies a change.
	CorrectsAll bool
}

// Decide compares a manifest with the known state of its object. The run must list the object
// first, under its UID if it has one; isListed is false otherwise. Content identifies the manifest
// of an object that runs once; it is "" for any other object.
func (s *Objects) Decide(k inventory.Key, manifest fingerprint.Sum, content string, isListed bool, mode Mode) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isListed && s.known.keepDoneLocked(k, manifest, content) {
		return Keep
	}
	t := s.known.tracks.At(k)
	switch {
	case t == nil || !isListed:
		return Install
	case t.isTerminating: // the deletion would remove the result of an apply; its end causes a run
		if t.Manifest != manifest {
			s.known.setUnknownLocked(t)
		}
		return Keep
	case t.Manifest != manifest:
		return Install
	case t.hasDrifted() && mode.corrects(t, time.Now()):
		return Repair
	case t.hasDrifted() && mode.Drift == syncpolicy.DriftReport && !s.known.isExplainedLocked(k, t):
		return Explain
	default:
		return Keep
	}
}

func (m Mode) corrects(t *track, now time.Time) bool {
	return m.CorrectsAll || m.Drift == syncpolicy.DriftCorrect && !t.contest().until.After(now)
}

// IsRepair reports whether the manifest is the last applied one, so that an apply would only undo
// changes by others.
func (s *Objects) IsRepair(k inventory.Key, manifest fingerprint.Sum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known.tracks.At(k)
	return t != nil && t.Manifest == manifest
}

// SetUnknown records that the object is about to get another manifest. Until the cluster has
// answered, the object may be in the old or the new state. After Save that also holds for the next
// process.
func (s *Objects) SetUnknown(k inventory.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.setUnknownLocked(s.known.tracks.ensure(k))
}

// BeginApply is SetUnknown unless the manifest is the last applied one.
func (s *Objects) BeginApply(k inventory.Key, manifest fingerprint.Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.known.tracks.ensure(k); t.Manifest != manifest {
		s.known.setUnknownLocked(t)
	}
}

func (s *known) setUnknownLocked(t *track) {
	if !t.isUnknown() {
		t.Manifest, s.isUnsaved = fingerprint.Sum{}, true
	}
}

// EndApply records the cluster's answer to an apply. The object is the run's entry, with its UID.
func (s *Objects) EndApply(object inventory.Object, manifest fingerprint.Sum, o Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := s.known.tracks.ensure(object.Key), time.Now()
	if t.Manifest == manifest {
		t.recordCorrection(now)
	}
	before := t.Kept
	t.answer(manifest, o)
	if uid, hasCompleted := s.known.once.completed[object.Key]; hasCompleted && uid == object.UID {
		s.known.once.finish(object.Key) // it has completed, and was changed in place
	}
	s.known.isUnsaved = s.known.isUnsaved || t.Kept != before
	s.known.listed.Put(object)
	s.known.scheduleLocked(object.Key, t, now) // others may have changed it since
}

// IsKnownDeleted reports whether the object's deletion was observed. Another client may have
// created another object of the same name since.
func (s *Objects) IsKnownDeleted(k inventory.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known.tracks.At(k)
	return t != nil && t.isGone()
}

// IsSeen reports whether a watch, or the answer to an apply, has shown the object.
func (s *Objects) IsSeen(k inventory.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known.tracks.At(k)
	return t != nil && t.isSeen
}

// Remaining returns the objects whose end was not observed.
func (s *Objects) Remaining(objects []inventory.Object) []inventory.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []inventory.Object
	for _, o := range objects {
		if t := s.known.tracks.At(o.Key); t == nil || !t.isGone() && !t.isReplaced {
			left = append(left, o)
		}
	}
	return left
}
