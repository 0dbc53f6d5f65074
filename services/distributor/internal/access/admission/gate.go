// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// burstSeconds is how many seconds' worth of callers a gate lets in at once when it was quiet
	// before.
	burstSeconds = 5
	// slotJitter keeps those apart who were given neighbouring slots, and who began together.
	slotJitter = 0.1
	// longestWait bounds what a caller is told to wait. Where the line is longer, it asks again in
	// the middle of it.
	longestWait = time.Minute
)

// Gate lets callers that come all at once in one after another: past its rate it tells each when to
// come again, and spreads them so that obedient ones come at that rate. It holds nothing for
// waiting callers. It is safe for concurrent use.
type Gate struct {
	limiter *rate.Limiter
	line    *Line
}

// NewGate returns a Gate for so many callers a second, at least one, and five seconds' worth of
// them at once.
func NewGate(perSecond int) *Gate {
	perSecond = max(perSecond, 1)
	return &Gate{limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond*burstSeconds), line: NewLine(perSecond)}
}

// Enter returns whether the caller may come in, and if not, when it should come again.
func (g *Gate) Enter() (wait time.Duration, ok bool) {
	if g.limiter.Allow() {
		return 0, true
	}
	return g.line.Next(), false
}

// Line gives waiting callers their places in time. It is safe for concurrent use.
type Line struct {
	every time.Duration

	mu sync.Mutex
	// tail is the last slot that was given.
	tail time.Time
}

// NewLine returns a Line of so many slots a second, at least one.
func NewLine(perSecond int) *Line {
	return &Line{every: time.Second / time.Duration(max(perSecond, 1))}
}

// Next returns how long it is until the next free slot, give or take a tenth, and a minute at the
// most.
func (l *Line) Next() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	slot := l.tail.Add(l.every)
	if slot.Before(now) {
		slot = now.Add(l.every)
	}
	if wait := slot.Sub(now); wait < longestWait {
		l.tail = slot
		return backoff.Jitter(wait, slotJitter)
	}
	// The line grows no longer than its bound: these spread over its second half.
	return backoff.Jitter(longestWait*3/4, 1.0/3)
}
