// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// LastGood forwards to a Reporter, and records from which bundles each service was last applied.
// Such bundles stay on disk after the plan has changed: the next ones are deltas from them, and a
// plan that goes back needs them. It is safe for concurrent use.
type LastGood struct {
	reconcile.Reporter

	mu      sync.Mutex
	applied map[string][]digest.Digest // by service
	pins    map[digest.Digest]int      // by digest: the number of services
}

// NewLastGood returns a LastGood without any service.
func NewLastGood(next reconcile.Reporter) *LastGood {
	return &LastGood{Reporter: next, applied: map[string][]digest.Digest{}, pins: map[digest.Digest]int{}}
}

// Report implements reconcile.Reporter.
func (l *LastGood) Report(status report.Status) {
	digests := make([]digest.Digest, 0, len(status.Applied.Digests))
	for _, text := range status.Applied.Digests {
		if d, err := digest.Parse(text); err == nil { // other texts do not name a bundle
			digests = append(digests, d)
		}
	}
	l.set(status.Service, digests)
	l.Reporter.Report(status)
}

// Forget implements reconcile.Reporter.
func (l *LastGood) Forget(service string) {
	l.set(service, nil)
	l.Reporter.Forget(service)
}

func (l *LastGood) set(service string, digests []digest.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.applied[service]
	if slices.Equal(before, digests) {
		return
	}
	for _, d := range digests {
		l.pins[d]++
	}
	for _, d := range before {
		if l.pins[d]--; l.pins[d] <= 0 {
			delete(l.pins, d)
		}
	}
	l.applied[service] = digests
	if len(digests) == 0 {
		delete(l.applied, service)
	}
}

// Pinned reports whether a service was last applied from a bundle.
func (l *LastGood) Pinned(d digest.Digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pins[d] > 0
}

// Yield unpins all bundles, for a store without room for the plan's bundles. They are pinned again
// when services report.
func (l *LastGood) Yield() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.applied)
	clear(l.pins)
}
