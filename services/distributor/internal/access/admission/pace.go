// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Pace limits the rate of each holder separately, so that a holder that comes too often is rejected
// before it uses up others' share. It is safe for concurrent use. It keeps holders only until their
// burst is whole again, so it holds only recent ones.
type Pace struct {
	every time.Duration
	burst int

	mu    sync.Mutex
	rates map[string]*rate.Limiter
	// sweep is when holders are next removed.
	sweep time.Time
}

// NewPace returns a Pace that admits each holder burst times at once, and then once in every.
func NewPace(every time.Duration, burst int) *Pace {
	return &Pace{every: every, burst: burst, rates: map[string]*rate.Limiter{}}
}

// Enter reports whether the holder is admitted. If not, it also returns the time after which the
// holder may try again.
func (p *Pace) Enter(holder string) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.sweepLocked(now)
	limiter, known := p.rates[holder]
	if !known {
		limiter = rate.NewLimiter(rate.Every(p.every), p.burst)
		p.rates[holder] = limiter
	}
	if !limiter.AllowN(now, 1) {
		return p.every, false
	}
	return 0, true
}

// sweepLocked removes holders whose burst is whole again, because they do not differ from new ones.
func (p *Pace) sweepLocked(now time.Time) {
	if now.Before(p.sweep) {
		return
	}
	p.sweep = now.Add(p.every * time.Duration(p.burst))
	for holder, limiter := range p.rates {
		if limiter.TokensAt(now) >= float64(p.burst) {
			delete(p.rates, holder)
		}
	}
}
