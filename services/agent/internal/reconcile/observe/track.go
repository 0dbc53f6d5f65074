// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strconv"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// The pauses between corrections of one object grow if others repeat the change.
const (
	// correctionDelay is how long a correction waits for further changes of the same action.
	correctionDelay = 20 * time.Millisecond
	// contestWindow is how long others must leave an object unchanged before their next change
	// counts as a new one.
	contestWindow = 10 * time.Minute
	// freeCorrections is how many consecutive corrections happen without a pause.
	freeCorrections = 3
	// contestPause is the pause before the next correction. It doubles each time, up to
	// maxContestPause.
	contestPause, maxContestPause = time.Second, 5 * time.Minute
	contestJitter                 = 0.25
)

// track is the known state of one object. Every object of the inventory has one, and a service may
// have ten thousand, so it is small.
type track struct {
	fingerprint.Entry

	exception *exception // nil: healthy if it was seen, otherwise unknown; and not contested
	notedRun  uint32     // the run before or during which the latest news of the object arrived

	isSeen        bool // by a watch, or in the answer to an apply
	isReplaced    bool // another object has taken its name
	isTerminating bool // it is being deleted
	presence      presence
}

// presence is whether an object is in the cluster.
type presence uint8

const (
	isPresent  presence = iota // or was never seen
	isDeleted                  // it is not in the cluster, or has lost the label
	isFinished                 // it has completed, and is not in the cluster
)

// isGone reports whether the object is not in the cluster.
func (t *track) isGone() bool { return t.presence != isPresent }

// exception is state that only few objects have.
type exception struct {
	verdict health.Verdict
	contest contest
}

// contest is the history of an object that is corrected repeatedly.
type contest struct {
	count int           // of consecutive corrections
	last  time.Time     // when the latest was made
	pause time.Duration // between the latest and the next
	until time.Time     // the earliest time of the next
}

// health returns the verdict on the object: Unknown if it was never seen. A nil track was never
// seen.
func (t *track) health() health.Verdict {
	switch {
	case t == nil, !t.isSeen && t.exception == nil:
		return health.Verdict{}
	case t.exception == nil:
		return health.Verdict{State: health.Healthy}
	default:
		return t.exception.verdict
	}
}

// setHealth records that the object was seen with this verdict.
func (t *track) setHealth(v health.Verdict) {
	t.isSeen = true
	if v == (health.Verdict{State: health.Healthy}) && t.contest().count == 0 {
		t.exception = nil
		return
	}
	t.exception = &exception{verdict: v, contest: t.contest()}
}

// contest returns the history of corrections; zero if there was none lately.
func (t *track) contest() contest {
	if t.exception == nil {
		return contest{}
	}
	return t.exception.contest
}

// hasDrifted reports whether the object differs from its state after the apply.
func (t *track) hasDrifted() bool {
	return t.presence != isFinished && (t.isGone() || t.isReplaced || t.HasDrifted())
}

// isUnknown reports whether it is unknown which manifest the cluster holds, because an apply began
// and no answer arrived.
func (t *track) isUnknown() bool { return t.Manifest.IsZero() }

// recordCorrection records one more correction.
func (t *track) recordCorrection(now time.Time) {
	c := t.contest()
	if now.Sub(c.last) > contestWindow {
		c = contest{}
	}
	c.count++
	c.last, c.until = now, now
	if c.count >= freeCorrections {
		c.pause = min(max(contestPause, 2*c.pause), maxContestPause)
		c.until = now.Add(backoff.Jitter(c.pause, contestJitter))
	}
	t.exception = &exception{verdict: t.health(), contest: c}
}

// isContested reports whether others repeat their change of the object.
func (t *track) isContested(now time.Time) bool {
	c := t.contest()
	return c.count > freeCorrections && now.Sub(c.last) <= contestWindow
}

// correctableAt returns the earliest time of the next correction.
func (t *track) correctableAt(now time.Time) time.Time {
	at := now.Add(correctionDelay)
	if until := t.contest().until; until.After(at) {
		return until
	}
	return at
}

// see records an observation of the object that the inventory lists under uid. It reports whether
// the fingerprint to store has changed. That happens if the API server sends watches the same
// version of the object in another form than in its answer to the apply, such as in another version
// of its kind.
func (t *track) see(o Observation, version uint64, uid string) (adjusted bool) {
	isSame := version != 0 && version == t.Version && !t.isGone() && !t.Applied.IsZero() && t.Applied == t.Server
	t.presence, t.isTerminating, t.Version = isPresent, o.Terminating, version
	if o.Deleted {
		t.presence = isDeleted
	}
	t.isReplaced = !o.Deleted && uid != "" && uid != o.Object.UID
	t.setHealth(o.Health)
	if o.Deleted || o.Fingerprint.IsZero() {
		return false
	}
	t.Server = o.Fingerprint
	if isSame && !t.isReplaced && t.Applied != t.Server {
		t.Applied = t.Server
		return true
	}
	return false
}

// answer records the cluster's answer to an apply. A watch may already have shown the result, and
// later changes.
func (t *track) answer(manifest fingerprint.Sum, o Observation) {
	version := versionOf(o.ResourceVersion)
	t.Manifest, t.Applied = manifest, o.Fingerprint
	switch {
	case version != 0 && t.Version == version && !t.isGone() && !t.Server.IsZero():
		t.Applied = t.Server
	case version == 0 || t.Version < version || !t.isSeen:
		t.Server, t.Version = o.Fingerprint, version
		t.presence, t.isTerminating = isPresent, o.Terminating
		t.setHealth(o.Health)
	}
	t.isReplaced = false
}

// versionOf returns a resource version as a number, or zero for an unreadable one. The API server
// promises that numbers can be compared (KEP-5504).
func versionOf(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// isOlder reports whether a version precedes the known one. An unreadable version counts as newer.
func isOlder(version, known uint64) bool {
	return version != 0 && version < known
}

// tracks are the tracks of a service's objects, by key. The zero tracks are empty and ready to use.
type tracks struct {
	inventory.Index[track]
}

// ensure returns the track of an object, and creates a missing one.
func (s *tracks) ensure(k inventory.Key) *track {
	if t := s.At(k); t != nil {
		return t
	}
	return s.Put(k, track{})
}

// table returns the data that survives a restart.
func (s *tracks) table() fingerprint.Table {
	table := fingerprint.Table{}
	for k, t := range s.All() {
		if !t.isUnknown() && !t.Applied.IsZero() {
			table[k] = t.Kept
		}
	}
	return table
}
