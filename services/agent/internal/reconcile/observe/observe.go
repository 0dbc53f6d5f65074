// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package observe records the known state of the objects of one service: which objects the
// inventory lists, the state of each in watches and in the cluster's answers, and the changes by
// others.
//
// Objects has one lock and calls no other component while it holds it, so any caller may hold locks
// of its own. Three parties use it concurrently: watches report observations, the active run
// reports the cluster's answers and asks what to do about each object, and the unit asks for the
// health of all objects and for the time of the next correction.
//
// An object is listed from the moment its inventory is stored until it leaves. Only listed objects
// have a state. An observation that is older than the known state has no effect. A manifest counts
// as unknown from before its apply until the cluster has answered. A process that ends in between
// applies the object again.
//
// Drift is any change that others make to a field that Leat has set. The service's policy decides
// whether a run corrects it, explains it, or leaves it. A run that has examined a change and left
// it does not cause another run.
package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Scope is the part of the cluster in which one watch observes a kind, and the account as which it
// does. The zero Scope is the whole cluster, as the agent itself.
//
// A watch of a Scope observes the objects of the services of that account alone. It does not cover
// other services, whose objects may be in the same namespace.
type Scope struct {
	Account   k8s.Account
	Namespace string // empty: all
}

// Collection is the scope of one watch: objects of a kind with Leat's label.
type Collection struct {
	Kind  schema.GroupVersionKind
	Scope Scope
}

// Observation is the state of one object in a watch.
type Observation struct {
	// Service is the value of the object's label.
	Service string
	// Object is the object.
	Object inventory.Object
	// ResourceVersion orders observations of one object.
	ResourceVersion string
	// Health is the verdict on the object.
	Health health.Verdict
	// Fingerprint is the sum of the fields that Leat's field manager has set.
	Fingerprint fingerprint.Sum
	// Completed means that the object has ended successfully; see health.HasCompleted.
	Completed bool
	// Terminating means that the object is being deleted.
	Terminating bool
	// Deleted means that the object is gone. Then Fingerprint and Terminating are zero.
	Deleted bool
}

// Objects is the known state of the objects of one service. Its methods may be called concurrently.
type Objects struct {
	mu    sync.Mutex
	known known // mu guards it
}

// known is the state of Objects, which the lock of Objects guards.
type known struct {
	listed         inventory.Set
	tracks         tracks
	drift          syncpolicy.DriftMode
	reports        map[inventory.Key]driftReport
	run            uint32    // number of begun runs
	correctionDue  time.Time // when changed objects are to be corrected; zero: never
	contestExpires time.Time // when the latest contested object stops being contested; zero: never
	isUnsaved      bool      // the fingerprints differ from the stored ones
	once           once      // objects that run once
}

// New returns the state of a new process: the objects in the inventory, its data about objects that
// run once, and the fingerprints that an earlier process stored.
func New(listed inventory.Set, table fingerprint.Table, once []inventory.Once) *Objects {
	s := &Objects{known: known{listed: listed, once: newOnce(once)}}
	for _, o := range listed.Objects() {
		s.known.tracks.ensure(o.Key).Kept = table[o.Key]
	}
	return s
}

// HasUnknown reports whether the fingerprint of a listed object is unknown, so that the object must
// be applied again.
func (s *Objects) HasUnknown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.known.tracks.All() {
		if t.isUnknown() {
			return true
		}
	}
	return false
}

// Effect is the change that an observation caused.
type Effect struct {
	// Ref is the object as the inventory lists it.
	Ref inventory.Ref
	// Health is the new verdict. HasNewHealth reports whether it differs from the one before.
	Health       health.Verdict
	HasNewHealth bool
	// HasNews reports whether anything changed that affects the service's status or its next run.
	HasNews bool
}

// Observe records the state of an object in a watch. It has no effect on objects that are not
// listed.
func (s *Objects) Observe(o Observation) Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, isListed := s.known.listed.Get(o.Object.Key)
	if !isListed || o.Deleted && entry.UID != o.Object.UID {
		return Effect{}
	}
	t, version, now := s.known.tracks.ensure(entry.Key), versionOf(o.ResourceVersion), time.Now()
	if t.isSeen && isOlder(version, t.Version) {
		return Effect{}
	}
	if o.Deleted {
		o.Health = health.Verdict{State: health.Missing, Message: "was deleted by somebody else; " + s.known.restorationLocked()}
	}
	before, due, hadDrifted, wasUnsaved := t.health(), s.known.correctionDue, t.hasDrifted(), s.known.once.isUnsaved
	s.known.isUnsaved = t.see(o, version, entry.UID) || s.known.isUnsaved
	if o.Completed && !t.isReplaced {
		s.known.completeLocked(entry.Key, t, o.Object.UID)
	}
	if o.Deleted && s.known.once.isDone(entry.Key) {
		o.Health = health.Verdict{State: health.Healthy}
		s.known.finishLocked(t)
	}
	s.known.scheduleLocked(entry.Key, t, now)
	isNew := before != o.Health
	return Effect{
		Ref: entry.Ref, Health: o.Health, HasNewHealth: isNew,
		HasNews: isNew || !due.Equal(s.known.correctionDue) || hadDrifted != t.hasDrifted() || wasUnsaved != s.known.once.isUnsaved,
	}
}

