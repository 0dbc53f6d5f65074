// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Kubernetes may delete objects that run once, such as Jobs, after their end. A deleted object of
// this kind is in the desired state for as long as its content stays the same. Its state is stored
// with the inventory, before it is applied, and again when it has completed.

// MaxOnce bounds the objects of a service that are recorded in this way: they share a ConfigMap of
// 1 MiB with the rest of the record. An object beyond it is created again when it is gone.
const MaxOnce = 500

// once is the state of the objects that run once. The lock of Objects guards it.
type once struct {
	runs      map[inventory.Key]inventory.Once
	completed map[inventory.Key]string // the UIDs of objects that were seen to have completed
	isUnsaved bool                     // runs differ from the stored ones
}

func newOnce(stored []inventory.Once) once {
	o := once{runs: map[inventory.Key]inventory.Once{}, completed: map[inventory.Key]string{}}
	for _, run := range stored {
		o.runs[run.Key] = run
	}
	return o
}

func (o *once) isDone(k inventory.Key) bool { return o.runs[k].Done }

func (o *once) set(run inventory.Once) {
	if o.runs[run.Key] != run {
		o.runs[run.Key], o.isUnsaved = run, true
	}
}

// finish records that the object has completed for its content.
func (o *once) finish(k inventory.Key) {
	if run, isKnown := o.runs[k]; isKnown && !run.Done {
		run.Done = true
		o.set(run)
	}
}

func (o *once) remove(k inventory.Key) {
	delete(o.completed, k)
	if _, isKnown := o.runs[k]; isKnown {
		delete(o.runs, k)
		o.isUnsaved = true
	}
}

// all returns the data to store, by key.
func (o *once) all() []inventory.Once {
	if len(o.runs) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(o.runs), func(a, b inventory.Once) int { return a.Key.Compare(b.Key) })
}

// BeginOnce records the content that an object runs for. isApplied means that the object in the
// cluster was applied with this content; otherwise it is about to be.
func (s *Objects) BeginOnce(k inventory.Key, content string, isApplied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, isKnown := s.known.once.runs[k]
	if isKnown && before.Content == content || !isKnown && len(s.known.once.runs) >= MaxOnce {
		return
	}
	run := inventory.Once{Key: k, Content: content}
	if isApplied {
		_, run.Done = s.known.once.completed[k]
	}
	s.known.once.set(run)
}

// completeLocked records that the object with that UID has completed. While another manifest is
// being applied, it is unknown whether the object is still the one of the old manifest; the answer
// decides.
func (s *known) completeLocked(k inventory.Key, t *track, uid string) {
	s.once.completed[k] = uid
	if !t.isUnknown() {
		s.once.finish(k)
	}
}

// IsDone reports whether an object has completed for that content.
func (s *Objects) IsDone(k inventory.Key, content string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.isDoneLocked(k, content)
}

func (s *known) isDoneLocked(k inventory.Key, content string) bool {
	run := s.once.runs[k]
	return content != "" && run.Done && run.Content == content
}

// Once returns the data to store about objects that run once, by key.
func (s *Objects) Once() []inventory.Once {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.once.all()
}

// HasUnsavedOnce reports whether Once differs from the stored data.
func (s *Objects) HasUnsavedOnce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.once.isUnsaved
}

// finishLocked records that an object is gone after it has completed.
func (s *known) finishLocked(t *track) {
	t.presence = isFinished
	t.setHealth(health.Verdict{State: health.Healthy})
}

// keepDoneLocked reports whether an object is left alone because it has completed for the content.
// Its manifest is known from then on.
func (s *known) keepDoneLocked(k inventory.Key, manifest fingerprint.Sum, content string) bool {
	if !s.isDoneLocked(k, content) {
		return false
	}
	t := s.tracks.ensure(k)
	if t.isSeen && !t.isGone() {
		return false // it still exists, like any other object
	}
	t.Manifest = manifest
	return true
}
