// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// hubWait paces the services whose latest run failed because the hub did not give a bundle or a configuration.
//
// Such a service is not at fault, and its next run succeeds as soon as the hub answers. So it does not wait for long, as
// one does that its API server refuses. The hub must bear all agents of a fleet at once, whatever the number of their
// services: the more services of this agent wait, the longer each one does, and all of them together ask as often as a
// single one. The first that succeeds has the others try again at once, and so does a stream of the plan that begins.
type hubWait struct {
	pace backoff.Policy

	mu      sync.Mutex
	waiting map[string]func() // by service: has it try again
	hailed  time.Time         // when a stream last had all try again
}

// hailInterval is the shortest time between two streams that have all services try again. Streams that break off soon
// after their beginning must not hurry downloads that fail.
const hailInterval = 10 * time.Second

// longestWait bounds the pause of one service. Its companions may leave the plan instead of succeeding, and the hub may
// ask for any pause.
const longestWait = 30 * time.Minute

func newHubWait(pace backoff.Policy) *hubWait {
	return &hubWait{pace: pace, waiting: map[string]func(){}}
}

// failed records that a run failed with err after so many consecutive failures, and returns for how long the service
// waits. retry ends that early; it is called without locks.
func (h *hubWait) failed(service string, err error, failures int, retry func()) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[service] = retry
	pause := h.pace.Delay(failures)
	if hint, ok := backoff.Hint(err); ok {
		pause = max(pause, hint+min(pause, hint/4)) // pauses grow beyond a hint that stays the same
	}
	return min(time.Duration(len(h.waiting))*min(pause, longestWait), longestWait)
}

// drop records that the service does not wait any more. It reports whether it did.
func (h *hubWait) drop(service string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, waited := h.waiting[service]
	delete(h.waiting, service)
	return waited
}

// answered has every service that waits try again. The caller holds no unit's lock.
func (h *hubWait) answered() {
	h.mu.Lock()
	all := make([]func(), 0, len(h.waiting))
	for _, retry := range h.waiting {
		all = append(all, retry)
	}
	h.mu.Unlock()
	for _, retry := range all {
		retry()
	}
}

// hail is answered for a stream of the plan that begins.
func (h *hubWait) hail(now time.Time) {
	h.mu.Lock()
	isSoon := !h.hailed.IsZero() && now.Sub(h.hailed) < hailInterval
	if !isSoon {
		h.hailed = now
	}
	h.mu.Unlock()
	if !isSoon {
		h.answered()
	}
}
