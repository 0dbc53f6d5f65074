// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"
	"time"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// BeginRun records that a run begins, which sees all changes until now.
func (s *Objects) BeginRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.correctionDue = time.Time{}
	s.run++
}

// EndRun records that the run has ended with these objects, and schedules corrections of what it has
// not seen.
func (s *Objects) EndRun(listed inventory.Set, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = listed
	s.correctionDue = s.nextCorrectionLocked(now)
}

// List takes over an inventory that was stored: from now on observations of its objects count. The set
// belongs to Objects from then on.
func (s *Objects) List(listed inventory.Set, once []inventory.Once) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = listed
	s.once.isUnsaved = !slices.Equal(once, s.once.all())
}

// Put updates one listed object, such as its UID.
func (s *Objects) Put(o inventory.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed.Put(o)
}

// Remove removes an object from the list with all that is known of it.
func (s *Objects) Remove(k inventory.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed.Remove(k)
	s.tracks.remove(k)
	s.once.remove(k)
	s.isUnsaved = true
}

// Verdict is what a run does about one object.
type Verdict int

// The verdicts.
const (
	Keep    Verdict = iota // it is as it should be, or left as it is
	Install                // apply the manifest
	Repair                 // apply the manifest, which is what was applied last
	Explain                // report what differs
)

// Mode is what a run does about drift.
type Mode struct {
	// Drift is the policy's mode.
	Drift syncpolicy.DriftMode
	// CorrectsAll means that the run corrects drift whatever the mode: a person requested it, or it
	// brings something new.
	CorrectsAll bool
}

// Decide compares a manifest with what is known of its object. A run lists the object before, under
// its UID if it has one; isListed is false otherwise. Content identifies the manifest of an object that
// runs once; "" is any other object.
func (s *Objects) Decide(k inventory.Key, manifest fingerprint.Sum, content string, isListed bool, mode Mode) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isListed && s.keepDoneLocked(k, manifest, content) {
		return Keep
	}
	t := s.tracks.get(k)
	switch {
	case t == nil || !isListed:
		return Install
	case t.isTerminating: // an apply would be lost with it; its end causes a run
		if t.Manifest != manifest {
			s.setUnknownLocked(t)
		}
		return Keep
	case t.Manifest != manifest:
		return Install
	case t.hasDrifted() && mode.corrects(t, time.Now()):
		return Repair
	case t.hasDrifted() && mode.Drift == syncpolicy.DriftReport && !s.isExplainedLocked(k, t):
		return Explain
	default:
		return Keep
	}
}

func (m Mode) corrects(t *track, now time.Time) bool {
	return m.CorrectsAll || m.Drift == syncpolicy.DriftCorrect && !t.contest().until.After(now)
}

// IsRepair reports whether the manifest is what was applied last, so that a run would take back what
// others have taken.
func (s *Objects) IsRepair(k inventory.Key, manifest fingerprint.Sum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tracks.get(k)
	return t != nil && t.Manifest == manifest
}

// SetUnknown records that the object is about to get another manifest: until the cluster has answered,
// it is neither the old one nor the new one, also for the next process after Save.
func (s *Objects) SetUnknown(k inventory.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setUnknownLocked(s.tracks.ensure(k))
}

// BeginApply is SetUnknown unless the manifest is what was applied last.
func (s *Objects) BeginApply(k inventory.Key, manifest fingerprint.Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tracks.ensure(k); t.Manifest != manifest {
		s.setUnknownLocked(t)
	}
}

func (s *known) setUnknownLocked(t *track) {
	if !t.isUnknown() {
		t.Manifest, s.isUnsaved = fingerprint.Sum{}, true
	}
}

// EndApply records the cluster's answer to an apply. The object is as the run knows it, under its UID.
func (s *Objects) EndApply(object inventory.Object, manifest fingerprint.Sum, o Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := s.tracks.ensure(object.Key), time.Now()
	if t.Manifest == manifest {
		t.recordCorrection(now)
	}
	before := t.Kept
	t.answer(manifest, o)
	if uid, hasCompleted := s.once.completed[object.Key]; hasCompleted && uid == object.UID {
		s.once.finish(object.Key) // it has completed, and was changed in place
	}
	s.isUnsaved = s.isUnsaved || t.Kept != before
	s.listed.Put(object)
	s.scheduleLocked(object.Key, t, now) // others may have changed it since
}

// IsKnownDeleted reports whether the object was seen to be deleted. Somebody else may have made another
// of its name since.
func (s *Objects) IsKnownDeleted(k inventory.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tracks.get(k)
	return t != nil && t.isGone()
}

// IsSeen reports whether a watch, or the answer to an apply, has shown the object.
func (s *Objects) IsSeen(k inventory.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tracks.get(k)
	return t != nil && t.isSeen
}

// Remaining returns those of the objects whose end was not observed.
func (s *Objects) Remaining(objects []inventory.Object) []inventory.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []inventory.Object
	for _, o := range objects {
		if t := s.tracks.get(o.Key); t == nil || !t.isGone() && !t.isReplaced {
			left = append(left, o)
		}
	}
	return left
}
