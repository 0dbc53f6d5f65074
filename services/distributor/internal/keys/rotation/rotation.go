// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rotation replaces the hub's keys while they are in use: the key that seals secrets in the
// database, and the key that signs access tokens.
//
// # The sealing key
//
// A new key seals from the moment at which it is stored, because every edit reads which key seals
// under the lock of edits. A [Keeper] then seals the older values again in bounded steps. It keeps
// no position: a value names its key, so any replica can continue. When no value names an old key,
// that key is deleted, and opens nothing any more.
//
// # The signing key
//
// A new key is published for [Policy.Lead] before it signs, so that services that cache the key set
// know it. The old key stays published for [Policy.Overlap] after that, which is longer than the
// life of any token. The times are stored with the keys: all replicas change over at the same time,
// without a message.
//
// # What it does not do
//
// It wraps nothing: package keyroot does. It replaces no service secret: those are settings.
package rotation

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
)

// ErrUnfinished means that the key was replaced a short time ago, and the rotation is still going
// on. The caller may try again when it has ended.
var ErrUnfinished = errors.New("the last rotation of this key has not ended yet")

// ErrNotCurrent means that the key that the caller wants replaced is not the current one.
var ErrNotCurrent = errors.New("the expected key is not the current one")

// SealingKey describes a key that seals. It does not contain the key.
type SealingKey struct {
	ID string
	// Root is the name of the root that wraps the key.
	Root      string
	CreatedAt time.Time
	// Current means that the key seals now.
	Current bool
	// Values is how many stored values the key has sealed.
	Values int
}

// SealingState is a rotation of the sealing key as the database shows it.
type SealingState struct {
	// Keys are all sealing keys, the newest first. More than one means that values are being sealed
	// again.
	Keys []SealingKey
	// WithoutKey is how many values name none of the keys: values of an earlier release.
	WithoutKey int
}

// Waiting returns how many values the current key has not sealed yet.
func (s SealingState) Waiting() int {
	n := s.WithoutKey
	for _, key := range s.Keys {
		if !key.Current {
			n += key.Values
		}
	}
	return n
}

// Cursor is how far a pass over all sealed values has come. The zero Cursor begins a pass.
type Cursor struct {
	Column int    // index of the column
	After  string // key of the last row in it
}

// Step is the result of one bounded part of a pass.
type Step struct {
	Next   Cursor
	Sealed int
	// Unreadable names the values that did not open. They are left as they are.
	Unreadable []string
	// End means that the pass is complete.
	End bool
}

// Seals is where sealed values and their keys are stored; sqlstore.Rotation implements it. Its methods
// may be called concurrently, also by several replicas. Errors match catalog.ErrUnavailable if the
// database, or the root of the keys, does not answer.
type Seals interface {
	// SealingKey returns the id of the key that seals. It reads one row.
	SealingKey(ctx context.Context) (string, error)
	// SealingKeys counts all sealed values by their key. It reads every sealed value.
	SealingKeys(ctx context.Context) (SealingState, error)
	// RotateSealingKey makes a new key, which seals from then on, and returns its id. The error is
	// ErrUnfinished while values of more than one key are stored, and ErrNotCurrent if expected is
	// neither empty nor the id of the current key.
	RotateSealingKey(ctx context.Context, expected string) (string, error)
	// Reseal seals up to limit values after the cursor with the current key. The values change in no
	// other way, and no reader is notified.
	Reseal(ctx context.Context, from Cursor, limit int) (Step, error)
	// RetireSealingKeys deletes all keys but the current one, and reports true, unless a value is
	// still sealed with another.
	RetireSealingKeys(ctx context.Context) (bool, error)
	// LockReseal takes the lock that one replica at a time can hold. It reports false if another
	// one has it. The lock ends with the process.
	LockReseal(ctx context.Context) (unlock func(), ok bool, err error)
}

