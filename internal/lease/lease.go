// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease gives one owner at a time exclusive work, and every owner a number that tells it
// from earlier ones.
//
// A lease ends by itself when its holder stops renewing it, so a dead holder blocks nobody for
// longer than the lease's time. But no clock can promise that a holder which froze notices in time.
// Each lease therefore carries an epoch, which grows at every change of owner; whatever is written
// under a lease carries the epoch, and the place it is written to refuses an epoch lower than one
// it has seen. Two parties may for an instant both believe that they hold a lease; only the newer
// one's writes count.
//
// [Hold] is what most callers want: it acquires, renews and releases around a function. [Store] is
// the port below it; leaseredis keeps leases in Redis, leasemem in memory; leasetest proves both.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrHeld is matched by [*HeldError]: somebody holds the lease now.
	ErrHeld = errors.New("lease is held")
	// ErrLost means that the lease is no longer, or not surely, ours: it expired, was released, or
	// has another owner.
	ErrLost = errors.New("lease is lost")
	// ErrNotHeld means that nobody holds the lease now.
	ErrNotHeld = errors.New("lease is not held")
)

// HeldError tells who holds a lease, or for whom it is reserved, that could not be acquired. It
// matches [ErrHeld].
type HeldError struct {
	Key       string
	Owner     string
	Epoch     uint64
	Remaining time.Duration // until the lease ends unless it is renewed, as the store saw it when it answered
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
	// Epoch is the fencing number: higher than that of every earlier lease of this key, and never
	// 0.
	Epoch uint64
	// Deadline is when the holder must take the lease for lost unless it has renewed it. It is on
	// the holder's own clock and conservative: it is counted from before the request was sent, so
	// the store ends the lease later than this.
	Deadline time.Time
}

// Expired reports whether the lease's Deadline has passed at now. Both clocks of a time value
// count, and the one that is ahead wins: the monotonic one does not run while a machine is
// suspended, and the wall clock can be set back.
func (l Lease) Expired(now time.Time) bool {
	return !now.Before(l.Deadline) || !now.Round(0).Before(l.Deadline.Round(0))
}

// Holder tells who holds a key.
type Holder struct {
	Owner     string
	Epoch     uint64
	Remaining time.Duration // until the lease ends unless it is renewed
}

// AcquireParams says which lease to acquire.
type AcquireParams struct {
	// Key names what is to be owned: not empty, at most 512 bytes, without braces and control
	// characters.
	Key string
	// Owner names who wants it, in words that others can use to reach it (a replica's name or URL).
	// Not empty, at most 512 bytes, without control characters.
	Owner string
	// TTL is how long the lease lasts without renewal; at least a millisecond.
	TTL time.Duration
	// MinEpoch is the highest epoch the caller remembers for this key, or 0. The new epoch will be
	// higher, even where the store has lost its memory.
	MinEpoch uint64
	// Grace is for a store that may have lost some of its memory, which it sees from a MinEpoch
	// that it never gave, or knows of itself, as after a fail-over: a holder from before may still
	// believe in its lease. For that long the store then gives the lease to nobody, with a
	// *HeldError without an owner. Zero: it gives it at once.
	Grace time.Duration
	// Reclaim tells that the caller held the lease, and in time, when the store said that it does
	// not exist: the holder from before, for whose sake Grace is there, is the caller itself. It
	// gets the lease at once unless somebody else holds it.
	Reclaim bool
}

// Store keeps leases. All methods may be called concurrently. Any error other than those named
// means that the outcome is unknown: the caller must assume the worse of the two.
type Store interface {
	// Acquire takes the lease if nobody holds it, under an epoch higher than all before and higher
	// than p.MinEpoch. While it is held the error is a *HeldError, for its own owner too: holding
	// on is Renew's business, and an owner that has lost its Lease value (it crashed) must not take
	// what its earlier self may still be using.
	Acquire(ctx context.Context, p AcquireParams) (Lease, error)

	// Renew makes a held lease last for ttl from now. The result has the same epoch and a later
	// Deadline. The error is ErrLost when the lease has ended, even if nobody has taken it since.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)

	// Release ends a held lease at once. The error is ErrLost when it had ended before; most
	// callers do not care.
	Release(ctx context.Context, l Lease) error

	// Bequeath ends a held lease at once, as Release does, and reserves the key: for that long only
	// the heir can acquire it, and everybody else gets a *HeldError with the heir for an owner. The
	// reservation ends when the heir acquires; it gives the heir no right but that one, and Holder
	// does not know it. reserve is at least a millisecond.
	Bequeath(ctx context.Context, l Lease, heir string, reserve time.Duration) error

	// Holder tells who holds the key now; the error is ErrNotHeld when nobody does.
	Holder(ctx context.Context, key string) (Holder, error)
}

// maxText bounds keys and owners: both end up in names and values of the store.
const maxText = 512

// Check tells what is wrong with p, for stores to call first.
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

// CheckBequest tells what is wrong with an heir and a reservation, for stores to call first.
func CheckBequest(heir string, reserve time.Duration) error {
	if !plain(heir) {
		return fmt.Errorf("bequeath lease: invalid heir %q", heir)
	}
	if reserve < time.Millisecond {
		return fmt.Errorf("bequeath lease: reservation %s is shorter than a millisecond", reserve)
	}
	return nil
}

// CheckKey reports whether key can name a lease. Braces are refused because they choose the slot in
// a Redis cluster.
func CheckKey(key string) error {
	if !plain(key) {
		return fmt.Errorf("invalid lease key %q", key)
	}
	for _, r := range key {
		if r == '{' || r == '}' {
			return fmt.Errorf("invalid lease key %q: braces are not allowed", key)
		}
	}
	return nil
}

func plain(text string) bool {
	if text == "" || len(text) > maxText {
		return false
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			return false
		}
	}
	return true
}
