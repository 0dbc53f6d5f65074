// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	// renewalBurst is how many assertions a cluster may spend at once after a quiet time. An agent
	// needs one in forty minutes, and one more after each start.
	renewalBurst = 30
	// renewalEvery is how often a cluster that has used up its burst may spend another assertion.
	renewalEvery = 5 * time.Second
)

// ErrReplayed means that the assertion was used before.
var ErrReplayed = errors.New("assertion was used before")

// ErrTooOften means that the cluster spends assertions faster than an agent needs them.
var ErrTooOften = errors.New("cluster uses too many assertions")

// Replay remembers which assertions were used, for as long as they are valid. It is safe for
// concurrent use.
//
// Each cluster has its own rate, which is charged before anything is remembered. The rate bounds
// the assertions that Replay holds for one cluster (about 80 of 32 bytes). So Replay does not need
// a bound for the fleet, and a hostile agent locks out only itself.
//
// Each replica remembers assertions on its own, so an assertion is valid once per replica, within
// its minute. A shared memory would make renewals depend on the database, and they are meant to
// work without it. It would gain little: a thief who reads an assertion in transit has broken TLS,
// and also reads the access token in the answer.
type Replay struct {
	life time.Duration
	pace *Pace // of each cluster

	mu    sync.Mutex
	older map[mark]struct{}
	newer map[mark]struct{}
	// turn is when newer becomes older.
	turn time.Time
}

// mark identifies one assertion of one cluster. It has a fixed size because the agent chooses the
// assertion's id.
type mark [sha256.Size]byte

// NewReplay returns a Replay for assertions that are valid for at most life.
func NewReplay(life time.Duration) *Replay {
	return &Replay{life: life, pace: NewPace(renewalEvery, renewalBurst), older: map[mark]struct{}{}, newer: map[mark]struct{}{}}
}

// Spend uses up the assertion id of the cluster clusterUID. The caller must have verified the
// assertion's signature; otherwise an attacker could use up the cluster's rate. Spend returns
// ErrReplayed, or ErrTooOften with the time after which the cluster may try again. A replay is not
// charged to the cluster.
func (r *Replay) Spend(clusterUID, id string) (wait time.Duration, err error) {
	m := mark(sha256.Sum256([]byte(clusterUID + "\x00" + id)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ageLocked(time.Now())
	_, inOlder := r.older[m]
	_, inNewer := r.newer[m]
	if inOlder || inNewer {
		return 0, ErrReplayed
	}
	if wait, ok := r.pace.Enter(clusterUID); !ok {
		return wait, ErrTooOften
	}
	r.newer[m] = struct{}{}
	return 0, nil
}

// ageLocked forgets in two generations: Replay holds each mark for at least one life, and for at
// most two.
func (r *Replay) ageLocked(now time.Time) {
	switch late := now.Sub(r.turn); {
	case late < 0:
		return
	case late >= r.life:
		r.older = map[mark]struct{}{}
	default:
		r.older = r.newer
	}
	r.newer = map[mark]struct{}{}
	r.turn = now.Add(r.life)
}

// Held returns how many assertions Replay remembers.
func (r *Replay) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.older) + len(r.newer)
}
