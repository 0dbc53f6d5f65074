// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// updateDerived stores what an update decides about a derived service: whether it is paused, and
// which prune is agreed to. Everything else is the global service's. Errors: *DerivedError,
// ErrConflict, the guard's.
func (e *Editor) updateDerived(ctx context.Context, tx Tx, current *Service, object Object) (Outcome, error) {
	refusal := &DerivedError{Service: current.Name, Global: current.Derived.Global}
	if version := object.Meta().ResourceVersion; version != 0 && version != current.ResourceVersion {
		return Outcome{}, ErrConflict
	}
	next, ok := normal(object).(*Service)
	if !ok {
		return Outcome{}, refusal
	}
	if next.Spec.Config == nil { // it proves nothing; secrets are empty on both sides
		next.Spec.Config = current.Spec.Config
	}
	isSame := next.sameSpec(current) && sameLabels(current.Meta(), next.Meta())
	isOther := func(verb string) bool { return verb != VerbPause && verb != VerbConfirm }
	if !isSame && slices.ContainsFunc(VerbsOf(current, next), isOther) {
		return Outcome{}, refusal
	}
	if err := e.guard.MayUpdate(ctx, tx, current, next); err != nil {
		return Outcome{}, err
	}
	if isSame {
		return Outcome{Action: ActionUnchanged, Object: current}, nil
	}
	before, after := current.Spec.Wanted(), next.Spec.Wanted()
	if err := checkEnds(e.presence, current, next); err != nil {
		return Outcome{}, err
	}
	if !before.Pause().Equal(after.Pause()) && !current.mayPauseAs(after.Pause(), Now()) {
		return Outcome{}, refusal
	}
	origin := OriginOf(ctx)
	decided := func(e *Exception) {
		if !before.Pause().Equal(after.Pause()) {
			e.Paused, e.PausedUntil = after.Paused, after.PausedUntil
		}
		if before.PruneConfirmation != after.PruneConfirmation {
			e.PruneConfirmation = after.PruneConfirmation
		}
		e.By, e.At, e.Reason = origin.By(), Now(), origin.Reason
	}
	stored, err := tx.Except(ctx, current, VerbsOf(current, next), decided)
	if err != nil {
		return Outcome{}, err
	}
	excepted := *current
	excepted.Except(stored)
	return Outcome{Action: ActionConfigured, Object: &excepted}, nil
}

// mayPauseAs reports whether a derived service can have that pause: a person may add to the pause of
// its global service, and may not end that earlier. A pause of the global service that has ended
// stands in nobody's way.
func (s *Service) mayPauseAs(wanted syncpolicy.Pause, at time.Time) bool {
	global := s.pauseOfGlobal()
	return !global.At(at) || global.Or(wanted).Equal(wanted)
}

// derivedOf returns the derived service of that key if err means that no service is stored there.
// It returns nil for a service that the caller may not see.
func (e *Editor) derivedOf(key Key, err error) *Service {
	if key.Kind != KindService || !errors.Is(err, ErrNotFound) {
		return nil
	}
	if derived := e.derived.Derived(key.Name); derived != nil && e.guard.Sees(derived) {
		return derived
	}
	return nil
}