// SetSynced records that every existing object of a kind in a namespace was observed. The other
// listed ones are missing. An empty namespace means all, also objects without one.
func (s *Objects) SetSynced(kind schema.GroupKind, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.known.listed.Objects() {
		t := s.known.tracks.ensure(o.Key)
		if t.isSeen || o.UID == "" || !isIn(o, kind, namespace) {
			continue
		}
		if s.known.once.isDone(o.Key) {
			s.known.finishLocked(t)
			continue
		}
		t.presence = isDeleted
		t.setHealth(health.Verdict{State: health.Missing, Message: "is not in the cluster; " + s.known.restorationLocked()})
		s.known.scheduleLocked(o.Key, t, time.Now())
	}
}

// restorationLocked returns what will restore a missing object, for its message.
func (s *known) restorationLocked() string {
	if s.drift == syncpolicy.DriftCorrect {
		return "it will be created again"
	}
	return "the next sync restores it"
}

// isIn reports whether an object has that kind and is in that namespace, or the namespace is empty.
func isIn(o inventory.Object, kind schema.GroupKind, namespace string) bool {
	return o.GroupKind() == kind && (namespace == "" || o.Namespace == namespace)
}

// SetUnobservable records why objects of a kind in a namespace, or in all if it is empty, cannot be
// observed. It is the health of all objects that have never been observed, until they are.
func (s *Objects) SetUnobservable(kind schema.GroupKind, namespace, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.known.listed.Objects() {
		if !isIn(o, kind, namespace) {
			continue
		}
		if t := s.known.tracks.ensure(o.Key); !t.isSeen {
			t.exception = &exception{verdict: health.Verdict{State: health.Unknown, Message: why}}
		}
	}
}

// Statuses returns all listed objects with their health, by key, and counts them. The failures of
// the latest run belong to listed objects, or are of objects that the inventory does not list, such
// as another service's.
func (s *Objects) Statuses(failures []report.ObjectStatus) ([]report.ObjectStatus, health.Counts) {
	problems := make(map[inventory.Key]report.ObjectStatus, len(failures))
	for _, f := range failures {
		problems[f.Ref.Key] = f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []report.ObjectStatus
	var counts health.Counts
	for _, o := range s.known.listed.Objects() {
		status := report.ObjectStatus{Ref: o.Ref, Health: s.known.tracks.At(o.Key).health(), Problem: problems[o.Key].Problem}
		delete(problems, o.Key)
		all = append(all, status)
		counts.Add(status.HealthState())
	}
	for _, f := range failures {
		if _, isUnlisted := problems[f.Ref.Key]; isUnlisted {
			all = append(all, f)
			counts.Add(f.HealthState())
		}
	}
	return all, counts
}

// Unhealthy returns the unhealthy ones among the objects.
func (s *Objects) Unhealthy(refs []inventory.Ref) (all []report.ObjectStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range refs {
		if verdict := s.known.tracks.At(ref.Key).health(); verdict.State != health.Healthy {
			all = append(all, report.ObjectStatus{Ref: ref, Health: verdict})
		}
	}
	return all
}

// AreHealthy reports whether all listed objects are healthy.
func (s *Objects) AreHealthy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.known.listed.Objects() {
		if s.known.tracks.At(o.Key).health().State != health.Healthy {
			return false
		}
	}
	return true
}

// Get returns an object as the inventory lists it.
func (s *Objects) Get(k inventory.Key) (inventory.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.listed.Get(k)
}

// Len returns the number of listed objects.
func (s *Objects) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.listed.Len()
}

// Listed returns the objects that the inventory lists. The set belongs to the caller.
func (s *Objects) Listed() inventory.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.listed.Clone()
}

// Signature returns the sum of the known state of the objects, except for their health. It changes
// when a dry run may have another result.
func (s *Objects) Signature() fingerprint.Sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text []byte
	for _, o := range s.known.listed.Objects() {
		text = fmt.Append(text, o.Key, o.UID)
		if t := s.known.tracks.At(o.Key); t != nil {
			text = fmt.Append(append(text, t.Server[:]...), t.isGone(), t.isReplaced)
		}
	}
	return fingerprint.Text(text)
}

// Save stores the fingerprints for the next process, if they changed. After an error a restart
// applies the service again, so Save does not retry.
func (s *Objects) Save(ctx context.Context, service string, store fingerprint.Store) error {
	s.mu.Lock()
	isUnsaved := s.known.isUnsaved
	s.known.isUnsaved = false
	var table fingerprint.Table
	if isUnsaved {
		table = s.known.tracks.table()
	}
	s.mu.Unlock()
	if !isUnsaved {
		return nil
	}
	return store.Save(context.WithoutCancel(ctx), service, table)
}