// SigningKey is a key that signs access tokens, with its times.
type SigningKey struct {
	identity.SigningKey
	// ID is the kid of the tokens that it signs.
	ID string
}

// Signing is where signing keys are stored; sqlstore.Rotation implements it.
type Signing interface {
	// SigningKeys returns the keys in the order in which they sign. There is always at least one:
	// the first call makes it.
	SigningKeys(ctx context.Context) ([]SigningKey, error)
	// ChangeSigningKeys replaces the keys with the result of decide, unless it returns false or an
	// error. Calls of all replicas follow one another. decide may be called more than once.
	ChangeSigningKeys(ctx context.Context, decide func(keys []SigningKey, now time.Time) ([]SigningKey, bool, error)) error
}

// NewSigningKey returns a key with its id and without times.
func NewSigningKey(private ed25519.PrivateKey) (SigningKey, error) {
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return SigningKey{}, errors.New("signing key is not an Ed25519 key")
	}
	id, err := identity.KeyID(public)
	return SigningKey{SigningKey: identity.SigningKey{Private: private}, ID: id}, err
}

// MakeSigningKey returns a new key that signs from now on.
func MakeSigningKey(now time.Time) (SigningKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("generate signing key: %w", err)
	}
	key, err := NewSigningKey(private)
	key.CreatedAt, key.SignsAt = now, now
	return key, err
}

// Policy is when signing keys change.
type Policy struct {
	// Every is how long a key signs. Zero: until a person rotates it.
	Every time.Duration
	// Lead is how long a key is published before it signs.
	Lead time.Duration
	// Overlap is how long a key is published after its successor began to sign. It must be longer
	// than the life of any token.
	Overlap time.Duration
}

// Scheduled returns the keys that there should be now. It drops keys that have ended, and adds the
// next one when it is time to publish it. It reports false if nothing changes.
func (p Policy) Scheduled(keys []SigningKey, now time.Time) ([]SigningKey, bool, error) {
	kept := keys[:0:0]
	for _, key := range keys {
		if key.EndsAt.IsZero() || now.Before(key.EndsAt) {
			kept = append(kept, key)
		}
	}
	changed := len(kept) != len(keys)
	if p.Every == 0 || len(kept) == 0 || now.Add(p.Lead).Before(kept[len(kept)-1].SignsAt.Add(p.Every)) {
		return kept, changed, nil
	}
	after, err := p.follow(kept, now)
	return after, err == nil, err
}

// RotateExpected is Rotate for a caller who believes that the last key is the expected one. It
// returns ErrNotCurrent if that is another one.
func (p Policy) RotateExpected(expected string) func([]SigningKey, time.Time) ([]SigningKey, bool, error) {
	return func(keys []SigningKey, now time.Time) ([]SigningKey, bool, error) {
		if expected != "" && len(keys) > 0 && keys[len(keys)-1].ID != expected {
			return nil, false, ErrNotCurrent
		}
		return p.Rotate(keys, now)
	}
}

// Rotate returns the keys with a new one, whatever the schedule. The error is ErrUnfinished if the
// last key does not sign yet.
func (p Policy) Rotate(keys []SigningKey, now time.Time) ([]SigningKey, bool, error) {
	if len(keys) > 0 && keys[len(keys)-1].SignsAt.After(now) {
		return nil, false, ErrUnfinished
	}
	after, err := p.follow(keys, now)
	return after, err == nil, err
}

// follow adds the successor of the last key, and sets when the others end.
func (p Policy) follow(keys []SigningKey, now time.Time) ([]SigningKey, error) {
	next, err := MakeSigningKey(now)
	if err != nil {
		return nil, err
	}
	next.SignsAt = now.Add(p.Lead)
	for i := range keys {
		if keys[i].EndsAt.IsZero() {
			keys[i].EndsAt = next.SignsAt.Add(p.Overlap)
		}
	}
	return append(keys, next), nil
}
