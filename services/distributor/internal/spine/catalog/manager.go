// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// KindOfManager is the only kind of objects that manage others.
const KindOfManager = KindFleetSource

// ManagerText returns how people are shown the fleet source of that path as a manager.
func ManagerText(source string) string { return "fleetsource/" + objectname.Display(source) }

// ManagedError means that a fleet source manages the object, so others may not change it.
type ManagedError struct {
	Key Key
	// Source is the path of the fleet source.
	Source string
}

// Error implements error.
func (e *ManagedError) Error() string {
	return fmt.Sprintf("%s is managed by %s", e.Key, ManagerText(e.Source))
}

// DiffersError means that a fleet source may not take an object over, because the object was there
// before and differs from its document.
type DiffersError struct{ Key Key }

// Error implements error.
func (e *DiffersError) Error() string {
	return fmt.Sprintf("%s exists already, nobody manages it, and it differs from the document", e.Key)
}

// Manager is the fleet source in whose name an Editor works.
type Manager struct {
	// Source is the fleet source.
	Source SourceRef
	// Version is the resource version of the fleet source. Its edits fail with ErrManagerChanged if
	// another one is stored.
	Version int64
	// Adopt takes over objects without a manager even if they differ.
	Adopt bool
}

// ErrManagerChanged means that the fleet source in whose name an edit was made has been changed or deleted.
var ErrManagerChanged = errors.New("the fleet source has changed")

// ManagedAs returns an Editor whose objects the fleet source manages from then on. Its further errors
// are *ManagedError, *DiffersError and ErrManagerChanged.
func (e *Editor) ManagedAs(manager Manager) *Editor {
	next := *e
	next.manager = manager
	return &next
}

// WithPublic returns an Editor that knows by isSame whether two objects differ in nothing but secrets.
// People may give managed objects other secrets, which are not in Git.
func (e *Editor) WithPublic(isSame func(a, b Object) bool) *Editor {
	next := *e
	next.samePublic = isSame
	return &next
}

// checkManager returns an error unless the fleet source that edits, if one does, is as it was.
func (e *Editor) checkManager(ctx context.Context, tx Tx) error {
	if e.manager.Source == (SourceRef{}) {
		return nil
	}
	source, err := tx.Get(ctx, Key{KindFleetSource, e.manager.Source.Path})
	if errors.Is(err, ErrNotFound) || err == nil && source.Meta().ResourceVersion != e.manager.Version {
		return ErrManagerChanged
	}
	return err
}

// settleManager returns the fleet source that manages the object after an update, which changes nothing
// else if isSame.
func (e *Editor) settleManager(ctx context.Context, tx Tx, current, next Object, isSame bool) (SourceRef, error) {
	source, err := managing(ctx, tx, current)
	if err != nil {
		return SourceRef{}, err
	}
	none, kept := SourceRef{}, SourceRef{}
	if source != nil {
		kept = current.Meta().Manager
	}
	switch own := e.manager.Source; {
	case own != none && kept != none && kept != own:
		return none, &ManagedError{Key: current.Key(), Source: kept.Path}
	case own != none && kept == none && !isSame && !e.manager.Adopt && current.Meta().ResourceVersion != 0: // zero: the unwritten project default
		return none, &DiffersError{Key: current.Key()}
	case own != none:
		return own, nil
	case isSame || source == nil || e.mayEditManaged(source, current, next):
		return kept, nil
	}
	return none, &ManagedError{Key: current.Key(), Source: kept.Path}
}

// managing returns the fleet source that manages an object, or nil if none does. One that was deleted
// manages nothing, and neither does another one that was then created under its path.
func managing(ctx context.Context, tx Tx, object Object) (*FleetSource, error) {
	manager := object.Meta().Manager
	if manager == (SourceRef{}) {
		return nil, nil
	}
	found, err := tx.Get(ctx, Key{KindFleetSource, manager.Path})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	source, ok := found.(*FleetSource)
	if err != nil || !ok || source.UID != manager.UID {
		return nil, err
	}
	return source, nil
}

// mayEditManaged reports whether people may make a change of an object that the source manages: while
// the source does nothing, of the source itself, of secrets, and to confirm a prune or a removal.
func (e *Editor) mayEditManaged(source *FleetSource, current, next Object) bool {
	if !source.Spec.IsActive(Now()) || current.Key() == source.Key() {
		return true
	}
	if e.samePublic != nil && e.samePublic(current, next) {
		return true
	}
	if from, ok := current.(*GlobalService); ok {
		return isConfirmation(from, next)
	}
	_, isService := current.(*Service)
	return isService && slices.Equal(VerbsOf(current, next), []string{VerbConfirm})
}

// isConfirmation reports whether an edit of a global service changes nothing but spec.removal.confirmation.
func isConfirmation(from *GlobalService, next Object) bool {
	to, ok := next.(*GlobalService)
	if !ok || !sameLabels(from.Meta(), to.Meta()) {
		return false
	}
	plain := *to
	plain.Spec.Removal.Confirmation = from.Spec.Removal.Confirmation
	return plain.sameSpec(from)
}

// mayDeleteManaged returns an error if a fleet source manages the object, and the Editor works for
// another caller.
func (e *Editor) mayDeleteManaged(ctx context.Context, tx Tx, current Object) error {
	source, err := managing(ctx, tx, current)
	isManaging := e.manager.Source != SourceRef{}
	switch {
	case err != nil:
		return err
	case isManaging && (source == nil || current.Meta().Manager != e.manager.Source):
		return &DiffersError{Key: current.Key()}
	case isManaging, source == nil, !source.Spec.IsActive(Now()), current.Key() == source.Key():
		return nil
	}
	return &ManagedError{Key: current.Key(), Source: source.Name}
}

// keepConfirmation keeps the confirmation of a prune or of a removal, which people give and Git does not hold.
func keepConfirmation(current, next Object) {
	if from, ok := current.(*GlobalService); ok {
		if to, ok := next.(*GlobalService); ok && to.Spec.Removal.Confirmation == "" {
			to.Spec.Removal.Confirmation = from.Spec.Removal.Confirmation
		}
		return
	}
	from, ok := current.(*Service)
	to, ok2 := next.(*Service)
	if !ok || !ok2 || from.Spec.Wanted().PruneConfirmation == "" || to.Spec.Wanted().PruneConfirmation != "" {
		return
	}
	options := to.Spec.Wanted()
	options.PruneConfirmation = from.Spec.Wanted().PruneConfirmation
	to.Spec.Options = &options
}
