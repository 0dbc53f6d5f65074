// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"iter"
	"strconv"
	"time"

	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// track is what is known of one object of a unit. There is one for every object of the inventory, so it is small: a service
// may have ten thousand.
type track struct {
	fingerprint.Entry

	rare  *rare  // nil: it is healthy where it was seen, and else unknown, and nobody has changed it lately
	noted uint32 // the run before, or during, which the latest news of the object came

	seen        bool // by a watch, or in the answer to an apply
	deleted     bool // it is not in the cluster, or has lost the label
	replaced    bool // another object has taken its name
	terminating bool // it is being deleted
}

// health returns the verdict on the object; Unknown before anything was seen.
func (t *track) health() health.Verdict {
	switch {
	case t == nil, !t.seen && t.rare == nil:
		return health.Verdict{}
	case t.rare == nil:
		return health.Verdict{State: health.Healthy}
	default:
		return t.rare.verdict
	}
}

func (t *track) judge(v health.Verdict) {
	t.seen = true
	if v == (health.Verdict{State: health.Healthy}) && t.contest().count == 0 {
		t.rare = nil
		return
	}
	t.rare = &rare{verdict: v, contest: t.contest()}
}

// contest is the memory of how often the object was corrected lately; zero when it was not.
func (t *track) contest() contest {
	if t.rare == nil {
		return contest{}
	}
	return t.rare.contest
}

// astray tells that the object is not what was applied.
func (t *track) astray() bool {
	return t.deleted || t.replaced || t.Strayed()
}

// owed tells that a manifest was to be applied which was not, or not for certain.
func (t *track) owed() bool { return t.Manifest.IsZero() }

// see takes in what a watch saw of the object that the inventory knows under uid. It reports whether what is kept of it has
// changed, which it does when the API server shows the object otherwise to watches than in its answer to the apply: in
// another version of its kind.
func (t *track) see(o Observation, version uint64, uid string) (adjusted bool) {
	same := version != 0 && version == t.Version && !t.deleted && !t.Applied.IsZero() && t.Applied == t.Server
	t.deleted, t.terminating, t.Version = o.Deleted, o.Terminating, version
	t.replaced = !o.Deleted && uid != "" && uid != o.Object.UID
	t.judge(o.Health)
	if o.Deleted || o.Fingerprint.IsZero() {
		return false
	}
	t.Server = o.Fingerprint
	if same && !t.replaced && t.Applied != t.Server {
		t.Applied = t.Server
		return true
	}
	return false
}

// answer takes in the cluster's answer to an apply. A watch may have seen the outcome, and what came of it, before.
func (t *track) answer(manifest fingerprint.Sum, o Observation) {
	version := versionOf(o.ResourceVersion)
	t.Manifest, t.Applied = manifest, o.Fingerprint
	switch {
	case version != 0 && t.Version == version && !t.deleted && !t.Server.IsZero():
		t.Applied = t.Server
	case version == 0 || t.Version < version || !t.seen:
		t.Server, t.Version = o.Fingerprint, version
		t.deleted, t.terminating = false, o.Terminating
		t.judge(o.Health)
	}
	t.replaced = false
}

// versionOf reads a resource version. The API server promises that versions can be compared; zero where one cannot.
func versionOf(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// older tells whether a version was made before what is known. One that cannot be read counts as newer.
func older(version, known uint64) bool {
	return version != 0 && version < known
}

// tracks are what is known of a unit's objects, by key. The zero tracks are empty and ready to use.
type tracks struct {
	objects inventory.Index[track]
}

// get returns what is known of an object, nil when nothing is.
func (s *tracks) get(k inventory.Key) *track { return s.objects.At(k) }

// of returns what is known of an object, to be changed.
func (s *tracks) of(k inventory.Key) *track {
	if t := s.objects.At(k); t != nil {
		return t
	}
	return s.objects.Put(k, track{})
}

func (s *tracks) drop(k inventory.Key) { s.objects.Remove(k) }

// all goes through everything by key.
func (s *tracks) all() iter.Seq2[inventory.Key, *track] { return s.objects.All() }

// table is what outlives a restart.
func (s *tracks) table() fingerprint.Table {
	table := fingerprint.Table{}
	for k, t := range s.all() {
		if !t.owed() && !t.Applied.IsZero() {
			table[k] = t.Kept
		}
	}
	return table
}

// rare is what is known of few objects.
type rare struct {
	verdict health.Verdict
	contest contest
}

// contest is the memory of an object that is corrected again and again.
type contest struct {
	count int           // of corrections in a row
	last  time.Time     // when the latest was made
	pause time.Duration // from the latest to the next
	until time.Time     // when the next may be made
}
