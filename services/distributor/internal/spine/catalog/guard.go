// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
)

// Guard decides for an Editor who may make which edit. It is asked inside the edit, with the state
// stored then, before references are looked up. Its errors end the edit and are returned unchanged.
type Guard interface {
	// Sees reports whether the caller may know of the object. An edit of another object goes as if the
	// object did not exist.
	Sees(object Object) bool
	// MayCreate returns an error unless the caller may add the object. find reads other objects.
	MayCreate(ctx context.Context, find Finder, next Object) error
	// MayUpdate returns an error unless the caller may replace current by next, both of which are
	// complete.
	MayUpdate(ctx context.Context, find Finder, current, next Object) error
	// MayDelete returns an error unless the caller may remove the object.
	MayDelete(ctx context.Context, find Finder, current Object) error
	// MayNameAddresses reports whether the caller may have the hub reach any address: whether they may
	// create repositories of the hub.
	MayNameAddresses() bool
}

// Finder reads other objects, as the edit sees them.
type Finder interface {
	// Get returns an object as stored. Error: *NotFoundError.
	Get(ctx context.Context, key Key) (Object, error)
	// SourcesReading returns the fleet sources that read a repository, in no order.
	SourcesReading(ctx context.Context, repository string) ([]*FleetSource, error)
}

// Under returns an Editor whose edits the guard has to allow.
func (e *Editor) Under(guard Guard) *Editor {
	next := *e
	next.guard = guard
	return &next
}

// unguarded allows everything: edits of the hub itself.
type unguarded struct{}

func (unguarded) Sees(Object) bool { return true }

func (unguarded) MayCreate(context.Context, Finder, Object) error { return nil }

func (unguarded) MayUpdate(context.Context, Finder, Object, Object) error { return nil }

func (unguarded) MayDelete(context.Context, Finder, Object) error { return nil }

func (unguarded) MayNameAddresses() bool { return true }

// seen returns the stored object of that key. One that the guard's caller may not see is not found.
func (e *Editor) seen(ctx context.Context, tx Tx, key Key) (Object, error) {
	current, err := stored(ctx, tx, key)
	if err == nil && !e.guard.Sees(current) {
		return nil, &NotFoundError{Key: key}
	}
	return current, err
}

// checkTaken returns the error for a new object whose name is taken. Its caller learns that only if
// they might have created the object.
func (e *Editor) checkTaken(ctx context.Context, tx Tx, object Object) error {
	if err := e.guard.MayCreate(ctx, tx, object); err != nil {
		return err
	}
	return &ExistsError{Key: object.Key()}
}

// VerbsOf returns what an update does to an object: the verbs of its resource that the editor
// needs. A service can be paused and have a prune confirmed by people who may change nothing else
// of it. They may not choose what it follows, so another ref needs [VerbUpdate]; [Pins] go back to
// its history.
func VerbsOf(current, next Object) []string {
	from, ok := current.(*Service)
	to, ok2 := next.(*Service)
	if !ok || !ok2 || !sameLabels(from.Meta(), to.Meta()) {
		return []string{VerbUpdate}
	}
	var verbs []string
	a, b := from.Spec.Wanted(), to.Spec.Wanted()
	if !a.Pause().Equal(b.Pause()) {
		verbs = append(verbs, VerbPause)
	}
	if a.PruneConfirmation != b.PruneConfirmation {
		verbs = append(verbs, VerbConfirm)
	}
	a = a.WithPause(b.Pause())
	a.PruneConfirmation = b.PruneConfirmation
	rest := *from
	rest.Spec.Options = &a
	if len(verbs) == 0 || !rest.sameSpec(to) {
		return []string{VerbUpdate}
	}
	return verbs
}
