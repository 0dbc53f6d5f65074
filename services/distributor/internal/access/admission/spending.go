// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of Spending.Begin.
var (
	// ErrSpent means that the holder has used up its time.
	ErrSpent = errors.New("the caller has used up its time")
	// ErrCrowded means that too many calls of the holder wait already.
	ErrCrowded = errors.New("too many calls of the caller wait")
)

// Allowance is each holder's part of a Spending.
type Allowance struct {
	// AtOnce is how many pieces of work run at once, and Waiting how many wait for one to end.
	AtOnce, Waiting int
	// Burst is the time that work may take after a rest.
	Burst time.Duration
	// Share is the part of the passing time that a holder gets back: 0.25 is 15 s of each minute.
	Share float64
}

// Spending bounds the work of each holder separately, in number and in time. The time is that between
// the beginning of a piece of work and its end, so several at once use it up faster. It is safe for
// concurrent use. It keeps holders only until they have rested.
type Spending struct {
	allows Allowance

	mu      sync.Mutex
	holders map[string]*spender
	// sweep is when holders are next removed.
	sweep time.Time
}

// spender is the use of one holder. Its fields belong to the Spending's lock, except places.
type spender struct {
	places  chan struct{}
	present int
	spent   time.Duration
	at      time.Time // of spent
}

// NewSpending returns a Spending.
func NewSpending(allows Allowance) *Spending {
	return &Spending{allows: allows, holders: map[string]*spender{}}
}

// Begin waits until the holder has a place for a piece of work, and returns the function that ends the
// work. The caller calls it once. ErrSpent comes with the time after which the holder has some again.
// Other errors are ErrCrowded and the context's cause.
func (s *Spending) Begin(ctx context.Context, holder string) (end func(), wait time.Duration, err error) {
	one, wait, err := s.enter(holder)
	if err != nil {
		return nil, wait, err
	}
	select {
	case one.places <- struct{}{}:
	case <-ctx.Done():
		s.leave(one, 0)
		return nil, 0, context.Cause(ctx)
	}
	// Runs in the meantime count for the waiting ones.
	if wait := s.owed(one); wait > 0 {
		<-one.places
		s.leave(one, 0)
		return nil, wait, ErrSpent
	}
	began := time.Now()
	return func() {
		<-one.places
		s.leave(one, time.Since(began))
	}, 0, nil
}

func (s *Spending) enter(holder string) (one *spender, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweepLocked(now)
	one = s.holders[holder]
	if one == nil {
		one = &spender{places: make(chan struct{}, s.allows.AtOnce), at: now}
		s.holders[holder] = one
	}
	switch wait := s.owedLocked(one, now); {
	case wait > 0:
		return nil, wait, ErrSpent
	case one.present >= s.allows.AtOnce+s.allows.Waiting:
		return nil, 0, ErrCrowded
	}
	one.present++
	return one, 0, nil
}

// leave ends a piece of work that took so long.
func (s *Spending) leave(one *spender, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restLocked(one, time.Now())
	one.present--
	one.spent += took
}

func (s *Spending) owed(one *spender) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owedLocked(one, time.Now())
}

// owedLocked returns how long a holder has to rest before its next piece of work.
func (s *Spending) owedLocked(one *spender, now time.Time) time.Duration {
	s.restLocked(one, now)
	return time.Duration(float64(max(0, one.spent-s.allows.Burst)) / s.allows.Share)
}

// restLocked gives a holder back what it gets for the time that passed.
func (s *Spending) restLocked(one *spender, now time.Time) {
	one.spent = max(0, one.spent-time.Duration(float64(now.Sub(one.at))*s.allows.Share))
	one.at = now
}

// sweepLocked removes holders that have rested, because they do not differ from new ones.
func (s *Spending) sweepLocked(now time.Time) {
	if now.Before(s.sweep) {
		return
	}
	s.sweep = now.Add(s.allows.Burst)
	for holder, one := range s.holders {
		if s.restLocked(one, now); one.present == 0 && one.spent == 0 {
			delete(s.holders, holder)
		}
	}
}
