// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease grants exclusive work to one owner at a time, and gives every owner a number that
// distinguishes it from earlier ones.
//
// A lease expires when its holder stops renewing it, so a dead holder blocks others for at most the
// lease's time. But no clock can guarantee that a frozen holder notices in time. Each lease
// therefore carries an epoch, which grows at every change of owner. Everything written under a
// lease carries the epoch, and its destination refuses an epoch lower than one it has seen. Two
// holders may for an instant both believe that they hold a lease, but only the writes of the newer
// one count.
//
// Most callers use [Hold], which acquires, renews and releases a lease around a function. [Store]
// is the port below it; leaseredis keeps leases in Redis, leasemem in memory; both pass the suite
// leasetest.
package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrHeld is matched by [*HeldError]: the lease is held.
	ErrHeld = errors.New("lease is held")
	// ErrLost means that the caller no longer holds the lease, or cannot be sure that it does: the
	// lease expired, was released, or has another owner.
	ErrLost = errors.New("lease is lost")
	// ErrNotHeld means that the lease has no holder.
	ErrNotHeld = errors.New("lease is not held")
)

// HeldError means that a lease could not be acquired, and names its holder or the owner for whom it
// is reserved. It matches [ErrHeld].
type HeldError struct {
	Key       string
	Owner     string
	Epoch     uint64
	Remaining time.Duration // until the lease ends unless it is renewed, at the time of the store's answer
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: %q by %q at epoch %d for another %s", ErrHeld, e.Key, e.Owner, e.Epoch, e.Remaining)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool {
	return target == ErrHeld
}

// Lease is the proof that its owner holds a key. It is a value; only the latest one that Acquire or
// Renew returned has the right Deadline.
type Lease struct {
	Key   string
	Owner string
	// Epoch is the fencing number: higher than in every earlier lease of this key, and never 0.
	Epoch uint64
	// Deadline is when the holder must regard the lease as lost unless it has renewed it. It is
	// measured on the holder's own clock, from before the request was sent, so the store ends the
	// lease later than this.
	Deadline time.Time
}

// Expired reports whether the lease's Deadline has passed at now. It compares both clocks of a time
// value, and the one that is ahead wins: the monotonic one does not run while a machine is
// suspended, and the wall clock can be set back.
func (l Lease) Expired(now time.Time) bool {
	return !now.Before(l.Deadline) || !now.Round(0).Before(l.Deadline.Round(0))
}

// Holder describes the holder of a key.
type Holder struct {
	Owner     string
	Epoch     uint64
	Remaining time.Duration // until the lease ends unless it is renewed
}

// AcquireParams describes the lease to acquire.
type AcquireParams struct {
	// Key names the thing to own: not empty, at most 512 bytes, without braces or control characters.
	Key string
	// Owner names the requesting owner, in a form that others can use to reach it (a replica's name
	// or URL). Not empty, at most 512 bytes, without control characters.
	Owner string
	// TTL is how long the lease lasts without renewal. It is at least a millisecond.
	TTL time.Duration
	// MinEpoch is the highest epoch the caller remembers for this key, or 0. The new epoch will be
	// higher, even if the store has lost its memory.
	MinEpoch uint64
	// Grace delays the acquisition from a store that may have lost some of its memory, because an
	// earlier holder may still believe in its lease. The store detects this when MinEpoch is one
	// that it never gave, or knows it otherwise, as after a fail-over. For the time of Grace it
	// then refuses the lease to everybody, with a *HeldError without an owner. Zero: it grants the
	// lease at once.
	Grace time.Duration
	// Reclaim states that the caller held the lease, unexpired, when the store reported that it
	// does not exist: the caller itself is the earlier holder that Grace protects. It gets the
	// lease at once unless another owner holds it.
	Reclaim bool
}

// Store keeps leases. All methods may be called concurrently. Any error other than the named ones
// means that the outcome is unknown: the caller must assume the worse of the two.
type Store interface {
	// Acquire acquires the lease if it is free, under an epoch higher than all before and higher
	// than p.MinEpoch. While it is held the error is a *HeldError, even for its own owner: only
	// Renew extends a lease, and an owner that has lost its Lease value (it crashed) must not
	// acquire what its earlier self may still be using.
	Acquire(ctx context.Context, p AcquireParams) (Lease, error)

	// Renew makes a held lease last for ttl from now. The result has the same epoch and a later
	// Deadline. The error is ErrLost when the lease has ended, even if it has had no owner since.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)

	// Release ends a held lease at once. The error is ErrLost if it had already ended, which most
	// callers ignore.
	Release(ctx context.Context, l Lease) error

	// Bequeath ends a held lease at once, as Release does, and reserves the key: for the given time
	// only the heir can acquire it, and every other owner gets a *HeldError that names the heir.
	// The reservation ends when the heir acquires the lease. It gives the heir no other right, and
	// Holder does not report it. reserve is at least a millisecond.
	Bequeath(ctx context.Context, l Lease, heir string, reserve time.Duration) error

	// Holder returns the current holder of the key. The error is ErrNotHeld if there is none.
	Holder(ctx context.Context, key string) (Holder, error)
}

// maxText bounds keys and owners: both end up in names and values of the store.
const maxText = 512

// Check returns an error if p is invalid. Stores call it first.
func (p AcquireParams) Check() error {
	if err := CheckKey(p.Key); err != nil {
		return err
	}
	if !plain(p.Owner) {
		return fmt.Errorf("acquire lease: invalid owner %q", p.Owner)
	}
	if p.TTL < time.Millisecond {
		return fmt.Errorf("acquire lease: ttl %s is shorter than a millisecond", p.TTL)
	}
	return nil
}

// CheckBequest returns an error if the heir or the reservation is invalid. Stores call it first.
func CheckBequest(heir string, reserve time.Duration) error {
	if !plain(heir) {
		return fmt.Errorf("bequeath lease: invalid heir %q", heir)
	}
	if reserve < time.Millisecond {
		return fmt.Errorf("bequeath lease: reservation %s is shorter than a millisecond", reserve)
	}
	return nil
}

// CheckKey returns an error if key cannot name a lease. Braces are refused because they choose the
// slot in a Redis cluster.
func CheckKey(key string) error {
	if !plain(key) {
		return fmt.Errorf("invalid lease key %q", key)
	}
	if strings.ContainsAny(key, "{}") {
		return fmt.Errorf("invalid lease key %q: braces are not allowed", key)
	}
	return nil
}

func plain(text string) bool {
	return text != "" && len(text) <= maxText && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
