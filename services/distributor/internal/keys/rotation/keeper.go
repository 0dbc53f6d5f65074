// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

const (
	// lookEvery is the mean time between two readings of the keys of the database, unless the lead is
	// short.
	lookEvery  = 20 * time.Second
	looksALead = 4
	lookJitter = 0.25
	// stepSize bounds the values that are sealed while the lock of edits is held.
	stepSize = 100
	// unreadableEvery is how often a pass is repeated that found values that do not open.
	unreadableEvery = 10 * time.Minute
	// maxNamed bounds the unreadable values that one log record names.
	maxNamed = 10
)

// Params are the parts of a [Keeper]. All are required.
type Params struct {
	Seals   Seals
	Signing Signing
	// Issuer is given the signing keys.
	Issuer *identity.Issuer
	Policy Policy
	Logger *slog.Logger
}

// Keeper replaces keys on schedule and on request, and finishes rotations that another replica has
// begun. It is safe for concurrent use.
type Keeper struct {
	p    Params
	look wake.Signal

	// Of Run alone.
	sealedFor  string    // the key that has sealed all values, as far as this replica knows
	notBefore  time.Time // when the next pass may begin
	failed     bool
	unreadable atomic.Int64

	resealed atomic.Int64
}

// New returns a keeper. [Keeper.Load] must succeed before the issuer is used.
func New(p Params) *Keeper { return &Keeper{p: p, look: wake.NewSignal()} }

// Load gives the issuer the stored signing keys.
func (k *Keeper) Load(ctx context.Context) error {
	_, err := k.load(ctx)
	return err
}

func (k *Keeper) load(ctx context.Context) ([]SigningKey, error) {
	keys, err := k.p.Signing.SigningKeys(ctx)
	if err != nil {
		return nil, err
	}
	own := make([]identity.SigningKey, len(keys))
	for i, key := range keys {
		own[i] = key.SigningKey
	}
	return keys, k.p.Issuer.Use(own)
}

