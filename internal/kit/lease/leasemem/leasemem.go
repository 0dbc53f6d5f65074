// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package leasemem keeps leases in memory, for one process or one test. It measures time with
// time.Now, so it follows the virtual clock of testing/synctest.
package leasemem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
)

// Store is an in-memory [lease.Store].
type Store struct {
	mu     sync.Mutex
	held   map[string]holding
	epochs map[string]uint64 // the last epoch of each key; outlives the leases
	heirs  map[string]bequest
}

// bequest reserves a free key.
type bequest struct {
	heir  string
	until time.Time
}

type holding struct {
	owner string
	epoch uint64
	until time.Time
}

var _ lease.Store = (*Store)(nil)

// New returns a store without leases.
func New() *Store {
	return &Store{held: make(map[string]holding), epochs: make(map[string]uint64), heirs: make(map[string]bequest)}
}

// Forget drops everything, including the epochs, as FLUSHALL does in Redis. It is for tests.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.held)
	clear(s.epochs)
	clear(s.heirs)
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	if err := p.Check(); err != nil {
		return lease.Lease{}, err
	}
	if ctx.Err() != nil {
		return lease.Lease{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if h, ok := s.current(p.Key, now); ok {
		return lease.Lease{}, &lease.HeldError{Key: p.Key, Owner: h.owner, Epoch: h.epoch, Remaining: h.until.Sub(now)}
	}
	if b, ok := s.heirs[p.Key]; ok && b.heir != p.Owner && now.Before(b.until) && (b.heir != "" || !p.Reclaim) {
		return lease.Lease{}, &lease.HeldError{Key: p.Key, Owner: b.heir, Epoch: s.epochs[p.Key], Remaining: b.until.Sub(now)}
	}
	if p.Grace > 0 && !p.Reclaim && p.MinEpoch > s.epochs[p.Key] {
		s.epochs[p.Key] = p.MinEpoch
		s.heirs[p.Key] = bequest{heir: "", until: now.Add(p.Grace)}
		return lease.Lease{}, &lease.HeldError{Key: p.Key, Owner: "", Epoch: p.MinEpoch, Remaining: p.Grace}
	}
	delete(s.heirs, p.Key)
	epoch := max(s.epochs[p.Key], p.MinEpoch) + 1
	s.epochs[p.Key] = epoch
	s.held[p.Key] = holding{owner: p.Owner, epoch: epoch, until: now.Add(p.TTL)}
	return lease.Lease{Key: p.Key, Owner: p.Owner, Epoch: epoch, Deadline: now.Add(p.TTL)}, nil
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Lease, error) {
	if ctx.Err() != nil {
		return lease.Lease{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h, ok := s.current(l.Key, now)
	if !ok || h.owner != l.Owner || h.epoch != l.Epoch {
		return lease.Lease{}, fmt.Errorf("renew %q at epoch %d: %w", l.Key, l.Epoch, lease.ErrLost)
	}
	h.until = now.Add(ttl)
	s.held[l.Key] = h
	l.Deadline = h.until
	return l, nil
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, l lease.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(ctx, l)
}

// Bequeath implements [lease.Store].
func (s *Store) Bequeath(ctx context.Context, l lease.Lease, heir string, reserve time.Duration) error {
	if err := lease.CheckBequest(heir, reserve); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.end(ctx, l); err != nil {
		return err
	}
	s.heirs[l.Key] = bequest{heir: heir, until: time.Now().Add(reserve)}
	return nil
}

// end ends a held lease.
func (s *Store) end(ctx context.Context, l lease.Lease) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, ok := s.current(l.Key, time.Now())
	if !ok || h.owner != l.Owner || h.epoch != l.Epoch {
		return fmt.Errorf("release %q at epoch %d: %w", l.Key, l.Epoch, lease.ErrLost)
	}
	delete(s.held, l.Key)
	return nil
}

// Holder implements [lease.Store].
func (s *Store) Holder(ctx context.Context, key string) (lease.Holder, error) {
	if ctx.Err() != nil {
		return lease.Holder{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h, ok := s.current(key, now)
	if !ok {
		return lease.Holder{}, fmt.Errorf("holder of %q: %w", key, lease.ErrNotHeld)
	}
	return lease.Holder{Owner: h.owner, Epoch: h.epoch, Remaining: h.until.Sub(now)}, nil
}

// current returns the live holding of a key, and deletes an expired one.
func (s *Store) current(key string, now time.Time) (holding, bool) {
	h, ok := s.held[key]
	if ok && !now.Before(h.until) {
		delete(s.held, key)
		return holding{}, false
	}
	return h, ok
}