// Run keeps the keys until ctx is done, and returns its error. While the database does not answer,
// the known keys stay in use.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		err := errors.Join(k.keepSigning(ctx), k.keepSealing(ctx))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k.report(ctx, err)
		timer := time.NewTimer(backoff.Jitter(k.interval(), lookJitter))
		select {
		case <-ctx.Done():
		case <-k.look:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// interval is much shorter than the lead, so that every replica publishes a key before it signs.
func (k *Keeper) interval() time.Duration { return min(lookEvery, k.p.Policy.Lead/looksALead) }

// report logs the first failure of several, and the success after it.
func (k *Keeper) report(ctx context.Context, err error) {
	switch {
	case err != nil && !k.failed:
		k.p.Logger.WarnContext(ctx, "keys not looked after; trying again", slog.Any("error", err))
	case err == nil && k.failed:
		k.p.Logger.InfoContext(ctx, "keys looked after again")
	}
	k.failed = err != nil
}

// keepSigning loads the signing keys, and changes them when the schedule demands it.
func (k *Keeper) keepSigning(ctx context.Context) error {
	keys, err := k.load(ctx)
	if err != nil {
		return err
	}
	if _, due, err := k.p.Policy.Scheduled(keys, time.Now()); err != nil || !due {
		return err
	}
	if err := k.p.Signing.ChangeSigningKeys(ctx, k.p.Policy.Scheduled); err != nil {
		return err
	}
	after, err := k.load(ctx)
	if err == nil && after[len(after)-1].ID != keys[len(keys)-1].ID {
		k.announce(ctx, after[len(after)-1])
	}
	return err
}

func (k *Keeper) announce(ctx context.Context, key SigningKey) {
	k.p.Logger.InfoContext(ctx, "new signing key published", slog.String("key", key.ID), slog.Time("signs_at", key.SignsAt))
}

// RotateSigningKey publishes a new signing key, which signs after the policy's lead. The error is
// [ErrUnfinished] if the last one does not sign yet, and [ErrNotCurrent] if expected is
// neither empty nor its id.
func (k *Keeper) RotateSigningKey(ctx context.Context, expected string) (SigningKey, error) {
	if err := k.p.Signing.ChangeSigningKeys(ctx, k.p.Policy.RotateExpected(expected)); err != nil {
		return SigningKey{}, err
	}
	keys, err := k.load(ctx)
	if err != nil {
		return SigningKey{}, err
	}
	k.announce(ctx, keys[len(keys)-1])
	return keys[len(keys)-1], nil
}

// SigningKeys returns the stored signing keys in the order in which they sign.
func (k *Keeper) SigningKeys(ctx context.Context) ([]SigningKey, error) {
	return k.p.Signing.SigningKeys(ctx)
}

// RotateSealingKey makes a new sealing key, and begins to seal all values again. The error is
// [ErrUnfinished] during a rotation, and [ErrNotCurrent] see [Seals].
func (k *Keeper) RotateSealingKey(ctx context.Context, expected string) (string, error) {
	id, err := k.p.Seals.RotateSealingKey(ctx, expected)
	if err == nil {
		k.p.Logger.InfoContext(ctx, "new sealing key in use", slog.String("key", id))
		k.look.Set()
	}
	return id, err
}

// SealingKeys returns how far the rotation of the sealing key is.
func (k *Keeper) SealingKeys(ctx context.Context) (SealingState, error) {
	return k.p.Seals.SealingKeys(ctx)
}

// keepSealing seals all values with the current key, unless this replica knows that they are.
func (k *Keeper) keepSealing(ctx context.Context) error {
	current, err := k.p.Seals.SealingKey(ctx)
	if err != nil || current == k.sealedFor || time.Now().Before(k.notBefore) {
		return err
	}
	unlock, ok, err := k.p.Seals.LockReseal(ctx)
	if err != nil || !ok {
		return err // another replica does it
	}
	defer unlock()
	sealed, unreadable, err := k.pass(ctx)
	if err != nil {
		return err
	}
	k.unreadable.Store(int64(len(unreadable)))
	if len(unreadable) > 0 {
		k.notBefore = time.Now().Add(unreadableEvery)
		k.p.Logger.ErrorContext(ctx, "sealed values do not open; their keys are kept", slog.Int("values", len(unreadable)),
			slog.Any("first", unreadable[:min(len(unreadable), maxNamed)]))
		return nil
	}
	retired, err := k.p.Seals.RetireSealingKeys(ctx)
	if err != nil {
		return err
	}
	if !retired { // another rotation has begun in the meantime
		k.look.Set()
		return nil
	}
	k.sealedFor = current
	if sealed > 0 {
		k.p.Logger.InfoContext(ctx, "all values sealed with the current key", slog.String("key", current), slog.Int("sealed_again", sealed))
	}
	return nil
}

// pass reads every sealed value once.
func (k *Keeper) pass(ctx context.Context) (sealed int, unreadable []string, err error) {
	for step := (Step{}); !step.End; {
		if step, err = k.p.Seals.Reseal(ctx, step.Next, stepSize); err != nil {
			return sealed, unreadable, err
		}
		sealed += step.Sealed
		unreadable = append(unreadable, step.Unreadable...)
		k.resealed.Add(int64(step.Sealed))
	}
	return sealed, unreadable, nil
}

// Observe registers the keeper's metrics.
func (k *Keeper) Observe(meter metric.Meter) error {
	set := instrument.New(meter)
	set.Int64ObservableCounter("leat.seal.resealed", "{value}", "Stored secrets that this replica has sealed again with a newer key.",
		instrument.Value(k.resealed.Load))
	set.Int64ObservableGauge("leat.seal.unreadable", "{value}", "Stored secrets that did not open when they were to be sealed again.",
		instrument.Value(k.unreadable.Load))
	return set.Err()
}
